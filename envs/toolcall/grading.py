"""What counts: the state at the end, what the user was told, which rules were broken.

All of it must hold for the reward of 1; there is no part of it for parts, because to do nothing
often leaves most of a database as it should be. What single calls are worth is the process reward:
a quarter each for a call that is valid, of a tool the solution calls, with its arguments, and one
that brings the state nearer to the goal (a look-up of the solution does).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from envs.toolcall.failures import FailureKind
from envs.toolcall.values import plain, same
from envs.types import Verdict

MAX_HEARD_CHARS = 600  # of one message: who tells everything tells nothing
REFUSALS = (
    "cannot", "can't", "can not", "can’t", "unable", "not able", "not possible", "not allowed",
    "no tool", "impossible", "don't have a tool", "do not have a tool", "not permitted",
)  # fmt: skip


@dataclass(frozen=True)
class Goal:
    """What a task wants.

    Attributes:
        state: of the world at the end.
        told: each a list of ways to say it, of which one must be said to the user.
    """

    state: Mapping[str, object]
    told: tuple[tuple[str, ...], ...] = ()

    def verdict(
        self, state: Mapping[str, object], said: Sequence[str], violations: Sequence[str]
    ) -> Verdict:
        """Judge."""
        heard = [_spoken(message[:MAX_HEARD_CHARS]) for message in said]
        held = {"state": state == self.state}
        for ways in self.told:
            held[f"told:{ways[0]}"] = any(_is_in(way, text) for way in ways for text in heard)
        held.update({f"rule:{name}": False for name in violations})
        passed = tuple(name for name, fine in held.items() if fine)
        failed = tuple(name for name, fine in held.items() if not fine)
        different = sorted(differing(state, self.state))
        detail = f"differs: {', '.join(different)[:200]}" if different else ", ".join(failed)
        return Verdict(0.0 if failed else 1.0, passed, failed, detail)


def differing(state: Mapping[str, object], goal: Mapping[str, object]) -> set[str]:
    """Return the names of records that are not as they should be."""
    missing = object()
    names = state.keys() | goal.keys()
    return {name for name in names if state.get(name, missing) != goal.get(name, missing)}


@dataclass(frozen=True)
class CallRecord:
    """What became of one call.

    Attributes:
        name: of the tool, as called.
        valid: an offered tool with arguments that fit its schema.
        right_tool: the solution calls it.
        right_arguments: the solution calls it with these, and more often than was done before.
        effect: 1 when the state came nearer to the goal, or a look-up of the solution was made;
            -1 when the state went away from it, else 0.
        failure: kind of the failure, or "".
    """

    name: str
    valid: bool
    right_tool: bool = False
    right_arguments: bool = False
    effect: int = 0
    failure: FailureKind | None = None

    @property
    def score(self) -> float:
        """The process reward, in [-0.25, 1]."""
        return (self.valid + self.right_tool + self.right_arguments + self.effect) / 4

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {**asdict(self), "failure": str(self.failure or ""), "score": self.score}


class Reference:
    """The solution's calls, ticked off as they are made.

    Args:
        calls: names and arguments.
    """

    def __init__(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        self._left = list(calls)
        self._names = {name for name, _ in calls}

    def knows(self, name: str) -> bool:
        """True when the solution calls the tool."""
        return name in self._names

    def tick(self, name: str, arguments: Mapping[str, Any]) -> tuple[bool, bool]:
        """Return whether the solution calls the tool, and whether with these arguments."""
        for place, (wanted, its) in enumerate(self._left):
            if wanted == name and same(dict(its), dict(arguments)):
                del self._left[place]
                return True, True
        return self.knows(name), False


def _spoken(text: str) -> str:
    """Return text for comparison: 1,250.00 is 1250.00."""
    return plain(re.sub(r"(?<=\d),(?=\d{3}\b)", "", text.replace("’", "'")))


def _is_in(way: str, heard: str) -> bool:
    wanted = re.escape(_spoken(way))
    return re.search(rf"(?<![\w.]){wanted}(?!\w|[.]\d)", heard) is not None
