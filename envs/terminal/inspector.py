"""The verifier of terminal tasks: looks at files and processes inside the sandbox.

This file is sent whole into the sandbox and run there by ``/usr/bin/python3 -I -B -c``, as the
agent's user; so it imports the standard library only and works on Python 3.9 and later. It reads
``{"root": folder, "checks": [...]}`` on standard input and writes ``[[ok, why], ...]``, one pair
per check. It changes nothing, never follows a link given as the path of a file, opens no pipe or
device, reads at most ``MAX_BYTES`` of a file and spends at most ``CHECK_S`` seconds on one check,
``TOTAL_S`` on all.

What the agent left behind makes a check fail, however strange it is; only a malformed check makes
the program crash, which the caller reports as a ``VerifierError``. ``envs.terminal.checks`` builds
the checks.
"""

# Runs on any Python from 3.9 and starts fast: no pathlib.
# ruff: noqa: PTH114, PTH115, PTH118, PTH119, PTH123, PTH208

import io
import json
import os
import re
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

MAX_BYTES = 4 << 20
MAX_ENTRIES = 4000
CHECK_S = 5.0
TOTAL_S = 40.0

Check = dict[str, Any]


class Mismatch(Exception):
    """The state is not what the check wants; the message says how it differs."""


def _lstat(path: str) -> os.stat_result:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        raise Mismatch("missing") from None


def _read(path: str) -> bytes:
    """Return the bytes of a plain file: no link, pipe, device or folder, and not a huge one."""
    if not stat.S_ISREG(_lstat(path).st_mode):
        raise Mismatch("not a plain file")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Mismatch("not a plain file")
        data = file.read(MAX_BYTES + 1)
    return _bounded(data)


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise Mismatch("too large")
    return data


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Mismatch("not UTF-8 text") from None


def _lines(text: str) -> list[str]:
    """Lines without blanks at their ends and without empty lines at the end of the text."""
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n").split("\n")


def _names(text: str) -> list[str]:
    return sorted(os.path.basename(line.rstrip("/")) for line in _lines(text.strip()))


def same(found: bytes, want: str, how: str) -> bool:
    """Compare bytes with the wanted text; ``envs.terminal.checks`` explains ``how``."""
    if how == "bytes":
        return found == want.encode()
    text = _text(found)
    if how == "text":
        return text.rstrip("\n") == want.rstrip("\n")
    if how == "lines":
        return _lines(text) == _lines(want)
    if how == "any_order":
        return sorted(_lines(text.strip("\n"))) == sorted(_lines(want.strip("\n")))
    if how == "names":
        return _names(text) == _names(want)
    if how == "number":
        try:
            return abs(float(text.strip()) - float(want)) < 1e-9
        except ValueError:
            return False
    raise KeyError(f"unknown comparison {how!r}")


def _expect(found: bytes, check: Check) -> None:
    if not same(found, check["text"], check.get("how", "text")):
        raise Mismatch(f"content differs: {found[:120]!r}")


def file(check: Check, path: str) -> None:
    """A plain file with this content; ``own`` also refuses a second hard link to it."""
    data = _read(path)
    if check.get("own") and os.lstat(path).st_nlink != 1:
        raise Mismatch("a hard link, not a file of its own")
    _expect(data, check)


def matches(check: Check, path: str) -> None:
    """A plain file whose whole text matches a regular expression, blanks at the ends aside."""
    if not re.fullmatch(check["pattern"], _text(_read(path)).strip()):
        raise Mismatch("does not match")


def exists(check: Check, path: str) -> None:
    """Anything at the path; ``type`` asks for a plain ``file`` or a ``dir``, not links to them."""
    mode, kind = _lstat(path).st_mode, check.get("type")
    if (kind == "file" and not stat.S_ISREG(mode)) or (kind == "dir" and not stat.S_ISDIR(mode)):
        raise Mismatch("not a " + kind)


