"""Held-out success with intervals: what a run claims, and how sure it is.

Pure functions over episodes; playing them is the controller's. Tasks, not episodes, are the unit of
resampling: several samples of one task are averaged first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agents.types import Episode

BOOTSTRAPS = 10_000


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95% interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Evaluation:
    """Success on a set of tasks.

    Attributes:
        success: per task id, the share of its episodes that were solved.
        lost: episodes the machine failed; in no denominator.
    """

    success: dict[str, float]
    lost: int

    @property
    def rate(self) -> float:
        """Mean success over tasks; NaN without any."""
        return float(np.mean(list(self.success.values()))) if self.success else float("nan")

    def interval(self) -> Interval:
        """Return the Wilson interval of the success rate (Wilson, 1927)."""
        n, p, z = len(self.success), self.rate, 1.96
        if n == 0:
            return Interval(float("nan"), float("nan"), float("nan"))
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return Interval(p, max(0.0, centre - half), min(1.0, centre + half))

    def only(self, task_ids: Sequence[str]) -> "Evaluation":
        """Return the part over some tasks; ``lost`` stays that of the whole."""
        wanted = set(task_ids)
        return Evaluation({k: v for k, v in self.success.items() if k in wanted}, self.lost)


def evaluate(episodes: Sequence[Episode]) -> Evaluation:
    """Summarise played episodes by task."""
    solved: dict[str, list[float]] = {}
    for episode in episodes:
        if episode.reward is not None:
            solved.setdefault(episode.task_id, []).append(float(episode.solved))
    lost = sum(episode.reward is None for episode in episodes)
    return Evaluation({k: float(np.mean(v)) for k, v in sorted(solved.items())}, lost)


def difference(before: Evaluation, after: Evaluation, seed: int = 0) -> Interval:
    """Return ``after - before`` over tasks both played, with a paired bootstrap interval
    (percentile, 10,000 resamples of tasks)."""
    shared = sorted(before.success.keys() & after.success.keys())
    if not shared:
        return Interval(float("nan"), float("nan"), float("nan"))
    gains = np.array([after.success[k] - before.success[k] for k in shared])
    draws = np.random.default_rng(seed).integers(len(gains), size=(BOOTSTRAPS, len(gains)))
    means = gains[draws].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(gains.mean()), float(low), float(high))
