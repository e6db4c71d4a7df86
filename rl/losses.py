"""Losses as pure functions of per-token log-probs (algorithms §1). ``_E`` is a trained token.

Every function returns one value per token; aggregation is a weight per token, computed once for
the whole optimiser batch, so that the result does not depend on how the batch is cut.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from rl.types import FloatArray, IntArray

Aggregation = Literal["token_mean", "seq_mean_token_mean", "seq_mean_token_sum_norm"]


@dataclass(frozen=True)
class ClippedLoss:
    """Per-token loss and what happened to the ratios."""

    loss_E: torch.Tensor
    ratio_E: torch.Tensor
    clipped_E: torch.Tensor


def ppo_clip(
    logprobs_E: torch.Tensor,
    old_logprobs_E: torch.Tensor,
    advantages_E: torch.Tensor,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
) -> ClippedLoss:
    """Return -min(r·A, clip(r, 1-low, 1+high)·A) (PPO, arXiv 1707.06347, eq. 7; clip-higher as in
    DAPO, arXiv 2503.14476, eq. 10)."""
    ratio_E = torch.exp(logprobs_E - old_logprobs_E)
    free_E = -ratio_E * advantages_E
    bounded_E = -torch.clamp(ratio_E, 1.0 - clip_low, 1.0 + clip_high) * advantages_E
    return ClippedLoss(torch.maximum(free_E, bounded_E), ratio_E, bounded_E > free_E)


def k3(logprobs_E: torch.Tensor, ref_logprobs_E: torch.Tensor) -> torch.Tensor:
    """Return exp(δ) - δ - 1 with δ = log π_ref - log π_θ: unbiased, never negative
    (Schulman, "Approximating KL divergence", 2020)."""
    delta_E = ref_logprobs_E - logprobs_E
    return torch.exp(delta_E) - delta_E - 1.0


def cross_entropy(logprobs_E: torch.Tensor) -> torch.Tensor:
    """Return -log π: supervised learning on demonstrations."""
    return -logprobs_E


def token_weights(
    sequence_E: IntArray, aggregation: Aggregation, norm_length: float = 1.0
) -> FloatArray:
    """Return the weight of each trained token; the loss is the weighted sum over the whole batch.

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
