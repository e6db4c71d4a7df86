"""What the world said of a step beside the observation: for judges and teachers, never the policy.

Environments tell it in their own ways; here it becomes words and one number. Nothing is guessed: an
empty field means that the world did not say so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from envs.types import Verdict

SHOWN = ("tree", "screenshot")  # parts of an observation that show a screen
MAX_CHARS = 400


@dataclass(frozen=True)
class Consequence:
    """What followed a step.

    Attributes:
        failure: how the world stated that the action failed; "" when it did not.
        process: the world's own score of the step, in [-1, 1]; None where it gives none. Of calls
            the mean of their scores, of screens whether anything on them changed.
        hint: what should have been done, where the world itself can tell.
        verdict: what the verifier found missing at the end, in words; "" before, or when solved.
    """

    failure: str = ""
    process: float | None = None
    hint: str = ""
    verdict: str = ""


NOTHING = Consequence()


def consequence(
    before: Mapping[str, Any], observation: Mapping[str, Any], info: Mapping[str, Any]
) -> Consequence:
    """Read what an environment said of a step.

    Args:
        before: the observation that the action answered.
        observation, info: what ``step`` returned.
    """
    verdict = info.get("verdict")
    return Consequence(
        failure=_cut(_failure(observation, info)),
        process=_process(before, observation, info),
        hint=_cut(str(info.get("hint") or "")),
        verdict=missing(verdict) if isinstance(verdict, Verdict) else "",
    )


def missing(verdict: Verdict) -> str:
    """Return what a verdict holds against the state of the world; "" when it is solved."""
    if verdict.solved:
        return ""
    unsaid = [name for name in verdict.failed if name not in verdict.detail]
    return _cut("; ".join(filter(None, [", ".join(unsaid), verdict.detail])))


def _failure(observation: Mapping[str, Any], info: Mapping[str, Any]) -> str:
    if error := str(observation.get("error") or ""):
        return error
    kinds = info.get("failures") or ()
    if kinds:
        return ", ".join(map(str, kinds))
    cell = str(info.get("cell", "ok"))
    if cell != "ok":
        return f"the cell ended with {cell}"
    return "the command did not end in time" if info.get("timed_out") else ""


def _process(
    before: Mapping[str, Any], observation: Mapping[str, Any], info: Mapping[str, Any]
) -> float | None:
    calls = info.get("process")
    if isinstance(calls, int | float):
        return float(np.clip(calls, -1.0, 1.0))
    if isinstance(calls, Sequence) and calls:
        return float(np.clip(np.mean([call["score"] for call in calls]), -1.0, 1.0))
    shown = [part for part in SHOWN if part in observation and part in before]
    if not shown:
        return None
    return float(any(_differ(before[part], observation[part]) for part in shown))


def _differ(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return not np.array_equal(one, other)
    return bool(one != other)


def _cut(text: str) -> str:
    """Keep the end of a long text: programs say last what went wrong."""
    words = " ".join(text.split())
    return words if len(words) <= MAX_CHARS else "…" + words[-MAX_CHARS:]
