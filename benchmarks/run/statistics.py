"""What a number of solved tasks says, and how sure it is. Pure functions.

Tasks, not episodes, are the unit: samples of one task are averaged first, and a resample draws
whole tasks, or whole families of tasks, that were written alike and are failed alike.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

BOOTSTRAPS = 10_000
_CELLS = 1 << 22  # numbers drawn at once, so that a large set needs little memory
_Z = 1.959963984540054  # the normal distribution's 97.5% point


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95% interval; bounds are NaN where none can be told."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "-"
        if math.isnan(self.low):
            return f"{self.value:.3f}"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def pass_at_k(num_samples: int, num_solved: int, k: int) -> float:
    """Return the unbiased estimate of "one of k samples solves it" (Chen et al. 2021, eq. 1).

    Raises:
        ValueError: fewer than k samples, or counts that make no sense.
    """
    if not 1 <= k <= num_samples or not 0 <= num_solved <= num_samples:
        raise ValueError(f"pass@{k} of {num_solved} solved among {num_samples} is not defined")
    return 1.0 - math.comb(num_samples - num_solved, k) / math.comb(num_samples, k)


def wilson(rate: float, num_trials: int) -> Interval:
    """Return the score interval of a share of independent trials (Wilson 1927).

    Args:
        rate: the share; with several samples of a task, the mean over tasks of their shares.
        num_trials: independent trials. Give tasks, not samples: the interval is then too wide
            rather than too narrow.
    """
    if num_trials == 0:
        return Interval(math.nan, math.nan, math.nan)
    n, z2 = num_trials, _Z * _Z
    centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * math.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n))
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return Interval(rate, min(rate, low), max(rate, high))  # rounding: at 0 of n, low is 1e-17


def bootstrap(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, seed: int = 0
) -> Interval:
    """Return the mean with its percentile interval over resamples of whole clusters.

    Clusters that all agree, or a single one, tell no interval: one of no width would read as
    certainty.

    Args:
        values: one per task.
        clusters: what each belongs to; without it every task is a cluster of its own.
        seed: of the resamples.
    """
    if not values:
        return Interval(math.nan, math.nan, math.nan)
    mean = float(np.mean(values))
    names = list(range(len(values))) if clusters is None else list(clusters)
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    index = np.array([places[name] for name in names])
    sums, counts = np.bincount(index, weights=values), np.bincount(index)
    if np.allclose(sums / counts, sums[0] / counts[0], rtol=0, atol=1e-12):
        return Interval(mean, math.nan, math.nan)
    rng = np.random.default_rng(seed)
    block = max(1, _CELLS // len(sums))
    means = []
    for start in range(0, BOOTSTRAPS, block):
        drawn = rng.integers(len(sums), size=(min(block, BOOTSTRAPS - start), len(sums)))
        means.append(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    return Interval(mean, float(low), float(high))


def difference(
    before: Mapping[str, float],
    after: Mapping[str, float],
    families: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Interval:
    """Return ``after - before`` over the tasks both have, by paired bootstrap.

    Args:
        before, after: a number per task id.
        families: per task id; resamples whole families instead of tasks.
    """
    shared = sorted(before.keys() & after.keys())
    gains = [after[name] - before[name] for name in shared]
    return bootstrap(gains, [families[name] for name in shared] if families else None, seed)


def mcnemar(only_before: int, only_after: int) -> float:
    """Return the exact two-sided p-value that both runs solve equally often.

    Args:
        only_before, only_after: tasks that one run solved and the other did not.
    """
    discordant = only_before + only_after
    tail = sum(math.comb(discordant, i) for i in range(min(only_before, only_after) + 1))
    return min(1.0, 2 * tail / (1 << discordant))
