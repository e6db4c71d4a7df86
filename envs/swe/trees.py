"""Source trees as plain ``{path: bytes}``, to and from tar, and what of the agent's tree counts."""

import gzip
import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

Tree = dict[str, bytes]

MOST_BYTES = 16 << 20
_NEVER_SOURCE = frozenset(
    ("conftest.py", "sitecustomize.py", "usercustomize.py", "pytest.ini", "setup.cfg", "tox.ini")
)
_NEVER_SUFFIX = frozenset((".pyc", ".pyo", ".pth", ".so", ".orig", ".rej"))  # last two: of patch


def pack(tree: Mapping[str, bytes]) -> bytes:
    """Return a gzipped tar of the files; equal trees give equal bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:") as tar:
        for path in sorted(tree):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(tree[path]), 0o644
            tar.addfile(entry, io.BytesIO(tree[path]))
    return gzip.compress(out.getvalue(), mtime=0)


def unpack(data: bytes, *, strip: int = 0) -> Tree:
    """Return the regular files of a tar; links, devices and paths that lead out are left away.

    Args:
        strip: leading folders to drop from every path.

    Raises:
        ValueError: no tar, or more than ``MOST_BYTES`` inside.
    """
    tree: Tree = {}
    total = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as tar:
            for entry in tar:
                parts = PurePosixPath(entry.name).parts[strip:]
                if not entry.isreg() or not parts or ".." in parts or parts[0] == "/":
                    continue
                total += entry.size
                if total > MOST_BYTES:
                    raise ValueError(f"the tree holds more than {MOST_BYTES} bytes")
                file = tar.extractfile(entry)
                assert file is not None
                tree["/".join(parts)] = file.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"not a usable tar: {error}") from error
    return tree


def under(path: str, places: Sequence[str]) -> bool:
    """True when a path is one of the places or lies in one."""
    return any(path == place or path.startswith(f"{place}/") for place in places)


def source_files(tree: Mapping[str, bytes], sources: Sequence[str], tests: Sequence[str]) -> Tree:
    """Return the files that count as the agent's source: inside ``sources``, outside ``tests``, and
    nothing that steers a test runner or the interpreter from the side."""
    return {
        path: data
        for path, data in tree.items()
        if under(path, sources) and not under(path, tests) and _is_plain(path)
    }


def _is_plain(path: str) -> bool:
    pure = PurePosixPath(path)
    return (
        "__pycache__" not in pure.parts
        and pure.name not in _NEVER_SOURCE
        and pure.suffix not in _NEVER_SUFFIX
    )
