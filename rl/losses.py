"""Losses as pure functions of per-token log-probs (algorithms §1). ``_E`` is a trained token,
``_Q`` one with a teacher's top-K, ``_K`` one of those.

Every function returns one value per token; aggregation is a weight per token, computed once for
the whole optimiser batch, so that the result does not depend on how the batch is cut. Which tokens
count, and how much, is the caller's (``rl.objective``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from rl.types import FloatArray, IntArray

Aggregation = Literal["token_mean", "seq_mean_token_mean", "seq_mean_token_sum_norm"]
MAX_LOG_SEQUENCE_RATIO = 10.0


@dataclass(frozen=True)
class PolicyTokens:
    """What a policy-gradient loss is made of; all ``_E``.

    Attributes:
        logprobs_E: log π_θ, with gradient.
        old_logprobs_E: log π_old.
        advantages_E: of each token.
        sequence_E: number of the token's sequence, from 0.
        active_E: tokens that count; a sequence's mean is over these alone.
    """

    logprobs_E: torch.Tensor
    old_logprobs_E: torch.Tensor
    advantages_E: torch.Tensor
    sequence_E: torch.Tensor
    active_E: torch.Tensor


@dataclass(frozen=True)
class Clip:
    """Bounds of the ratio: [1 - low, 1 + high]; ``dual`` bounds the loss of A < 0."""

    low: float = 0.2
    high: float = 0.28
    dual: float | None = None


@dataclass(frozen=True)
class PolicyLoss:
    """Per-token loss and what happened to the ratios."""

    loss_E: torch.Tensor
    ratio_E: torch.Tensor
    clipped_E: torch.Tensor


def ppo_clip(tokens: PolicyTokens, clip: Clip) -> PolicyLoss:
    """Return -min(r·A, clip(r, 1-low, 1+high)·A) (PPO, arXiv 1707.06347, eq. 7; clip-higher as in
    DAPO, arXiv 2503.14476, eq. 10); for A < 0 at most dual·|A| (arXiv 1912.09729, eq. 5)."""
    ratio_E = torch.exp(tokens.logprobs_E - tokens.old_logprobs_E)
    return _clipped(ratio_E, tokens.advantages_E, clip)


def gspo(tokens: PolicyTokens, clip: Clip) -> PolicyLoss:
    """Return the clipped loss with one ratio per sequence, the exponential of the mean log-ratio
    over its tokens (GSPO, arXiv 2507.18071, eqs. 5-7; the token form of its eq. 14, so that the
    gradient of a token is its own log-prob's)."""
    log_ratio_E = torch.where(
        tokens.active_E, (tokens.logprobs_E - tokens.old_logprobs_E).detach(), 0.0
    )
    size = int(tokens.sequence_E.max()) + 1 if len(tokens.sequence_E) else 0
    sums = log_ratio_E.new_zeros(size).index_add(0, tokens.sequence_E, log_ratio_E)
    counts = sums.new_zeros(size).index_add(0, tokens.sequence_E, tokens.active_E.to(sums))
    mean_E = (sums / counts.clamp(min=1.0))[tokens.sequence_E]
    moving_E = tokens.logprobs_E - tokens.logprobs_E.detach() + mean_E
    ratio_E = torch.exp(moving_E.clamp(max=MAX_LOG_SEQUENCE_RATIO))
    return _clipped(ratio_E, tokens.advantages_E, clip)


def cispo(tokens: PolicyTokens, clip: Clip) -> PolicyLoss:
    """Return -sg(clip(r))·A·log π: a clipped weight without gradient, so that no token falls
    silent (CISPO, arXiv 2506.13585, eqs. 4-5)."""
    ratio_E = torch.exp(tokens.logprobs_E - tokens.old_logprobs_E).detach()
    weight_E = torch.clamp(ratio_E, 1.0 - clip.low, 1.0 + clip.high)
    loss_E = -weight_E * tokens.advantages_E * tokens.logprobs_E
    return PolicyLoss(loss_E, ratio_E, weight_E != ratio_E)


def reinforce(tokens: PolicyTokens, clip: Clip) -> PolicyLoss:
    """Return -A·log π (Williams, 1992); the ratio is reported, not used."""
    ratio_E = torch.exp(tokens.logprobs_E - tokens.old_logprobs_E).detach()
    loss_E = -tokens.advantages_E * tokens.logprobs_E
    return PolicyLoss(loss_E, ratio_E, torch.zeros_like(tokens.active_E))


PolicyLossFunction = Callable[[PolicyTokens, Clip], PolicyLoss]
POLICY_LOSSES: dict[str, PolicyLossFunction] = {
    "ppo_clip": ppo_clip,
    "gspo": gspo,
    "cispo": cispo,
    "reinforce": reinforce,
}


def _clipped(ratio_E: torch.Tensor, advantages_E: torch.Tensor, clip: Clip) -> PolicyLoss:
    free_E = -ratio_E * advantages_E
    bounded_E = -torch.clamp(ratio_E, 1.0 - clip.low, 1.0 + clip.high) * advantages_E
    loss_E = torch.maximum(free_E, bounded_E)
    clipped_E = bounded_E > free_E
    if clip.dual is not None:
        ceiling_E = -clip.dual * advantages_E
        over_E = (advantages_E < 0) & (loss_E > ceiling_E)
        loss_E = torch.where(over_E, ceiling_E, loss_E)
        clipped_E = clipped_E | over_E
    return PolicyLoss(loss_E, ratio_E, clipped_E)


def k3(logprobs_E: torch.Tensor, ref_logprobs_E: torch.Tensor) -> torch.Tensor:
    """Return exp(δ) - δ - 1 with δ = log π_ref - log π_θ: unbiased, never negative
    (Schulman, "Approximating KL divergence", 2020)."""
    delta_E = ref_logprobs_E - logprobs_E
    return torch.exp(delta_E) - delta_E - 1.0


def cross_entropy(logprobs_E: torch.Tensor) -> torch.Tensor:
    """Return -log π: supervised learning on demonstrations."""
    return -logprobs_E


def squared_log_ratio(logprobs_E: torch.Tensor, teacher_E: torch.Tensor) -> torch.Tensor:
    """Return ½(log π_T - log π_θ)² on sampled tokens: on policy, its expected gradient is that of
    KL(π_θ ‖ π_T) (the k2 estimator of Schulman, 2020)."""
    return 0.5 * (teacher_E - logprobs_E) ** 2


def reverse_kl(logprobs_QK: torch.Tensor, teacher_QK: torch.Tensor) -> torch.Tensor:
    """Return KL(π_θ ‖ π_T) over K tokens and one bin for all others; padding is -inf on both sides.

    Never above the KL over the whole vocabulary (data processing inequality), 0 at equality.
    """
    there_QK = torch.isfinite(teacher_QK)
    student_QK = torch.where(there_QK, logprobs_QK, -1.0)
    wanted_QK = torch.where(there_QK, teacher_QK, -1.0)
    inside_QK = torch.where(there_QK, student_QK.exp() * (student_QK - wanted_QK), 0.0)
    tail_Q = _log_rest(torch.where(there_QK, student_QK.exp(), 0.0).sum(-1))
    wanted_tail_Q = _log_rest(torch.where(there_QK, wanted_QK.exp(), 0.0).sum(-1))
    return inside_QK.sum(-1) + tail_Q.exp() * (tail_Q - wanted_tail_Q)


def overlap_advantage(
    logprobs_QK: torch.Tensor, teacher_QK: torch.Tensor, bound: float = 1.0
) -> torch.Tensor:
    """Return -Σ_v softmax(ℓ_old)_v · clip(ℓ_T - ℓ_old, ±bound)_v · r_v over the teacher's top K,
    ℓ_old being the policy's log-probs before the step (algorithms §2, topk)."""
    there_QK = torch.isfinite(teacher_QK)
    student_QK = torch.where(there_QK, logprobs_QK, 0.0)
    old_QK = student_QK.detach()
    share_QK = torch.softmax(torch.where(there_QK, old_QK, -torch.inf), -1)
    gain_QK = torch.where(there_QK, (teacher_QK - old_QK).clamp(-bound, bound), 0.0)
    return -(share_QK * gain_QK * torch.exp(student_QK - old_QK)).sum(-1)


DISTILL_LOSSES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "reverse_kl": reverse_kl,
    "overlap": overlap_advantage,
}


