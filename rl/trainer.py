"""The trainer: one optimiser step from samples, blind to the method that annotated them.

A batch is packed into prefix trees, each micro-batch adds its share of the gradient, and one AdamW
step follows. Token weights are computed over the whole batch first, so micro-batching, packing and
order change nothing but rounding. Demonstrations, episodes and chat turns travel in one batch: what
a token does is in its weights. Of several ranks each computes its share of the micro-batches; all
see the same numbers and decide alike. Left out: where samples come from (``rl.algorithms``), what
the loss is (``rl.objective``), how weights reach the engine (``serving.weights``), what is kept on
disk (``rl.checkpoint``, ``rl.sharded``).
"""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rl import objective, offpolicy, optimiser, precision, sharding
from rl.errors import DivergedError, MismatchError, SampleError
from rl.guards import Guards
from rl.methodsettings import AlgorithmConfig
from rl.model import Policy
from rl.objective import Tally
from rl.packing import PackedBatch, pack, share_of
from rl.ranks import ALONE, Ranks, share_out
from rl.settings import GuardsConfig, LoraConfig, OptimConfig, TrainerConfig
from rl.types import BoolArray, Sample, StepMetrics, TermWeights, TopK


class Trainer:
    """Holds the policy and its optimiser.

    Args:
        folder: the start policy in Hugging Face layout.
        algorithm, optim, trainer, lora, guards: sections of the configuration. With ``kl_coef`` > 0
            and full fine-tuning a frozen copy of the start policy is held for the anchor.
        seed: of adapters' initialisation.
        ranks: that share the policy; all make the same calls with the same arguments.
    """

    def __init__(
        self,
        folder: Path,
        algorithm: AlgorithmConfig,
        optim: OptimConfig,
        trainer: TrainerConfig,
        lora: LoraConfig,
        seed: int = 0,
        guards: GuardsConfig | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        torch.manual_seed(seed)
        precision.use_products(trainer.products)
        if trainer.threads is not None:
            torch.set_num_threads(trainer.threads)
        self.ranks = ranks
        self.policy = Policy(
            folder,
            lora,
            trainer.logit_chunk,
            trainer.activation_checkpointing,
            ranks.device,
            ranks,
            getattr(torch, trainer.dtype),
        )
        if algorithm.kl_coef > 0:
            self.policy.keep_reference(folder)
        self.algorithm, self.optim, self.config = algorithm, optim, trainer
        self.guards = Guards(guards or GuardsConfig())
        self.step_index = 0
        self.forget_moments()

    def forget_moments(self) -> None:
        """Start the optimiser afresh, keeping the weights."""
        self.optimizer = optimiser.make(self.policy.trainable, self.optim)

    def learning_rate(self, step_index: int) -> float:
        """Return the rate of a step: linear warm-up, then constant."""
        warm = self.optim.warmup_steps
        return self.optim.lr * min(1.0, (step_index + 1) / warm) if warm else self.optim.lr

    def step(
        self, samples: Sequence[Sample], *, version: int = 0, lr: float | None = None
    ) -> StepMetrics:
        """Take one optimiser step.

        Args:
            samples: annotated; those without an active token, and those longer than the model's
                context, are left out and counted.
            version: the policy version the weights have now, for staleness.
            lr: overrides the schedule, which then stands still (a warm start).

        Raises:
            SampleError: a policy-gradient token has no log-prob, a distilled one no teacher.
            DivergedError: loss or gradient is not finite.
            MismatchError: engine and trainer disagree by more than the bound.
            GuardBreach: a monitored number left its bounds.

        Weights are unchanged whenever it raises.
        """
        started = time.monotonic()
        usable, counts = self._usable(samples)
        budget = share_of(usable, self.config.token_budget, self.ranks.size)
        batches = pack(usable, budget, self.policy.shares_prefixes)
        if not batches:
            counts |= {"trained_tokens": 0.0, "seconds": time.monotonic() - started}
            return StepMetrics(counts)
        try:
            tally = self._accumulate(batches, usable, version)
            values = {"gradient_s": time.monotonic() - started}
            norm = sharding.clip(self.policy.trainable, self.optim.max_grad_norm)
            values |= _values(tally, batches, version) | self.guards.measure(usable)
            values |= counts | {"grad_norm": norm}
            self._refuse(values, tally, batches, version)
            rate = self.learning_rate(self.step_index) if lr is None else lr
            optimiser.set_rate(self.optimizer, rate)
            self.optimizer.step()
            self.policy.updated()
        finally:
            self.optimizer.zero_grad(set_to_none=True)
        self.step_index += lr is None
        return StepMetrics(values | {"lr": rate, "seconds": time.monotonic() - started})

    @torch.no_grad()
    def likeliest(
        self, sequences: Sequence[tuple[Sequence[int], int]], temperature: float, num_likeliest: int
    ) -> list[TopK]:
        """Return the tokens that the policy finds likeliest in place of the last ones of sequences.

        Args:
            sequences: token ids, and for how many at the end it is asked.
            num_likeliest: K.

        Returns:
            per sequence ids and log-probs at the temperature, likeliest first.
        """
        samples = [
            _asked(str(index), ids, num_last, temperature)
            for index, (ids, num_last) in enumerate(sequences)
        ]
        batches = pack(samples, self.config.token_budget, self.policy.shares_prefixes)
        found: dict[int, TopK] = {}
        self.policy.model.eval()
        try:
            for index in self._turns(batches):
                batch = batches[index or 0]
                ids_EK, logprobs_EK = self.policy.likeliest(batch, num_likeliest)
                if index is not None:
                    for which in np.unique(batch.sample_E):
                        rows = batch.sample_E == which
                        found[int(which)] = TopK(ids_EK[rows], logprobs_EK[rows])
        finally:
            self.policy.model.train()
        together = {i: topk for part in self.ranks.gather(found) for i, topk in part.items()}
        return [together[index] for index in range(len(samples))]

    def state(self) -> dict[str, Any]:
        """Return weights, optimiser, schedule and random state, for ``rl.checkpoint``; of a shard,
        its parts."""
        return {
            "weights": self.policy.trainable_state(),
            "optimizer": self.optimizer.state_dict(),
            "step_index": self.step_index,
            "rng": torch.get_rng_state(),
            "guards": self.guards.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from ``state``, whole or in parts cut alike.

        Raises:
            RunError: it belongs to another model.
        """
        self.policy.load_trainable(state["weights"])
        moments = {
            index: {key: self._cut(index, value) for key, value in values.items()}
            for index, values in state["optimizer"]["state"].items()
        }
        self.optimizer.load_state_dict({**state["optimizer"], "state": moments})
        self.step_index = int(state["step_index"])
        torch.set_rng_state(state["rng"])
        self.guards.load_state(state.get("guards", {}))

    def _cut(self, index: int, value: Any) -> Any:
        """Return this rank's part of an optimiser's number of a parameter."""
        parameter = self.policy.trainable[index]
        if not isinstance(value, torch.Tensor) or value.shape != parameter.shape:
            return value
        return sharding.as_part_of(parameter, value)

    # ------------------------------------------------------------- inside

    def _usable(self, samples: Sequence[Sample]) -> tuple[list[Sample], dict[str, float]]:
        """Leave out what cannot be computed or teaches nothing, and count it by reason."""
        limit = self.policy.context
        live = [sample for sample in samples if sample.active_L.any()]
        short = [s for s in live if limit is None or len(s.token_ids_L) <= limit]
        for sample in short:
            pg_L = sample.trained_L & (sample.weights.along("pg", len(sample.token_ids_L)) != 0)
            if not np.isfinite(sample.old_logprobs_L[pg_L]).all():
                raise SampleError(
                    f"sample of {sample.episode_id}: a policy gradient needs the log-prob of every "
                    "trained token"
                )
        reasons = {
            "samples_without_loss": len(samples) - len(live),
            "samples_too_long": len(live) - len(short),
        }
        return short, {name: float(count) for name, count in reasons.items() if count}

    def _accumulate(
        self, batches: Sequence[PackedBatch], samples: Sequence[Sample], version: int
    ) -> Tally:
        """Leave the gradient of the whole batch in the parameters.

        Which tokens are masked is known after a forward only. Where some are, the gradient is made
        again with normalisers that leave them out: what is masked must not dilute.
        """
        before: dict[int, torch.Tensor] = {}
        masks: list[BoolArray] | None = None
        if self._needs_forward():
            before, masks = self._score_before(batches, version)
        tally = self._pass(batches, samples, version, before, masks)
        if masks is None and not offpolicy.all_kept(tally.keep_E):
            tally = self._pass(batches, samples, version, before, tally.keep_E)
        return tally

    def _turns(self, batches: Sequence[PackedBatch]) -> list[int | None]:
        """Return this rank's micro-batches; None where it takes part without one."""
        return share_out([batch.num_nodes for batch in batches], self.ranks.size)[self.ranks.rank]

    def _needs_forward(self) -> bool:
        """Whether π_old takes a forward of its own: asked for, or dropout changes the first."""
        return self.config.recompute_old == "always" or (
            self.config.recompute_old == "auto" and not self.policy.repeatable
        )

    @torch.no_grad()
    def _score_before(
        self, batches: Sequence[PackedBatch], version: int
    ) -> tuple[dict[int, torch.Tensor], list[BoolArray]]:
        """Return log-probs of this rank's tokens before the step, and what of all is kept."""
        scored: dict[int, torch.Tensor] = {}
        self.policy.model.eval()
        try:
            for index in self._turns(batches):
                score_E = self.policy.score(batches[index or 0]).logprobs_E
                if index is not None:
                    scored[index] = score_E
        finally:
            self.policy.model.train()
        kept = {
            index: offpolicy.correct(batches[index], score_E, version, self.config).keep_E
            for index, score_E in scored.items()
        }
        together = {i: keep_E for part in self.ranks.gather(kept) for i, keep_E in part.items()}
        return scored, [together[index] for index in range(len(batches))]

    def _pass(
        self,
        batches: Sequence[PackedBatch],
        samples: Sequence[Sample],
        version: int,
        before: Mapping[int, torch.Tensor],
        masks: Sequence[BoolArray] | None,
    ) -> Tally:
        tally, done = Tally(), list[int]()
        self.optimizer.zero_grad(set_to_none=True)
        shares = objective.normalisers(batches, samples, masks, self.algorithm)
        asks = [_lacks_reference(batch) for batch in batches]
        for index in self._turns(batches):
            batch = batches[index or 0]
            # ranks gather weights together: where one asks the reference, all do
            asked = any(asks) if self.ranks.size > 1 else asks[index or 0]
            reference_E = self.policy.reference_logprobs(batch) if asked else None
            scores = self.policy.score(batch)
            if index is None:
                loss = scores.logprobs_E.sum() * 0.0
            else:
                known_E = before.get(index, scores.logprobs_E.detach())
                correction = offpolicy.correct(batch, known_E, version, self.config)
                anchor_E = _anchor(batch, scores.logprobs_E, reference_E)
                loss = objective.loss(
                    scores, batch, correction, anchor_E, shares[index], self.algorithm, tally
                )
                done.append(index)
            loss = loss * self.ranks.size  # gradients are averaged over ranks
            loss.backward()  # type: ignore[no-untyped-call]
        return Tally.merge(self.ranks.gather((done, tally)))

    def _refuse(
        self, values: dict[str, float], tally: Tally, batches: Sequence[PackedBatch], version: int
    ) -> None:
        """Raise when the step must not be taken."""
        norm = values["grad_norm"]
        if not (math.isfinite(norm) and math.isfinite(tally.loss)):
            raise DivergedError(
                f"loss {tally.loss} and gradient norm {norm}: the step was not taken"
            )
        gap_E, lag_E, keep_E = _policy_tokens(tally, batches, version)
        if reason := offpolicy.too_far(gap_E, lag_E, self.config.max_logprob_gap):
            raise MismatchError(reason)
        if len(keep_E) == values["trained_tokens"] and not keep_E.any():
            raise MismatchError(f"all {len(keep_E)} tokens of the batch are masked as off-policy")
        self.guards.check(values)


def _asked(name: str, ids: Sequence[int], num_last: int, temperature: float) -> Sample:
    """Return a sample whose last tokens are looked at."""
    size = len(ids)
    asked_L = np.arange(size) >= size - num_last
    return Sample(
        episode_id=name,
        group_id="",
        token_ids_L=np.asarray(ids, np.int64),
        trained_L=asked_L,
        old_logprobs_L=np.full(size, np.nan),
        versions_L=np.full(size, -1),
        advantages_L=np.zeros(size),
        temperature=temperature,
        weights=TermWeights(ce=asked_L.astype(np.float64)),
    )


def _lacks_reference(batch: PackedBatch) -> bool:
    """Whether an anchored token has no recorded log-prob of the start policy."""
    return bool((np.isnan(batch.ref_E) & (batch.weight_E["kl"] != 0)).any())


def _anchor(
    batch: PackedBatch, like_E: torch.Tensor, reference_E: torch.Tensor | None
) -> torch.Tensor | None:
    """Return the start policy's log-probs: the recorded ones, else those of its forward; None where
    no token is anchored."""
    if not (batch.weight_E["kl"] != 0).any():
        return None
    recorded_E = torch.from_numpy(batch.ref_E).to(like_E)
    if reference_E is None:
        return torch.nan_to_num(recorded_E)
    return torch.where(torch.isnan(recorded_E), reference_E, recorded_E)


def _policy_tokens(
    tally: Tally, batches: Sequence[PackedBatch], version: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return gap, staleness and mask of the policy-gradient tokens of a step."""
    in_pg_E = np.concatenate([batch.weight_E["pg"] != 0 for batch in batches])
    lag_E = version - np.concatenate([batch.version_E for batch in batches])
    gap_E, keep_E = np.concatenate(tally.gap_E), np.concatenate(tally.keep_E)
    return gap_E[in_pg_E], lag_E[in_pg_E].astype(np.float64), keep_E[in_pg_E]


def _values(tally: Tally, batches: Sequence[PackedBatch], version: int) -> dict[str, float]:
    trained = sum(len(batch.target_E) for batch in batches)
    computed = sum(batch.num_nodes for batch in batches)
    values = {
        "loss": tally.loss,
        **({f"loss_{t}": v for t, v in tally.terms.items()} if len(tally.terms) > 1 else {}),
        "entropy": tally.entropy_sum / trained,
        "trained_tokens": float(trained),
        "computed_tokens": float(computed),
        "sharing": sum(batch.num_unshared for batch in batches) / max(computed, 1),
    }
    if "kl" in tally.terms:
        values["kl_to_start"] = tally.kl_to_start
    gap_E, lag_E, keep_E = _policy_tokens(tally, batches, version)
    if len(gap_E):
        values |= {"clipped_share": tally.clipped / len(gap_E), "ratio_max": tally.ratio_max}
        values |= dict(offpolicy.mismatch(gap_E, lag_E, keep_E))
    return values
