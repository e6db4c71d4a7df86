"""The trainer: one optimiser step from samples, blind to the method that annotated them.

A batch is packed into prefix trees, each micro-batch adds its share of the gradient, and one AdamW
step follows. Token weights are computed over the whole batch first, so micro-batching, packing and
order change nothing but rounding. Left out: where samples come from (``rl.algorithms``), how
weights reach the engine (``serving.weights``), what is kept on disk (``rl.checkpoint``).
"""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from rl import losses
from rl.config import AlgorithmConfig, LoraConfig, OptimConfig, TrainerConfig
from rl.errors import DivergedError
from rl.model import Policy
from rl.packing import PackedBatch, pack
from rl.types import FloatArray, Sample, StepMetrics

Objective = Literal["policy_gradient", "cross_entropy"]
# log of π_trainer / π_engine outside of which a token is masked, and counted: [1e-4, 100]
LOG_DROP = (math.log(1e-4), math.log(100.0))


@dataclass
class _Tally:
    """What a step adds up while it goes through the micro-batches."""

    loss: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0
    clipped: int = 0
    dropped: int = 0
    dropped_weight: float = 0.0
    weight: float = 0.0
    ratio_max: float = 0.0
    nodes: int = 0
    unshared: int = 0
    gap_E: list[FloatArray] = field(default_factory=list)
    lag_E: list[FloatArray] = field(default_factory=list)


