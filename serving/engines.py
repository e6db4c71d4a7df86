"""The table of engines by name: adding one is a row. Nothing is imported before it is used."""

import difflib
from collections.abc import Callable
from pathlib import Path

from .engine import Engine, EngineOptions
from .errors import ModelError


def build_engine(name: str, folder: Path, options: EngineOptions | None = None) -> Engine:
    """Start the engine called ``name`` on a model folder in HF layout.

    Raises:
        ModelError: no such engine, or it cannot run this model.
    """
    if name not in ENGINES:
        near = difflib.get_close_matches(name, ENGINES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ModelError(f"no engine {name!r}{hint} Engines: {', '.join(ENGINES)}")
    return ENGINES[name](folder, options or EngineOptions())


def _torch(folder: Path, options: EngineOptions) -> Engine:
    from .torch_engine import TorchEngine

    return TorchEngine(folder, options)


def _sglang(folder: Path, options: EngineOptions) -> Engine:
    raise ModelError("engine=sglang is not part of this version; use engine=torch")


ENGINES: dict[str, Callable[[Path, EngineOptions], Engine]] = {"torch": _torch, "sglang": _sglang}