def _log_rest(mass_Q: torch.Tensor) -> torch.Tensor:
    """Return log(1 - mass), finite also where rounding made the mass 1."""
    return torch.log1p(-mass_Q.clamp(max=1.0 - 1e-6))


def token_weights(
    sequence_E: IntArray, aggregation: Aggregation, norm_length: float = 1.0
) -> FloatArray:
    """Return the weight of each active token; a term is the weighted sum over the whole batch.

    Args:
        sequence_E: which sequence a token belongs to, over the *whole* optimiser batch.
        aggregation: ``token_mean``: every token counts the same. ``seq_mean_token_mean``: every
            sequence counts the same. ``seq_mean_token_sum_norm``: sums over a fixed length
            (Dr. GRPO), so that length is not rewarded by accident.
        norm_length: that fixed length.
    """
    num_tokens = len(sequence_E)
    if num_tokens == 0:
        return np.zeros(0)
    if aggregation == "token_mean":
        return np.full(num_tokens, 1.0 / num_tokens)
    _, inverse_E, counts = np.unique(sequence_E, return_inverse=True, return_counts=True)
    if aggregation == "seq_mean_token_mean":
        return 1.0 / (counts[inverse_E] * len(counts))
    return np.full(num_tokens, 1.0 / (len(counts) * norm_length))
