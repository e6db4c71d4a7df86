"""What worlds of ours share: each tool a method of its name, each broken rule noted."""

from collections.abc import Mapping
from typing import Any, TypeVar

from envs.toolcall.tools import Tool
from envs.toolcall.world import ToolError

Record = TypeVar("Record")


class MethodWorld:
    """A ``envs.toolcall.world.World`` whose tool ``name`` is the method ``_name``.

    Tools refuse what cannot be (no such order, no stock) by ``ToolError``; what merely must not be
    they do, and the rule that was broken is noted, since a clerk's tools would let it pass too.

    Attributes:
        violations: names of the rules that were broken, in order.
    """

    policy: str
    tools: Mapping[str, Tool]

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._actions = {name: getattr(self, f"_{name}") for name in self.tools}

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Carry out a call. What a tool refuses breaks no rule."""
        noted = len(self.violations)
        try:
            return self._actions[name](**arguments)
        except ToolError:
            del self.violations[noted:]
            raise

    def close(self) -> None:
        """Nothing is held."""

    def _rule(self, kept: bool, name: str) -> None:
        if not kept:
            self.violations.append(name)


def found(table: Mapping[str, Record], key: str, noun: str) -> Record:
    """Return a record by its id. Raises ``ToolError``."""
    if key not in table:
        raise ToolError(f"there is no {noun} {key}")
    return table[key]
