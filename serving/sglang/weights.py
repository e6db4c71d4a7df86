"""A publication as SGLang wants it: a folder in HF layout, whole, checked before a server sees it.

A server that fails half-way through an update has nothing to go back to: its own roll-back reads
the new folder again. So names, shapes, lengths and values are checked here, and an update of some
tensors is first merged with those in use. The folders lie beside the update file; the servers must
see the same paths.

Nothing here needs torch: a safetensors file is a length, a JSON header and the bytes.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..errors import EngineError

KEPT_FOLDERS = 2  # the one in use, and the one before for a server that is still reading
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".index.json")
CHUNK_BYTES = 1 << 24
LONGEST_HEADER = 1 << 27
TIED_HEAD = "lm_head.weight"
# how to read a dtype, and the bits that are all set in NaN and infinity
EXPONENTS: Mapping[str, tuple[str, int]] = {
    "F64": ("<u8", 0x7FF0_0000_0000_0000),
    "F32": ("<u4", 0x7F80_0000),
    "F16": ("<u2", 0x7C00),
    "BF16": ("<u2", 0x7F80),
}


@dataclass(frozen=True)
class Tensor:
    """Where a tensor's bytes lie.

    Attributes:
        start: of its first byte in the file.
    """

    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    num_bytes: int

    def is_finite(self) -> bool:
        """Whether it holds neither NaN nor infinity; integers and small floats cannot be told."""
        if self.dtype not in EXPONENTS or not self.num_bytes:
            return True
        kind, mask = EXPONENTS[self.dtype]
        raw = np.memmap(
            self.file, dtype=np.uint8, mode="r", offset=self.start, shape=(self.num_bytes,)
        )
        bits = raw.view(kind)
        exponent = bits.dtype.type(mask)
        step = CHUNK_BYTES // bits.itemsize
        return not any(
            bool(((bits[at : at + step] & exponent) == exponent).any())
            for at in range(0, len(bits), step)
        )


def read_header(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file by name.

    Raises:
        EngineError: not such a file, or cut short.
    """
    try:
        size = file.stat().st_size
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            if not 0 < length <= min(size - 8, LONGEST_HEADER):
                raise ValueError("its header is cut short or too long")
            header = json.loads(opened.read(length))
        tensors = {
            name: Tensor(
                file,
                str(entry["dtype"]),
                tuple(int(n) for n in entry["shape"]),
                8 + length + int(entry["data_offsets"][0]),
                int(entry["data_offsets"][1]) - int(entry["data_offsets"][0]),
            )
            for name, entry in header.items()
            if name != "__metadata__"
        }
        if any(t.num_bytes < 0 or t.start + t.num_bytes > size for t in tensors.values()):
            raise ValueError("its data is cut short")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise EngineError(f"cannot read weights {file}: {error}") from error
    if not tensors:
        raise EngineError(f"{file} holds no weights")
    return tensors


class Publications:
    """The folders that servers load, and which tensors are in use.

    Args:
        folder: the model folder the servers started with.
        current: the folder with the weights they have now; None if it cannot be seen here, and
            then only an update of all tensors can be published.
    """

    def __init__(self, folder: Path, current: Path | None) -> None:
        self._folder = folder
        self._base = _read_folder(folder)
        config = json.loads((folder / "config.json").read_text())
        self._tied = bool(config.get("tie_word_embeddings")) or TIED_HEAD not in self._base
        self._current = {} if current is None else _read_folder(current)
        self._made: list[Path] = []
        self._count = 0

    @property
    def latest(self) -> Path | None:
        """The folder in use; None before the first publication."""
        return self._made[-1] if self._made else None

    @contextlib.contextmanager
    def prepared(self, update: Path, version: int) -> Iterator[Path]:
        """Give a folder with the update in it; it becomes ``latest`` unless the body fails.

        Raises:
            EngineError: the update cannot be read, has unknown names, other shapes, NaN or
                infinity, or is partial where the rest is not known.
        """
        tensors = read_header(update)
        self._check(update, tensors)
        try:
            made = Path(
                tempfile.mkdtemp(prefix=f".sglang-{version:08d}-", dir=update.resolve().parent)
            )
            made.chmod(0o755)
        except OSError as error:
            raise EngineError(
                f"cannot make a folder beside {update} for the servers: {error}"
            ) from error
        try:
            self._fill(made, update, tensors)
            yield made
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        self._current = read_header(made / "model.safetensors")
        self._made.append(made)
        while len(self._made) > KEPT_FOLDERS:
            shutil.rmtree(self._made.pop(0), ignore_errors=True)

    def _check(self, update: Path, tensors: Mapping[str, Tensor]) -> None:
        known = self._base or self._current or tensors
        for name, tensor in tensors.items():
            if name == TIED_HEAD and name not in known and self._tied:
                continue
            if name not in known:
                raise EngineError(
                    f"{update}: the model has no parameter {name!r}; old weights kept"
                )
            if tensor.shape != known[name].shape:
                raise EngineError(
                    f"{update}: {name} is {list(tensor.shape)}, the model has "
                    f"{list(known[name].shape)}; old weights kept"
                )
            if not tensor.is_finite():
                raise EngineError(f"{update}: {name} holds NaN or infinity; old weights kept")

    def _fill(self, made: Path, update: Path, tensors: Mapping[str, Tensor]) -> None:
        wanted = {name for name in self._base if not (self._tied and name == TIED_HEAD)}
        missing = wanted - tensors.keys()
        if missing and not self._current:
            raise EngineError(
                f"{update} holds {len(tensors)} of {len(wanted)} tensors, and the others are not "
                "known: the servers were updated before this engine started. Publish all tensors"
            )
        try:
            for file in self._folder.iterdir():
                if file.is_file() and not file.name.endswith(WEIGHT_SUFFIXES):
                    shutil.copyfile(file, made / file.name)
            target = made / "model.safetensors"
            if missing:
                _merge({**self._current, **tensors}, target)
            else:
                _link(update, target)
        except OSError as error:
            raise EngineError(f"cannot write {made}: {error}; old weights kept") from error


def _read_folder(folder: Path) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors |= read_header(file)
    return tensors


def _merge(tensors: Mapping[str, Tensor], target: Path) -> None:
    """Write one safetensors file of tensors that lie in several, without holding them."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, tensor in tensors.items():
        header[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [at, at + tensor.num_bytes],
        }
        at += tensor.num_bytes
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    with target.open("wb") as out:
        out.write(len(raw).to_bytes(8, "little") + raw)
        for tensor in tensors.values():
            with tensor.file.open("rb") as source:
                source.seek(tensor.start)
                _copy(source, out, tensor.num_bytes)


def _copy(source: BinaryIO, out: BinaryIO, num_bytes: int) -> None:
    while num_bytes:
        chunk = source.read(min(num_bytes, CHUNK_BYTES))
        if not chunk:
            raise OSError("a weight file became shorter while it was read")
        out.write(chunk)
        num_bytes -= len(chunk)


def _link(source: Path, target: Path) -> None:
    """A hard link outlives the publisher's clean-up of old files; else a copy."""
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)
