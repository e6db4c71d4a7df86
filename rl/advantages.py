"""Advantages as pure functions (algorithms §2). ``_G`` is a member of one group.

Groups are formed by the caller, by group id. A group in which everybody got the same reward has
no advantage at all: ``None``, so that its tokens neither pull nor dilute.
"""

import numpy as np

from rl.types import FloatArray

EPSILON = 1e-6


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


def _flat(rewards_G: FloatArray) -> bool:
    return len(rewards_G) < 2 or bool(np.ptp(rewards_G) < 1e-12)
