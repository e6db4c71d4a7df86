"""The loss of a micro-batch: four terms, each over its own active tokens (algorithms §1).

    w_pg·L_pg/N_pg + w_distill·L_distill/N_distill + w_ce·L_ce/N_ce + w_kl·L_kl/N_kl

``normalisers`` makes the 1/N of every token from the whole optimiser batch; ``loss`` adds up one
micro-batch, so the sum over micro-batches does not depend on where they are cut.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from rl import losses
from rl.methodsettings import AlgorithmConfig
from rl.offpolicy import Correction
from rl.packing import PackedBatch
from rl.scorer import TokenScores
from rl.types import TERMS, BoolArray, FloatArray, IntArray, Sample, Term

Normaliser = dict[Term, FloatArray]


@dataclass
class Tally:
    """What a step adds up while it goes through the micro-batches."""

    terms: dict[str, float] = field(default_factory=dict)
    kl_to_start: float = 0.0
    entropy_sum: float = 0.0
    clipped: int = 0
    ratio_max: float = 0.0
    keep_E: list[BoolArray] = field(default_factory=list)
    gap_E: list[FloatArray] = field(default_factory=list)

    @property
    def loss(self) -> float:
        """The whole loss."""
        return sum(self.terms.values())

    @classmethod
    def merge(cls, parts: "Sequence[tuple[Sequence[int], Tally]]") -> "Tally":
        """Return what ranks added up together, from the micro-batches each has computed; the order
        of micro-batches is restored."""
        merged = cls()
        arrays: dict[int, tuple[BoolArray, FloatArray]] = {}
        for order, part in parts:
            for term, value in part.terms.items():
                merged.terms[term] = merged.terms.get(term, 0.0) + value
            merged.kl_to_start += part.kl_to_start
            merged.entropy_sum += part.entropy_sum
            merged.clipped += part.clipped
            merged.ratio_max = max(merged.ratio_max, part.ratio_max)
            arrays |= dict(zip(order, zip(part.keep_E, part.gap_E, strict=True), strict=True))
        merged.keep_E = [arrays[index][0] for index in sorted(arrays)]
        merged.gap_E = [arrays[index][1] for index in sorted(arrays)]
        return merged


def normalisers(
    batches: Sequence[PackedBatch],
    samples: Sequence[Sample],
    keep_E: Sequence[BoolArray] | None,
    algorithm: AlgorithmConfig,
) -> list[Normaliser]:
    """Return each micro-batch's token normalisers, per term, over all of them.

    A token counts in a term where its weight is not 0 and it is not masked. A sequence is an
    episode: branches of one episode count as one.

    Args:
        samples: of the step; ``sample_E`` points into them.
        keep_E: False where a policy-gradient token is masked, one array per micro-batch.
    """
    numbers = {name: n for n, name in enumerate({s.episode_id: None for s in samples})}
    episode_of = np.array([numbers[sample.episode_id] for sample in samples])
    sequence_E: IntArray = episode_of[np.concatenate([batch.sample_E for batch in batches])]
    kept_E = np.concatenate(keep_E) if keep_E is not None else np.ones(len(sequence_E), np.bool_)
    cuts = np.cumsum([len(batch.sample_E) for batch in batches])[:-1]
    parts: dict[Term, list[FloatArray]] = {}
    for term in TERMS:
        active_E = np.concatenate([batch.weight_E[term] for batch in batches]) != 0
        if term in ("pg", "kl"):
            active_E &= kept_E
        share_E = np.zeros(len(sequence_E))
        share_E[active_E] = losses.token_weights(
            sequence_E[active_E], algorithm.aggregation, float(algorithm.norm_length)
        )
        parts[term] = np.split(share_E, cuts)
    return [{term: parts[term][i] for term in TERMS} for i in range(len(batches))]


def loss(
    scores: TokenScores,
    batch: PackedBatch,
    correction: Correction,
    ref_E: torch.Tensor | None,
    share: Normaliser,
    algorithm: AlgorithmConfig,
    tally: Tally,
) -> torch.Tensor:
    """Return a micro-batch's part of the loss and write down what it was made of."""
    parts: dict[Term, torch.Tensor] = {}
    keep_E = torch.from_numpy(correction.keep_E).to(scores.logprobs_E.device)
    # a masked token stands at its old log-prob: its ratio is 1, finite, and carries nothing
    safe_E = torch.where(keep_E, scores.logprobs_E, correction.old_E)
    if (batch.weight_E["pg"] != 0).any():
        parts["pg"] = _policy_gradient(safe_E, batch, correction, algorithm, tally)
    if ref_E is not None:
        kl_E = losses.k3(safe_E, ref_E)
        share_E = torch.from_numpy(share["kl"]).to(kl_E)
        tally.kl_to_start += float((share_E * kl_E.detach()).sum())
        parts["kl"] = kl_E
    if (batch.weight_E["ce"] != 0).any():
        parts["ce"] = losses.cross_entropy(scores.logprobs_E)
    if (batch.weight_E["distill"] != 0).any():
        parts["distill"] = _distillation(scores, batch, algorithm)
    total = scores.logprobs_E.new_zeros(())
    for term, part_E in parts.items():
        weight_E = torch.from_numpy(batch.weight_E[term]).to(part_E)
        if term == "pg":
            weight_E = weight_E * correction.importance_E
        value = (torch.from_numpy(share[term]).to(part_E) * (weight_E * part_E)).sum()
        tally.terms[term] = tally.terms.get(term, 0.0) + float(value.detach())
        total = total + value
    tally.entropy_sum += float(scores.entropy_E.sum())
    tally.keep_E.append(correction.keep_E)
    tally.gap_E.append(correction.gap_E)
    return total


