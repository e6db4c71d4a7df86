"""A world of one counter, for the episode loop's tests."""

from collections.abc import Sequence
from typing import Any

from envs.errors import EnvError
from envs.types import Task, TaskLimits, Verdict
from serving.types import Generation, Message, Reply, Sampling

TASK = Task(
    id="terminal/count/0000", env="terminal", family="count", split="train",
    instruction="Say up three times.", limits=TaskLimits(max_steps=5),
)  # fmt: skip


class CounterWorld:
    """Solved after three ``up``; ``boom`` breaks the world."""

    def __init__(self, error: EnvError | None = None) -> None:
        self.count = 0
        self.steps = 0
        self.error = error
        self.graded = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        self.count = self.steps = 0
        return {"instruction": TASK.instruction, "output": "", "exit_code": 0}, {}

    def step(self, action: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        if action == "boom" and self.error:
            raise self.error
        self.steps += 1
        self.count += action == "up"
        solved = self.count >= 3
        truncated = self.steps >= TASK.limits.max_steps and not solved
        info = {"verdict": Verdict(float(solved))} if solved or truncated else {}
        seen = {"instruction": "", "output": str(self.count), "exit_code": 0}
        return seen, float(solved), solved, truncated, info

    def grade(self) -> Verdict:
        self.graded += 1
        return Verdict(float(self.count >= 3))


class TalkingPolicy:
    """Says what it is told, with tokens that continue each other exactly."""

    def __init__(self, replies: Sequence[str | Exception], finish: str = "stop") -> None:
        self.replies = list(replies)
        self.finish = finish
        self.heard: list[list[Message]] = []
        self.samplings: list[Sampling] = []

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        session: str,
        sampling: Sampling,
        timeout_s: float | None = None,
    ) -> Reply:
        self.heard.append(list(messages))
        self.samplings.append(sampling)
        said = self.replies[min(len(self.heard) - 1, len(self.replies) - 1)]
        if isinstance(said, Exception):
            raise said
        generation = Generation((7, 8), (-0.1, -0.2), (3, 3), self.finish)  # type: ignore[arg-type]
        return Reply("r", said, (1, 2), generation)