def absent(check: Check, path: str) -> None:
    """Nothing at the path, not even a broken link. What cannot be looked at is not gone."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    raise Mismatch("still there")


def mode(check: Check, path: str) -> None:
    """Permission bits: equal to ``equals``, or all of ``has`` and none of ``lacks`` (octal)."""
    status = _lstat(path)
    if stat.S_ISLNK(status.st_mode):
        raise Mismatch("a link")
    bits = stat.S_IMODE(status.st_mode)
    has, lacks = int(check.get("has", "0"), 8), int(check.get("lacks", "0"), 8)
    right = bits & has == has and not bits & lacks
    if "equals" in check:
        right = right and bits == int(check["equals"], 8)
    if not right:
        raise Mismatch(f"mode is {bits:o}")


def link(check: Check, path: str) -> None:
    """A symbolic link that leads to the same place as ``target``, however it is written."""
    if not stat.S_ISLNK(_lstat(path).st_mode):
        raise Mismatch("not a symbolic link")
    if os.path.realpath(path) != os.path.realpath(check["target"]):
        raise Mismatch("leads to " + os.readlink(path))


def tree(check: Check, path: str) -> None:
    """A folder that holds exactly these files (path → text or null for any) and no other file.

    Folders count only as far as files lie in them; ``how`` compares contents.
    """
    if not stat.S_ISDIR(_lstat(path).st_mode):
        raise Mismatch("not a folder")
    found: set[str] = set()
    entries = 0
    for folder, names, files in os.walk(path, onerror=_refuse):
        entries += len(names) + len(files)
        if entries > MAX_ENTRIES:
            raise Mismatch("too many files")
        links = [name for name in names if os.path.islink(os.path.join(folder, name))]
        found.update(os.path.relpath(os.path.join(folder, n), path) for n in files + links)
    _match_names(found, check["files"])
    for name, text in check["files"].items():
        data = _read(os.path.join(path, name))
        if text is not None:
            _expect(data, {"text": text, "how": check.get("how", "text")})


def _refuse(error: OSError) -> None:
    """A folder that cannot be read may hold anything."""
    raise error


def _match_names(found: Any, wanted: Any) -> None:
    missing, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    if missing or extra:
        raise Mismatch(f"missing {missing[:4]}, unexpected {extra[:4]}")


@contextmanager
def _unpacking() -> Iterator[None]:
    """Whatever a decoder makes of bytes of the agent's (each has its own errors, ``struct.error``
    and ``ValueError`` among them) is a broken archive."""
    try:
        yield
    except Mismatch:
        raise
    except Exception as error:
        raise Mismatch(f"broken archive: {error!r}") from None


def _inflate(data: bytes) -> bytes:
    """Return what a gzip, bzip2 or xz file holds; anything else as it is."""
    import bz2
    import gzip
    import lzma

    openers: tuple[tuple[bytes, Any], ...] = (
        (b"\x1f\x8b", gzip.open),
        (b"BZh", bz2.open),
        (b"\xfd7zXZ", lzma.open),
    )
    for magic, opener in openers:
        if data.startswith(magic):
            with _unpacking():
                return _bounded(opener(io.BytesIO(data)).read(MAX_BYTES + 1))
    return data


def compressed(check: Check, path: str) -> None:
    """A gzip file (``format`` may be bzip2 or xz) with this content."""
    magics = {"gzip": b"\x1f\x8b", "bzip2": b"BZh", "xz": b"\xfd7zXZ"}
    data = _read(path)
    if not data.startswith(magics[check.get("format", "gzip")]):
        raise Mismatch("not of this format")
    _expect(_inflate(data), check)


def _members(data: bytes, kind: str) -> dict[str, bytes]:
    """Plain files of an archive by cleaned name (``./a`` and ``a`` are one)."""
    import tarfile
    import zipfile

    found: dict[str, bytes] = {}
    total = 0
    with _unpacking():
        if kind == "zip":
            with zipfile.ZipFile(io.BytesIO(data)) as pack:
                for entry in pack.infolist():
                    total += entry.file_size
                    if not entry.is_dir() and total <= MAX_BYTES:
                        found[os.path.normpath(entry.filename)] = pack.read(entry)
        else:
            with tarfile.open(fileobj=io.BytesIO(_inflate(data))) as tar:
                for member in tar:
                    total += max(0, member.size)
                    source = tar.extractfile(member) if member.isreg() else None
                    if source and total <= MAX_BYTES:
                        found[os.path.normpath(member.name)] = source.read()
    if total > MAX_BYTES:
        raise Mismatch("too large")
    return found


def archive(check: Check, path: str) -> None:
    """A tar (plain or compressed) or zip archive with exactly these files.

    ``format`` is ``tar``, ``tar.gz`` or ``zip``; ``files`` maps names to texts. With ``strip`` only
    the last part of each name counts, so that ``tar -C x .`` and ``tar x`` are both right.
    """
    data, kind = _read(path), check["format"]
    if kind not in ("tar", "tar.gz", "zip"):
        raise KeyError(f"unknown format {kind!r}")
    if kind == "tar.gz" and not data.startswith(b"\x1f\x8b"):
        raise Mismatch("not compressed by gzip")
    found, wanted = _members(data, kind), check["files"]
    if check.get("strip"):
        found = {os.path.basename(name): body for name, body in found.items()}
        wanted = {os.path.basename(name): text for name, text in wanted.items()}
    _match_names(found, wanted)
    for name, text in wanted.items():
        if found[name] != text.encode():
            raise Mismatch(f"content of {name} differs")


def _processes() -> dict[int, list[str]]:
    """Command lines of live processes by id; kernel threads and zombies have none."""
    table = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as source:
                    raw = source.read(4096)
            except OSError:
                continue
            if raw:
                table[int(entry)] = [part.decode("utf-8", "replace") for part in raw.split(b"\0")]
    return table


def process(check: Check, path: str) -> None:
    """Processes whose arguments start with ``argv``: ``running`` says whether there must be one.

    ``pid_file`` names a file that must hold the id of such a process.
    """
    want = check["argv"]
    alive = [pid for pid, argv in _processes().items() if argv[: len(want)] == want]
    if bool(alive) != check["running"]:
        raise Mismatch("not running" if check["running"] else "still running")
    if "pid_file" in check and _text(_read(path)).strip() not in map(str, alive):
        raise Mismatch("the file does not hold its id")


KINDS: dict[str, Callable[[Check, str], None]] = {
    "file": file,
    "matches": matches,
    "exists": exists,
    "absent": absent,
    "mode": mode,
    "link": link,
    "tree": tree,
    "compressed": compressed,
    "archive": archive,
    "process": process,
}


def _alarm(signum: int, frame: Any) -> None:
    raise Mismatch("took too long to inspect")


def inspect(root: str, checks: list[Check]) -> list[list[Any]]:
    """Return ``[ok, why]`` per check. Paths are relative to ``root`` unless absolute."""
    results: list[list[Any]] = []
    end = time.monotonic() + TOTAL_S
    for check in checks:
        run = KINDS[check["kind"]]
        path = os.path.join(root, check.get("path") or check.get("pid_file") or ".")
        left_s = min(CHECK_S, max(0.05, end - time.monotonic()))
        try:
            signal.setitimer(signal.ITIMER_REAL, left_s)
            os.chdir(root)
            run(check, path)
            results.append([True, ""])
        except (Mismatch, OSError, MemoryError, RecursionError, NotImplementedError) as error:
            results.append([False, str(error)[:200]])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return results


def main() -> None:
    """Read the request, write the results."""
    signal.signal(signal.SIGALRM, _alarm)
    request = json.load(sys.stdin)
    json.dump(inspect(request["root"], request["checks"]), sys.stdout)


if __name__ == "__main__":
    main()