def _policy_gradient(
    safe_E: torch.Tensor,
    batch: PackedBatch,
    correction: Correction,
    algorithm: AlgorithmConfig,
    tally: Tally,
) -> torch.Tensor:
    in_pg_E = torch.from_numpy((batch.weight_E["pg"] != 0) & correction.keep_E).to(safe_E.device)
    _, sequence_E = np.unique(batch.sample_E, return_inverse=True)
    tokens = losses.PolicyTokens(
        logprobs_E=safe_E,
        old_logprobs_E=correction.old_E,
        advantages_E=torch.from_numpy(batch.advantages_E).to(safe_E),
        sequence_E=torch.from_numpy(sequence_E.reshape(-1)).to(safe_E.device),
        active_E=in_pg_E,
    )
    clip = losses.Clip(algorithm.clip_low, algorithm.clip_high, algorithm.dual_clip)
    result = losses.POLICY_LOSSES[algorithm.loss](tokens, clip)
    tally.clipped += int((result.clipped_E & in_pg_E).sum())
    ratios = result.ratio_E.detach()[in_pg_E]
    tally.ratio_max = max(tally.ratio_max, float(ratios.max())) if len(ratios) else tally.ratio_max
    return torch.where(in_pg_E, result.loss_E, torch.zeros_like(result.loss_E))


def _distillation(
    scores: TokenScores, batch: PackedBatch, algorithm: AlgorithmConfig
) -> torch.Tensor:
    """Return the distillation loss: over the teacher's top-K where there is one, else on the
    sampled token."""
    teacher_E = torch.from_numpy(batch.teacher_E).to(scores.logprobs_E)
    known_E = torch.where(torch.isnan(teacher_E), scores.logprobs_E.detach(), teacher_E)
    loss_E = losses.squared_log_ratio(scores.logprobs_E, known_E)
    if scores.topk_QK is None or batch.topk is None:
        return loss_E
    with_E = np.flatnonzero(batch.topk_E >= 0)
    wanted_QK = torch.from_numpy(batch.topk.logprobs_TK[batch.topk_E[with_E]])
    loss_Q = losses.DISTILL_LOSSES[algorithm.distill](scores.topk_QK, wanted_QK.to(scores.topk_QK))
    return loss_E.index_put((torch.from_numpy(with_E).to(loss_E.device),), loss_Q)
