"""A world without a database: it expects certain calls, in steps, and answers from a script.

Calls of one step may come in any order, steps only one after the other. A call that is expected
nowhere is carried out all the same, and stays in the state as one too many.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envs.toolcall.failures import FailureKind
from envs.toolcall.tools import Tool, offered
from envs.toolcall.values import same
from envs.toolcall.world import ToolError

BUSY = "the service is busy, try the same call again"
NO_ANSWER = "no answer within 10 s; nothing was done, try the same call again"
NOTHING = "nothing was found for these arguments"


@dataclass(frozen=True)
class Expected:
    """A call that the task wants.

    Attributes:
        name, arguments: of the call.
        step: its place in the order.
        result: what it returns.
        defaults: arguments that may be given, with these values, or left out.
        free: looking up: other calls of this tool, and this one again, do no harm.
        fails_first: what becomes of it the first time: ``busy``, ``timeout`` or "".
    """

    name: str
    arguments: Mapping[str, Any]
    step: int = 0
    result: Any = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    free: bool = False
    fails_first: str = ""

    def fits(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """True when a call is this one."""
        if name != self.name:
            return False
        return same({**self.defaults, **arguments}, {**self.defaults, **self.arguments})


class ScriptWorld:
    """See the module and ``envs.toolcall.world.World``.

    Args:
        tools: offered.
        expected: the calls the task wants, at least those of its oracle.
        forbidden: names of tools that nobody asked for and that do harm.
        policy: the rules for the agent, in prose.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        expected: Sequence[Expected],
        forbidden: Sequence[str] = (),
        policy: str = "",
    ) -> None:
        self.policy = policy
        self.tools: Mapping[str, Tool] = offered(tools)
        self.violations: list[str] = []
        self._expected, self._forbidden = expected, frozenset(forbidden)
        self._done: set[int] = set()
        self._failed: set[int] = set()
        self._extra: Counter[str] = Counter()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "ScriptWorld":
        """Build it from a task's data. Raises ``KeyError``, ``TypeError``, ``SchemaError``."""
        tools = [Tool.from_openai(row) for row in data["tools"]]
        expected = [Expected(**row) for row in data["expected"]]
        return cls(tools, expected, data.get("forbidden", ()), data.get("policy", ""))

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Answer from the script."""
        places = [i for i, each in enumerate(self._expected) if each.fits(name, arguments)]
        step = min(
            (e.step for i, e in enumerate(self._expected) if i not in self._done), default=-1
        )
        for place in places:
            expected = self._expected[place]
            if place not in self._done and expected.step == step:
                self._fail_once(place, expected)
                self._done.add(place)
                return expected.result
        for place in places:
            if place in self._done and self._expected[place].free:
                return self._expected[place].result
        if any(each.free and each.name == name for each in self._expected):
            raise ToolError(NOTHING)
        if name in self._forbidden:
            self.violations.append(f"called_{name}")
        self._extra[name] += 1
        return {"status": "done"}

    def state(self) -> Mapping[str, object]:
        """Return which calls were made, and how many that nobody wanted."""
        wanted = {f"{i} {e.name}": i in self._done for i, e in enumerate(self._expected)}
        return {**wanted, **{f"unwanted {name}": n for name, n in self._extra.items()}}

    def close(self) -> None:
        """Nothing is held."""

    def _fail_once(self, place: int, expected: Expected) -> None:
        if expected.fails_first and place not in self._failed:
            self._failed.add(place)
            if expected.fails_first == "timeout":
                raise ToolError(NO_ANSWER, FailureKind.TIMED_OUT)
            raise ToolError(BUSY)
