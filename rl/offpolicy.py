"""Off-policy correction: what the engine sampled from, and what the trainer holds (algorithms §1).

Three policies meet in a token: π_engine, whose log-prob was recorded at sampling; π_old, under the
ratio; π_θ. ``trainer.recompute_old`` says where π_old comes from:

- ``auto``: tokens of the present weights take the trainer's own log-prob from before the step, and
  what engine and trainer make of the same weights becomes a truncated importance weight. A batch
  is one step, so the step's first forward *is* that log-prob, and no second one is made unless
  dropout is active. Older tokens keep the engine's: the weights that sampled them are gone, and the
  clipped ratio is what bounds their age.
- ``always``: all tokens take it, from a forward of its own (the proximal policy of decoupled PPO,
  arXiv 2110.00641); the importance weight then carries staleness too.
- ``never``: all tokens keep the engine's.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from rl.packing import PackedBatch
from rl.settings import TrainerConfig
from rl.types import BoolArray, FloatArray

# log of π_trainer / π_engine outside of which a token is masked, and counted: [1e-4, 100]
LOG_DROP = (math.log(1e-4), math.log(100.0))


@dataclass(frozen=True)
class Correction:
    """Of the policy-gradient tokens of a micro-batch; others have weight 1 and are kept.

    Attributes:
        old_E: log π_old; finite everywhere.
        importance_E: min(π_old / π_engine, cap), without gradient.
        keep_E: False where the token or its whole sequence is masked.
        gap_E: log π_trainer - log π_engine before the step; NaN off the policy gradient.
    """

    old_E: torch.Tensor
    importance_E: torch.Tensor
    keep_E: BoolArray
    gap_E: FloatArray


def correct(
    batch: PackedBatch, before_E: torch.Tensor, version: int, settings: TrainerConfig
) -> Correction:
    """Compare the engine's log-probs with the trainer's own.

    Args:
        before_E: the trainer's log-probs with the weights before the step, without gradient.
        version: policy version of those weights.
    """
    in_pg_E: BoolArray = batch.weight_E["pg"] != 0
    engine_E = torch.from_numpy(np.where(in_pg_E, batch.old_logprobs_E, 0.0)).to(before_E)
    gap = before_E - engine_E
    gap_E = np.where(in_pg_E, gap.double().cpu().numpy(), np.nan)
    recomputed_E = in_pg_E & _recomputed(batch, version, settings)
    keep_E = ~in_pg_E | ((gap_E > LOG_DROP[0]) & (gap_E < LOG_DROP[1]))
    if settings.sequence_tolerance is not None:
        measured_E = recomputed_E & keep_E
        keep_E &= ~(in_pg_E & _drifted(batch, gap_E, measured_E, settings.sequence_tolerance))
    taken = torch.from_numpy(recomputed_E).to(before_E.device)
    in_pg = torch.from_numpy(in_pg_E).to(before_E.device)
    weight_E = torch.exp(gap.clamp(*LOG_DROP)).clamp(max=settings.importance_cap)
    return Correction(
        old_E=torch.where(taken | ~in_pg, before_E, engine_E),
        importance_E=torch.where(taken, weight_E, torch.ones_like(weight_E)),
        keep_E=keep_E,
        gap_E=gap_E,
    )


def _recomputed(batch: PackedBatch, version: int, settings: TrainerConfig) -> BoolArray:
    if settings.recompute_old == "auto":
        fresh_E: BoolArray = batch.version_E == version
        return fresh_E
    return np.full(len(batch.version_E), settings.recompute_old == "always")


def _drifted(
    batch: PackedBatch, gap_E: FloatArray, measured_E: BoolArray, tolerance: float
) -> BoolArray:
    """Return the tokens whose sequence's geometric mean ratio leaves 1 ± 0.01·tolerance."""
    size = int(batch.sample_E.max()) + 1
    at = batch.sample_E[measured_E]
    sums = np.bincount(at, gap_E[measured_E], size)
    means = sums / np.maximum(np.bincount(at, minlength=size), 1)
    drifted: BoolArray = np.abs(np.exp(means) - 1.0) > 0.01 * tolerance
    return drifted[batch.sample_E]


def mismatch(
    gap_E: FloatArray, lag_E: FloatArray, keep_E: BoolArray
) -> Iterable[tuple[str, float]]:
    """Yield mean and 99th percentile of |Δ log-prob|, the masked share, and both by staleness."""
    size_E = np.abs(gap_E)
    yield "logprob_gap_mean", float(size_E.mean())
    yield "logprob_gap_p99", float(np.quantile(size_E, 0.99))
    yield "dropped_share", float((~keep_E).mean())
    yield "staleness_mean", float(lag_E.mean())
    for lag in np.unique(lag_E):
        here = lag_E == lag
        yield f"logprob_gap_mean/staleness_{int(lag)}", float(size_E[here].mean())
        yield f"dropped_share/staleness_{int(lag)}", float((~keep_E[here]).mean())


def too_far(gap_E: FloatArray, lag_E: FloatArray, bound: float) -> str:
    """Return why a batch must be refused, or "". Fresh tokens alone are judged: there engine and
    trainer hold the same weights, and whatever they disagree about is a fault."""
    fresh_E = np.abs(gap_E[lag_E == 0])
    if len(fresh_E) and not float(fresh_E.mean()) <= bound:
        return (
            f"mean |Δ log-prob| of engine and trainer is {fresh_E.mean():.3g} over {len(fresh_E)} "
            f"fresh tokens, bound {bound:g} (trainer.max_logprob_gap)"
        )
    return ""


def all_kept(masks: Sequence[BoolArray]) -> bool:
    """Return whether nothing was masked."""
    return all(bool(mask.all()) for mask in masks)
