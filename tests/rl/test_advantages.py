"""Closed forms, and the guards that keep NaN and dilution out."""

import numpy as np
import pytest

from rl import advantages


def test_known_values_for_half_solved_group() -> None:
    """The numbers the specification gives: ±0.8660 divided, ±0.5 undivided."""
    rewards = np.array([1.0, 0.0, 0.0, 1.0])
    divided = advantages.grpo(rewards)
    assert divided is not None
    np.testing.assert_allclose(divided, [0.8660, -0.8660, -0.8660, 0.8660], atol=1e-4)
    np.testing.assert_allclose(advantages.dr_grpo(rewards), [0.5, -0.5, -0.5, 0.5])


def test_leave_one_out_baseline() -> None:
    """RLOO subtracts the mean of the others, not of all."""
    np.testing.assert_allclose(
        advantages.rloo(np.array([1.0, 0.0, 0.5])), [0.75, -0.75, 0.0], atol=1e-12
    )


@pytest.mark.parametrize("method", [advantages.grpo, advantages.dr_grpo, advantages.rloo])
@pytest.mark.parametrize("rewards", [[], [1.0], [0.0, 0.0, 0.0], [1.0, 1.0]])
def test_no_variance_gives_none(method: object, rewards: list[float]) -> None:
    """Single-member and zero-variance groups gave NaN or a zero that diluted the batch."""
    assert callable(method)
    assert method(np.array(rewards)) is None