class Trainer:
    """Holds the policy and its optimiser.

    Args:
        folder: the start policy in Hugging Face layout.
        algorithm, optim, trainer, lora: sections of the configuration. With ``kl_coef`` > 0 and
            full fine-tuning a frozen copy of the start policy is held for the anchor.
        seed: of adapters' initialisation.
    """

    def __init__(
        self,
        folder: Path,
        algorithm: AlgorithmConfig,
        optim: OptimConfig,
        trainer: TrainerConfig,
        lora: LoraConfig,
        seed: int = 0,
    ) -> None:
        torch.manual_seed(seed)
        if trainer.threads is not None:
            torch.set_num_threads(trainer.threads)
        self.policy = Policy(folder, lora, trainer.logit_chunk, trainer.activation_checkpointing)
        if algorithm.kl_coef > 0:
            self.policy.keep_reference(folder)
        self.algorithm, self.optim, self.config = algorithm, optim, trainer
        self.step_index = 0
        self.forget_moments()

    def forget_moments(self) -> None:
        """Start the optimiser afresh, keeping the weights."""
        self.optimizer = torch.optim.AdamW(
            self.policy.trainable,
            lr=self.optim.lr,
            betas=self.optim.betas,
            weight_decay=self.optim.weight_decay,
            fused=True,
        )

    def learning_rate(self, step_index: int) -> float:
        """Return the rate of a step: linear warm-up, then constant."""
        warm = self.optim.warmup_steps
        return self.optim.lr * min(1.0, (step_index + 1) / warm) if warm else self.optim.lr

    def step(
        self,
        samples: Sequence[Sample],
        *,
        objective: Objective = "policy_gradient",
        version: int = 0,
        lr: float | None = None,
    ) -> StepMetrics:
        """Take one optimiser step.

        Args:
            samples: annotated; those without a trained token are left out.
            objective: clipped policy gradient with KL anchor, or cross-entropy.
            version: the policy version the weights have now, for staleness.
            lr: overrides the schedule.

        Raises:
            DivergedError: loss or gradient is not finite; weights are unchanged.
        """
        started = time.monotonic()
        batches = pack(samples, self.config.token_budget)
        weights = self._weights(batches, samples)
        tally = _Tally()
        self.optimizer.zero_grad(set_to_none=True)
        for batch, weight_E in zip(batches, weights, strict=True):
            loss = self._loss(batch, weight_E, objective, version, tally)
            loss.backward()  # type: ignore[no-untyped-call]
        if not batches:
            return StepMetrics({"trained_tokens": 0.0, "seconds": time.monotonic() - started})
        self._spread_over_kept(tally)
        norm = float(
            torch.nn.utils.clip_grad_norm_(self.policy.trainable, self.optim.max_grad_norm)
        )
        if not (math.isfinite(norm) and math.isfinite(tally.loss)):
            self.optimizer.zero_grad(set_to_none=True)
            raise DivergedError(
                f"loss {tally.loss} and gradient norm {norm}: the step was not taken"
            )
        rate = self.learning_rate(self.step_index) if lr is None else lr
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if objective == "policy_gradient":
            self.step_index += 1
        return _metrics(tally, batches, norm, rate, version, time.monotonic() - started)

    def state(self) -> dict[str, Any]:
        """Return weights, optimiser, schedule and random state, for ``rl.checkpoint``."""
        return {
            "weights": self.policy.trainable_state(),
            "optimizer": self.optimizer.state_dict(),
            "step_index": self.step_index,
            "rng": torch.get_rng_state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from ``state``.

        Raises:
            RunError: it belongs to another model.
        """
        self.policy.load_trainable(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step_index = int(state["step_index"])
        torch.set_rng_state(state["rng"])

    # ------------------------------------------------------------- inside

    def _spread_over_kept(self, tally: _Tally) -> None:
        """Give the weight of dropped tokens to the others: what is masked must not dilute."""
        kept = tally.weight - tally.dropped_weight
        if tally.dropped_weight > 0 and kept > 0:
            for parameter in self.policy.trainable:
                if parameter.grad is not None:
                    parameter.grad.mul_(tally.weight / kept)

    def _weights(
        self, batches: Sequence[PackedBatch], samples: Sequence[Sample]
    ) -> list[FloatArray]:
        """Return each micro-batch's token weights, normalised over all of them.

        A sequence is an episode: branches of one episode count as one.
        """
        if not batches:
            return []
        numbers = {name: n for n, name in enumerate({s.episode_id: None for s in samples})}
        episode_of = np.array([numbers[sample.episode_id] for sample in samples])
        sequence_E = episode_of[np.concatenate([batch.sample_E for batch in batches])]
        weight_E = losses.token_weights(
            sequence_E, self.algorithm.aggregation, float(self.algorithm.norm_length)
        )
        cuts = np.cumsum([len(batch.sample_E) for batch in batches])[:-1]
        return list(np.split(weight_E, cuts))

    def _loss(
        self,
        batch: PackedBatch,
        weight_E: FloatArray,
        objective: Objective,
        version: int,
        tally: _Tally,
    ) -> torch.Tensor:
        scores = self.policy.score(batch)
        weights = torch.from_numpy(weight_E).to(scores.logprobs_E)
        if objective == "cross_entropy":
            loss = (weights * losses.cross_entropy(scores.logprobs_E)).sum()
        else:
            loss = self._policy_gradient(batch, scores.logprobs_E, weights, version, tally)
        tally.loss += float(loss.detach())
        tally.entropy += float((weights * scores.entropy_E).sum())
        tally.nodes += batch.num_nodes
        tally.unshared += batch.num_unshared
        return loss

    def _policy_gradient(
        self,
        batch: PackedBatch,
        logprobs_E: torch.Tensor,
        weights: torch.Tensor,
        version: int,
        tally: _Tally,
    ) -> torch.Tensor:
        if np.isnan(batch.old_logprobs_E).any():
            raise ValueError("a policy gradient needs the log-prob of every trained token")
        old_E = torch.from_numpy(batch.old_logprobs_E).to(logprobs_E)
        advantages_E = torch.from_numpy(batch.advantages_E).to(logprobs_E)
        gap_E = logprobs_E.detach() - old_E
        keep_E = (gap_E > LOG_DROP[0]) & (gap_E < LOG_DROP[1])
        # a dropped token stands at its old log-prob: its ratio is 1, finite, and carries nothing
        safe_E = torch.where(keep_E, logprobs_E, old_E)
        clipped = losses.ppo_clip(
            safe_E, old_E, advantages_E, self.algorithm.clip_low, self.algorithm.clip_high
        )
        loss_E = torch.where(keep_E, clipped.loss_E, torch.zeros_like(clipped.loss_E))
        tally.clipped += int((clipped.clipped_E & keep_E).sum())
        tally.dropped += int((~keep_E).sum())
        tally.dropped_weight += float(weights[~keep_E].sum())
        tally.weight += float(weights.sum())
        tally.ratio_max = max(tally.ratio_max, float(clipped.ratio_E.detach().max()))
        tally.gap_E.append(gap_E.abs().double().cpu().numpy())
        tally.lag_E.append((version - batch.version_E).astype(np.float64))
        if self.algorithm.kl_coef > 0:
            kl_E = losses.k3(safe_E, self.policy.reference_logprobs(batch)) * keep_E
            tally.kl += float((weights * kl_E.detach()).sum())
            loss_E = loss_E + self.algorithm.kl_coef * kl_E
        return (weights * loss_E).sum()


def _metrics(
    tally: _Tally,
    batches: Sequence[PackedBatch],
    norm: float,
    rate: float,
    version: int,
    seconds: float,
) -> StepMetrics:
    trained = sum(len(batch.target_E) for batch in batches)
    values = {
        "loss": tally.loss,
        "entropy": tally.entropy,
        "grad_norm": norm,
        "lr": rate,
        "trained_tokens": float(trained),
        "computed_tokens": float(tally.nodes),
        "sharing": tally.unshared / max(tally.nodes, 1),
        "seconds": seconds,
    }
    if tally.gap_E:
        gap_E, lag_E = np.concatenate(tally.gap_E), np.concatenate(tally.lag_E)
        values |= {
            "kl_to_start": tally.kl,
            "clipped_share": tally.clipped / max(trained, 1),
            "dropped_share": tally.dropped / max(trained, 1),
            "ratio_max": tally.ratio_max,
            "logprob_gap_mean": float(gap_E.mean()),
            "logprob_gap_p99": float(np.quantile(gap_E, 0.99)),
            "staleness_mean": float(lag_E.mean()),
        }
        values |= dict(_gap_by_staleness(gap_E, lag_E))
    return StepMetrics(values)


def _gap_by_staleness(gap_E: FloatArray, lag_E: FloatArray) -> Iterable[tuple[str, float]]:
    for lag in np.unique(lag_E):
        yield f"logprob_gap_mean/staleness_{int(lag)}", float(gap_E[lag_E == lag].mean())
