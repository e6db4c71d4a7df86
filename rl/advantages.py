"""Advantages as pure functions (algorithms §2). ``_G`` is a member of one group, ``_S`` a step,
``_T`` a sampled token.

Groups are formed by the caller, by group id. Where nothing can be learned the answer is ``None`` or
NaN, never 0: the caller masks such tokens, so that they neither pull nor dilute.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rl.types import FloatArray, IntArray

EPSILON = 1e-6
FLAT = 1e-12  # a range of rewards below this is no variance


def grpo(rewards_G: FloatArray) -> FloatArray | None:
    """Return (R - mean) / (std + 1e-6), std with ddof=1 (GRPO, arXiv 2402.03300, eq. 3).

    ``None`` for fewer than two members or no variance.
    """
    if _flat(rewards_G):
        return None
    return (rewards_G - rewards_G.mean()) / (rewards_G.std(ddof=1) + EPSILON)  # type: ignore[no-any-return]


def dr_grpo(rewards_G: FloatArray) -> FloatArray | None:
    """Return R - mean, undivided (Dr. GRPO, arXiv 2503.20783)."""
    if _flat(rewards_G):
        return None
    return rewards_G - rewards_G.mean()  # type: ignore[no-any-return]


def rloo(rewards_G: FloatArray) -> FloatArray | None:
    """Return R minus the mean of the others (RLOO, arXiv 2402.14740, eq. 8)."""
    if _flat(rewards_G):
        return None
    others = (rewards_G.sum() - rewards_G) / (len(rewards_G) - 1)
    return rewards_G - others  # type: ignore[no-any-return]


def stepwise(
    outcomes_G: FloatArray, process_GS: Sequence[Sequence[float]], coef: float
) -> list[FloatArray]:
    """Return outcome + coef·process, standardised among members at the same step index.

    Args:
        outcomes_G: reward of each member.
        process_GS: score of each step, ragged; NaN where a step has none: it is in no bucket.
        coef: c.

    A bucket of one member is measured by the mean and deviation of the group's outcomes. NaN where
    neither has any variance, and where the score is missing.
    """
    num_steps = max((len(row) for row in process_GS), default=0)
    returns_GS = np.full((len(process_GS), num_steps), np.nan)
    for member, row in enumerate(process_GS):
        returns_GS[member, : len(row)] = outcomes_G[member] + coef * np.asarray(row)
    result_GS = np.full_like(returns_GS, np.nan)
    for step in range(num_steps):
        there = np.flatnonzero(~np.isnan(returns_GS[:, step]))
        bucket = returns_GS[there, step]
        measure = bucket if len(bucket) > 1 else outcomes_G
        if len(there) and not _flat(measure):
            deviation = measure.std(ddof=1) + EPSILON
            result_GS[there, step] = (bucket - measure.mean()) / deviation
    return [result_GS[member, : len(row)] for member, row in enumerate(process_GS)]


@dataclass
class Baselines:
    """Running mean of the score of each subject (a user, a skill); 0 before anything is known.

    Part of a run's state: ``values`` goes into the store with the step that changed it.
    """

    values: dict[str, float] = field(default_factory=dict)

    def advantage(self, subject: str, score: int, decay: float) -> float | None:
        """Return score - mean, then take the score into account; ``None`` for a score of 0."""
        if score == 0:
            return None
        mean = self.values.get(subject, 0.0)
        self.values[subject] = decay * mean + (1.0 - decay) * score
        return score - mean


def opd(teacher_T: FloatArray, old_T: FloatArray, bound: float = 5.0) -> FloatArray:
    """Return clip(log π_T - log π_old, ±bound) of each sampled token, NaN where either is missing.

    The teacher saw prompt + hint, then exactly the sampled ids; the first token is included.

    Raises:
        ValueError: the two are not of one length.
    """
    if len(teacher_T) != len(old_T):
        raise ValueError(f"{len(teacher_T)} teacher log-probs for {len(old_T)} tokens")
    return np.clip(teacher_T - old_T, -bound, bound)


def overlap(teacher_ids_TK: IntArray, student_ids_TK: IntArray) -> float:
    """Return the mean share of a teacher's top-K tokens that are among the student's."""
    if not len(teacher_ids_TK):
        return 0.0
    shares = [np.isin(a, b).mean() for a, b in zip(teacher_ids_TK, student_ids_TK, strict=True)]
    return float(np.mean(shares))


def _flat(rewards_G: FloatArray) -> bool:
    return len(rewards_G) < 2 or bool(np.ptp(rewards_G) < FLAT)
