"""A fleet without Ray or model: plays made-up episodes at once and counts what it is told."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from agents.episode import Assignment
from agents.types import Episode, StopReason
from rl.types import Sample, StepMetrics, TopK
from tests.rl.records import episode, turn

Behaviour = Callable[[Assignment], Episode | None]


def coin(text: str) -> float:
    """A fixed 0 or 1 for a name."""
    return float(hashlib.sha256(text.encode()).digest()[0] & 1)


class FakeFleet:
    """Implements ``rl.fleet.Fleet``.

    Args:
        behaviour: may answer an assignment by itself; None leaves it to the coin.
    """

    def __init__(self, behaviour: Behaviour | None = None, delay_s: float = 0.0) -> None:
        self.behaviour = behaviour
        self.delay_s = delay_s
        self.version = 0
        self.played: list[str] = []
        self.trained: list[list[str]] = []
        self.saved: list[tuple[int, int, bool]] = []
        self.loaded: list[str] = []
        self.healed = 0
        self.quality: list[tuple[int, float, int]] = []
        self.most_running = 0
        self._running = 0

    @property
    def slots(self) -> int:
        return 8

    async def play(self, assignment: Assignment, *, demonstrate: bool = False) -> Episode:
        self._running += 1
        self.most_running = max(self.most_running, self._running)
        await asyncio.sleep(self.delay_s)
        self._running -= 1
        self.played.append(assignment.episode_id)
        own = self.behaviour(assignment) if self.behaviour else None
        if own is not None:
            return own
        task = assignment.task
        made = episode(
            [turn([1, 2, 3], [4, 5], version=self.version)],
            reward=1.0 if demonstrate else coin(assignment.episode_id),
            name=assignment.episode_id,
        )
        return replace(
            made, group_id=assignment.group_id, task_id=task.id, meta={"tags": task.tags}
        )

    async def step(self, samples: Sequence[Sample], version: int) -> StepMetrics:
        self.trained.append([sample.episode_id for sample in samples])
        return StepMetrics({"trained_tokens": float(sum(s.num_trained for s in samples))})

    async def imitate(self, samples: Sequence[Sample]) -> StepMetrics:
        return StepMetrics({"loss": 1.0})

    async def forget_moments(self) -> None:
        self.forgotten = True

    async def publish(self, version: int) -> dict[str, float]:
        self.version = version
        return {"publish_write_s": 0.0}

    async def save(self, step: int, version: int, warmed: bool) -> str:
        self.saved.append((step, version, warmed))
        return ""

    async def load(self, checkpoint: str) -> None:
        self.loaded.append(checkpoint)

    async def export(self, folder: str) -> str:
        return folder

    async def score(
        self, token_ids: Sequence[Sequence[int]], temperature: float
    ) -> list[list[float]]:
        return [[-9.0] * (len(row) - 1) for row in token_ids]

    async def likeliest(
        self,
        sequences: Sequence[tuple[Sequence[int], int]],
        temperature: float,
        num_likeliest: int,
    ) -> list[TopK]:
        return [
            TopK(np.tile(np.arange(num_likeliest), (n, 1)), np.full((n, num_likeliest), -3.0))
            for _, n in sequences
        ]

    async def release(self) -> None:
        self.released = True

    async def heal(self) -> None:
        self.healed += 1

    async def push_quality(self, version: int, score: float, judged: int) -> None:
        self.quality.append((version, score, judged))


def lost(assignment: Assignment) -> Episode:
    """What a dead sandbox leaves."""
    made = episode([], reward=None, name=assignment.episode_id, stop=StopReason.SANDBOX_LOST)
    return replace(made, group_id=assignment.group_id, task_id=assignment.task.id)
