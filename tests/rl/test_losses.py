"""Losses against closed forms; weights against the definition of each aggregation."""

import math

import numpy as np
import torch

from rl import losses


def tokens(
    logprobs_E: torch.Tensor, advantages_E: torch.Tensor, old_E: torch.Tensor | None = None
) -> losses.PolicyTokens:
    """Tokens of one sequence, all active; log π_old is 0 unless given."""
    size = len(logprobs_E)
    old = torch.zeros(size) if old_E is None else old_E
    everything = torch.ones(size, dtype=torch.bool)
    return losses.PolicyTokens(
        logprobs_E, old, advantages_E, torch.zeros(size, dtype=torch.int64), everything
    )


def test_clip_takes_the_pessimistic_side() -> None:
    """A ratio past the clip must stop the gradient for A > 0 and keep it for A < 0."""
    logprobs = torch.tensor([math.log(1.5), math.log(1.5), 0.0], requires_grad=True)
    result = losses.ppo_clip(tokens(logprobs, torch.tensor([1.0, -1.0, 2.0])), losses.Clip())
    torch.testing.assert_close(result.loss_E.detach(), torch.tensor([-1.28, 1.5, -2.0]))
    result.loss_E.sum().backward()
    assert logprobs.grad is not None
    torch.testing.assert_close(logprobs.grad, torch.tensor([0.0, 1.5, -2.0]))
    assert result.clipped_E.tolist() == [True, False, False]


def test_k3_is_zero_at_equality_and_never_negative() -> None:
    """The anchor of an unchanged policy is 0; the k1 estimator would go below."""
    same = losses.k3(torch.tensor([-1.0]), torch.tensor([-1.0]))
    assert float(same) == 0.0
    other = losses.k3(torch.randn(1000), torch.randn(1000))
    assert bool((other >= 0).all())
    expected = math.exp(-0.5) + 0.5 - 1
    assert math.isclose(
        float(losses.k3(torch.tensor([0.5]), torch.tensor([0.0]))), expected, abs_tol=1e-6
    )


def test_aggregations_weigh_as_defined() -> None:
    """Sequences of 1 and 3 tokens: by token, by sequence, by a fixed length."""
    sequence = np.array([0, 1, 1, 1])
    np.testing.assert_allclose(losses.token_weights(sequence, "token_mean"), [0.25] * 4)
    np.testing.assert_allclose(
        losses.token_weights(sequence, "seq_mean_token_mean"), [0.5, 1 / 6, 1 / 6, 1 / 6]
    )
    np.testing.assert_allclose(
        losses.token_weights(sequence, "seq_mean_token_sum_norm", 10), [0.05] * 4
    )
    assert len(losses.token_weights(np.array([], np.int64), "token_mean")) == 0
