"""Losses against closed forms; weights against the definition of each aggregation."""

import math

import numpy as np
import pytest
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


def test_dual_clip_bounds_the_loss_of_bad_tokens() -> None:
    """A token made ten times likelier with A = -1 would weigh 10; with c = 3 it weighs 3 and no
    longer pulls. Good tokens are not touched."""
    logprobs = torch.tensor([math.log(10.0), math.log(10.0)], requires_grad=True)
    batch = tokens(logprobs, torch.tensor([-1.0, 1.0]))
    result = losses.ppo_clip(batch, losses.Clip(dual=3.0))
    torch.testing.assert_close(result.loss_E.detach(), torch.tensor([3.0, -1.28]))
    result.loss_E.sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [0.0, 0.0]


def test_gspo_uses_the_geometric_mean_of_each_sequence() -> None:
    """Ratios 4 and 1 make 2 for both tokens; a masked token has no say, and neither has another
    sequence."""
    logprobs = torch.log(torch.tensor([4.0, 1.0, 100.0, 3.0]))
    batch = losses.PolicyTokens(
        logprobs, torch.zeros(4), torch.full((4,), -1.0), torch.tensor([0, 0, 0, 1]),
        torch.tensor([True, True, False, True]),
    )  # fmt: skip
    result = losses.gspo(batch, losses.Clip(0.2, 9.0))
    torch.testing.assert_close(result.ratio_E[[0, 1, 3]], torch.tensor([2.0, 2.0, 3.0]))


def test_cispo_keeps_a_gradient_where_ppo_has_none() -> None:
    """Past the clip the weight stops at 1.28, the token's log-prob still moves."""
    logprobs = torch.tensor([math.log(2.0)], requires_grad=True)
    losses.cispo(tokens(logprobs, torch.ones(1)), losses.Clip()).loss_E.sum().backward()
    torch.testing.assert_close(logprobs.grad, torch.tensor([-1.28]))


def test_reinforce_is_the_plain_score_function() -> None:
    """-A·log π, whatever the ratio."""
    logprobs = torch.tensor([-2.0], requires_grad=True)
    losses.reinforce(tokens(logprobs, torch.full((1,), 3.0)), losses.Clip()).loss_E.backward()
    torch.testing.assert_close(logprobs.grad, torch.tensor([-3.0]))


def test_reverse_kl_over_all_tokens_is_the_kl() -> None:
    """With K tokens and a tail bin it is below the whole KL, with the whole vocabulary equal."""
    rng = torch.Generator().manual_seed(0)
    student = torch.log_softmax(torch.randn(5, 20, generator=rng, dtype=torch.float64), -1)
    teacher = torch.log_softmax(torch.randn(5, 20, generator=rng, dtype=torch.float64), -1)
    whole = (student.exp() * (student - teacher)).sum(-1)
    torch.testing.assert_close(losses.reverse_kl(student, teacher), whole, rtol=1e-4, atol=1e-4)
    part = losses.reverse_kl(student[:, :4], teacher[:, :4])
    assert bool((part <= whole + 1e-12).all())
    assert bool((part > 0).all())
    assert float(losses.reverse_kl(teacher[:, :4], teacher[:, :4]).abs().max()) < 1e-12


@pytest.mark.parametrize("loss", losses.DISTILL_LOSSES.values(), ids=list(losses.DISTILL_LOSSES))
def test_padding_of_a_top_k_changes_nothing(loss: object) -> None:
    """A row padded with impossible tokens: the same value and gradient, and no NaN."""
    assert callable(loss)
    teacher = torch.log(torch.tensor([[0.5, 0.2]]))
    student = torch.log(torch.tensor([[0.3, 0.4]])).requires_grad_()
    padded = torch.log(torch.tensor([[0.3, 0.4, 0.1]])).requires_grad_()
    loss(student, teacher).sum().backward()
    loss(padded, torch.cat([teacher, torch.tensor([[-torch.inf]])], 1)).sum().backward()
    assert student.grad is not None
    assert padded.grad is not None
    torch.testing.assert_close(padded.grad[:, :2], student.grad)
    assert float(padded.grad[0, 2]) == 0.0


def test_overlap_moves_towards_the_teacher_by_at_most_the_bound() -> None:
    """Each token gains softmax(ℓ_old)·clip(ℓ_T - ℓ_old, ±1)."""
    student = torch.log(torch.tensor([[0.6, 0.2]])).requires_grad_()
    teacher = torch.log(torch.tensor([[0.3, 0.65]]))
    losses.overlap_advantage(student, teacher).sum().backward()
    share = torch.tensor([[0.75, 0.25]])
    gain = torch.tensor([[math.log(0.5), 1.0]])
    torch.testing.assert_close(student.grad, -share * gain)


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
