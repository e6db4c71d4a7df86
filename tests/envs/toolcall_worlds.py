"""A world whose tools misbehave, for the tests of isolation."""

import os
import time
from collections.abc import Mapping
from typing import Any

from envs.toolcall.isolation import IsolatedWorld
from envs.toolcall.tools import Tool
from envs.toolcall.world import ToolError

EMPTY = {"type": "object", "properties": {}}


class BadWorld:
    """Counts; and sleeps, spins, crashes or dies when told to."""

    policy = "Count."

    def __init__(self, start: int) -> None:
        self.count = start
        self.violations: list[str] = []
        names = ("count", "sleep", "spin", "crash", "die", "huge", "odd", "refuse")
        self.tools = {name: Tool(name, name, EMPTY) for name in names}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "BadWorld":
        return cls(data["start"])

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        self.count += 1
        match name:
            case "sleep":
                time.sleep(3600)
            case "spin":
                while True:
                    pass
            case "crash":
                raise RuntimeError("boom")
            case "die":
                os._exit(9)
            case "huge":
                return "x" * 50_000_000
            case "odd":
                return object()
            case "refuse":
                self.violations.append("asked")
                raise ToolError("no")
        return self.count

    def state(self) -> Mapping[str, object]:
        return {"count": self.count}

    def close(self) -> None:
        pass


class BadWorldApart(IsolatedWorld):
    """The same in a process of its own, as an author would offer it."""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "BadWorldApart":
        return cls("tests.envs.toolcall_worlds:BadWorld", data, 4.0)
