"""What tools act on. ``envs.toolcall.worlds.table`` finds the world of a task."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from envs.toolcall.failures import FailureKind
from envs.toolcall.tools import Tool


class ToolError(Exception):
    """A tool gives no result: what it says is shown to the model and is no failure of the world.

    Attributes:
        kind: ``tool_error`` or ``timed_out``.
    """

    def __init__(self, message: str, kind: FailureKind = FailureKind.TOOL_ERROR) -> None:
        super().__init__(message, kind)
        self.message, self.kind = message, kind

    def __str__(self) -> str:
        return self.message


class World(Protocol):
    """A world in a state. Made anew for each episode; equal tasks and calls give equal states."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools it offers, by name."""

    @property
    def policy(self) -> str:
        """The rules for the agent, in prose; "" for none."""

    @property
    def violations(self) -> Sequence[str]:
        """Names of the rules that were broken so far, oldest first; one may come twice."""

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Carry out a call whose arguments fit the tool's schema; return JSON values.

        Raises:
            ToolError: it gives no result.
        """

    def state(self) -> Mapping[str, object]:
        """Return what is compared with the goal: records by name, equal where they mean the same.

        Looking something up changes none of it.
        """

    def close(self) -> None:
        """Give back what it holds. Idempotent."""
