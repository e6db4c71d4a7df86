"""Which world a task is played in: by the name in its data."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, cast

from envs.errors import TaskError
from envs.registry import nearest
from envs.toolcall.world import World

WORLDS = {
    "script": "envs.toolcall.script:ScriptWorld",
    "shop": "envs.toolcall.worlds.shop.world:ShopWorld",
    "airline": "envs.toolcall.worlds.airline.world:AirlineWorld",
    "desk": "envs.toolcall.worlds.desk.world:DeskWorld",
    "office": "envs.toolcall.worlds.office.world:OfficeWorld",
}


def make(data: Mapping[str, Any]) -> World:
    """Build a fresh world from a task's data.

    Raises:
        TaskError: an unknown name, or data that do not fit.
    """
    name = data.get("world")
    if name not in WORLDS:
        raise TaskError(f"no world {name!r}: {nearest(str(name), WORLDS)}")
    module, _, attribute = WORLDS[name].partition(":")
    build = cast(
        "Callable[[Mapping[str, Any]], World]",
        getattr(importlib.import_module(module), attribute).of,
    )
    try:
        return build(data)
    except (KeyError, TypeError, ValueError) as error:
        raise TaskError(f"no {name} world: {error!r}") from error
