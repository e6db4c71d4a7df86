"""The table of engines by name: adding one is a row. Nothing is imported before it is used."""

import difflib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from .engine import Engine, EngineOptions
from .errors import ModelError


def build_engine(
    name: str, folder: Path, options: EngineOptions | None = None, **extra: str
) -> Engine:
    """Start the engine called ``name`` on a model folder in HF layout.

    Args:
        name: a key of ``ENGINES``.
        folder: the model.
        options: see ``EngineOptions``.
        extra: what only this engine takes, by the names in ``EXTRA_OPTIONS``; "" is not given.

    Raises:
        ModelError: no such engine, an option it does not take, or it cannot run this model.
    """
    if name not in ENGINES:
        near = difflib.get_close_matches(name, ENGINES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ModelError(f"no engine {name!r}{hint} Engines: {', '.join(ENGINES)}")
    given = {key: value for key, value in extra.items() if value}
    for key in given:
        if key not in EXTRA_OPTIONS.get(name, {}):
            takes = ", ".join(EXTRA_OPTIONS.get(name, {})) or "none"
            raise ModelError(f"engine={name} does not take {key}=; options of its own: {takes}")
    return ENGINES[name](folder, options or EngineOptions(), given)


def _torch(folder: Path, options: EngineOptions, extra: Mapping[str, str]) -> Engine:
    from .embedded.engine import TorchEngine

    return TorchEngine(folder, options)


def _sglang(folder: Path, options: EngineOptions, extra: Mapping[str, str]) -> Engine:
    values = {
        key: extra.get(key) or os.environ.get(variable, "")
        for key, variable in EXTRA_OPTIONS["sglang"].items()
    }
    urls = [url.strip() for url in values["sglang_url"].split(",") if url.strip()]
    if not urls or any(not url.startswith(("http://", "https://")) for url in urls):
        raise ModelError(
            "engine=sglang needs sglang_url=http://HOST:PORT (several with commas), not "
            f"{values['sglang_url']!r}; scripts/sglang starts a server on this machine"
        )
    from .sglang.engine import SglangEngine

    return SglangEngine(urls, folder, options, values["sglang_key"], values["sglang_admin_key"])


ENGINES: dict[str, Callable[[Path, EngineOptions, Mapping[str, str]], Engine]] = {
    "torch": _torch,
    "sglang": _sglang,
}
# option → the environment variable that stands in for it
EXTRA_OPTIONS: dict[str, dict[str, str]] = {
    "sglang": {
        "sglang_url": "SGLANG_URL",
        "sglang_key": "SGLANG_API_KEY",
        "sglang_admin_key": "SGLANG_ADMIN_KEY",
    },
}
