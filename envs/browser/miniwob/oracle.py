"""Plays a task with the solver of its page; what it did is the task's oracle."""

from dataclasses import dataclass
from typing import Any

from envs.browser.miniwob.play import Over, Play, Stuck
from envs.browser.miniwob.solvers import SOLVERS
from envs.core import TaskEnv
from envs.errors import TaskError
from envs.types import Task, Verdict


@dataclass(frozen=True)
class Solved:
    """What a solver did and earned. ``why`` says why it stopped before the end, else ""."""

    actions: tuple[str, ...]
    verdict: Verdict
    raw_reward: float
    why: str = ""


def solve(env: TaskEnv[Any], task: Task) -> Solved:
    """Play a task with the solver of its page.

    Raises:
        TaskError: the page has none.
        EnvError: the world failed.
    """
    name = str(task.data["miniwob"])
    if name not in SOLVERS:
        raise TaskError(f"{task.id}: no solver for the page {name}")
    play, why = Play(env, task), ""
    try:
        SOLVERS[name].solve(play)
        why = "the solver came to its end before the page did"
    except Over:
        why = ""
    except (Stuck, LookupError, StopIteration, ValueError) as stuck:  # it is not there
        why = f"{type(stuck).__name__}: {stuck}"
    return Solved(
        actions=tuple(play.actions),
        verdict=env.grade(),
        raw_reward=float(play.info.get("raw_reward", 0.0)),
        why=why,
    )
