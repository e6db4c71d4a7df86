"""LoRA adapters at SGLang servers: which name of theirs stands for which version of ours.

Every version of an adapter gets a name that is never used again, because a server asked for a name
that was unloaded loads it again from its old path. A replaced adapter is unloaded when the last
request that began with it has ended. Used from any thread.
"""

import json
import threading
from dataclasses import dataclass
from pathlib import Path

from ..errors import EngineError, RequestRefused
from .weights import read_header

PARTS = ("adapter_config.json", "adapter_model.safetensors")


@dataclass(eq=False)
class AdapterHandle:
    """An adapter as the servers know it.

    Attributes:
        name: ours.
        version: its policy version.
        lora: the servers' name.
        path: its folder.
        num_uses: our requests that name it.
        is_current: neither replaced nor forgotten.
        is_forgotten: its requests must end.
    """

    name: str
    version: int
    lora: str
    path: str
    num_uses: int = 0
    is_current: bool = True
    is_forgotten: bool = False


class AdapterTable:
    """The adapters in use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: dict[str, AdapterHandle] = {}
        self._count = 0

    def versions(self) -> dict[str, int]:
        """Adapters that requests may name, and their versions."""
        with self._lock:
            return {name: handle.version for name, handle in self._current.items()}

    def make(self, name: str, path: Path, version: int) -> AdapterHandle:
        """Return a handle for a new version; it is not in use yet.

        Raises:
            EngineError: no name, no adapter in peft's layout, or an older version.
        """
        if not name:
            raise EngineError("an adapter needs a name; the empty one is the base model")
        _check(path)
        with self._lock:
            old = self._current.get(name)
            if old is not None and version < old.version:
                raise EngineError(f"{name}: version {version} is older than {old.version} in use")
            self._count += 1
            lora = f"{name}@{version}.{self._count}"
        return AdapterHandle(name, version, lora, str(path.resolve()))

    def put(self, handle: AdapterHandle) -> AdapterHandle | None:
        """Use a handle from now on; return the one before it if nobody uses that any more."""
        with self._lock:
            old = self._current.get(handle.name)
            self._current[handle.name] = handle
            if old is None:
                return None
            old.is_current = False
            return old if old.num_uses == 0 else None

    def forget(self, name: str) -> AdapterHandle | None:
        """Stop using an adapter; return its handle, if there was one."""
        with self._lock:
            old = self._current.pop(name, None)
            if old is not None:
                old.is_current, old.is_forgotten = False, True
                old.num_uses += 1  # until its owner gives it back
            return old

    def take(self, name: str) -> AdapterHandle | None:
        """Begin to use an adapter; "" is none.

        Raises:
            RequestRefused: it is not loaded.
        """
        if not name:
            return None
        with self._lock:
            handle = self._current.get(name)
            if handle is None:
                loaded = ", ".join(sorted(self._current)) or "none"
                raise RequestRefused(
                    f"adapter {name!r} is not loaded; loaded: {loaded}", field="adapter"
                )
            handle.num_uses += 1
            return handle

    def give_back(self, handle: AdapterHandle | None) -> AdapterHandle | None:
        """End a use; return the handle if it is to be unloaded now."""
        if handle is None:
            return None
        with self._lock:
            handle.num_uses -= 1
            return handle if handle.num_uses == 0 and not handle.is_current else None


def _check(path: Path) -> None:
    """What a server may not notice, or notice half-way."""
    for part in PARTS:
        if not (path / part).is_file():
            raise EngineError(f"{path} is no adapter in peft's layout: it has no {part}")
    try:
        rank = int(json.loads((path / PARTS[0]).read_text())["r"])
    except (ValueError, KeyError, TypeError) as error:
        raise EngineError(f"{path / PARTS[0]} has no rank: {error}") from error
    for name, tensor in read_header(path / PARTS[1]).items():
        axis = 0 if ".lora_A." in name else -1
        if ".lora_" in name and tensor.shape[axis] != rank:
            raise EngineError(f"{path}: {name} is {list(tensor.shape)}, but the rank is {rank}")
        if not tensor.is_finite():
            raise EngineError(f"{path}: {name} holds NaN or infinity")
