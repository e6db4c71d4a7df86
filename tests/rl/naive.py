"""The step as one would first write it: float64, one sequence at a time, whole logits, no packing.

Independent of ``rl.losses`` and ``rl.objective``: it knows the formulas, not the code.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from rl.methodsettings import AlgorithmConfig
from rl.settings import TrainerConfig
from rl.types import Sample

TERMS = ("pg", "distill", "ce", "kl")


@dataclass
class Entry:
    """One active token."""

    episode: str
    sample: int
    weights: dict[str, float]
    logprobs_V: torch.Tensor  # log-softmax of its row
    logprob: torch.Tensor
    engine: float
    advantage: float
    version: int
    teacher: float
    ref: float
    topk: tuple[torch.Tensor, torch.Tensor] | None
    keep: bool = True
    recomputed: bool = False

    @property
    def before(self) -> float:
        return float(self.logprob.detach())

    @property
    def old(self) -> float:
        return self.before if self.recomputed else self.engine


def gradients(
    model: Path,
    samples: Sequence[Sample],
    algorithm: AlgorithmConfig,
    trainer: TrainerConfig,
    version: int,
) -> dict[str, torch.Tensor]:
    """Return the gradient of the whole step by parameter."""
    from transformers import AutoModelForCausalLM

    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float64)
    entries = [e for i, s in enumerate(samples) for e in _entries(policy, s, i)]
    _mask(entries, trainer, version)
    total = torch.zeros((), dtype=torch.float64)
    for term in TERMS:
        active = [e for e in entries if e.weights[term] != 0]
        active = [e for e in active if e.keep or term not in ("pg", "kl")]
        for entry in active:
            share = _share(entry, active, algorithm)
            total = total + share * entry.weights[term] * _term(
                term, entry, entries, algorithm, trainer
            )
    total.backward()  # type: ignore[no-untyped-call]
    return {n: p.grad for n, p in policy.named_parameters() if p.grad is not None}


def _entries(policy: torch.nn.Module, sample: Sample, index: int) -> list[Entry]:
    logits = policy(torch.from_numpy(sample.token_ids_L)[None]).logits[0] / sample.temperature
    logprobs = torch.log_softmax(logits, -1)
    size, found = len(sample.token_ids_L), []
    rows = {} if sample.topk_at is None else {int(p): r for r, p in enumerate(sample.topk_at)}
    for at in np.flatnonzero(sample.active_L):
        topk = None
        if at in rows and sample.topk is not None:
            ids = torch.from_numpy(sample.topk.token_ids_TK[rows[at]])
            topk = (ids, torch.from_numpy(sample.topk.logprobs_TK[rows[at]]))
        found.append(
            Entry(
                episode=sample.episode_id,
                sample=index,
                weights={t: float(sample.weights.along(t, size)[at]) for t in TERMS},  # type: ignore[arg-type]
                logprobs_V=logprobs[at - 1],
                logprob=logprobs[at - 1, int(sample.token_ids_L[at])],
                engine=float(sample.old_logprobs_L[at]),
                advantage=float(sample.advantages_L[at]),
                version=int(sample.versions_L[at]),
                teacher=_at(sample.teacher_logprobs_L, at),
                ref=_at(sample.ref_logprobs_L, at),
                topk=topk,
            )
        )
    return found


def _at(values: np.ndarray | None, at: int) -> float:
    return float("nan") if values is None else float(values[at])


def _mask(entries: list[Entry], trainer: TrainerConfig, version: int) -> None:
    policy_gradient = [e for e in entries if e.weights["pg"] != 0]
    for entry in policy_gradient:
        mode = trainer.recompute_old
        entry.recomputed = mode == "always" or (mode == "auto" and entry.version == version)
        entry.keep = 1e-4 < math.exp(entry.before - entry.engine) < 100.0
    if trainer.sequence_tolerance is None:
        return
    for index in {e.sample for e in policy_gradient}:
        own = [e for e in policy_gradient if e.sample == index]
        gaps = [e.before - e.engine for e in own if e.recomputed and e.keep]
        if gaps and abs(math.exp(float(np.mean(gaps))) - 1) > 0.01 * trainer.sequence_tolerance:
            for entry in own:
                entry.keep = False


def _share(entry: Entry, active: list[Entry], algorithm: AlgorithmConfig) -> float:
    sequences = len({e.episode for e in active})
    if algorithm.aggregation == "token_mean":
        return 1.0 / len(active)
    if algorithm.aggregation == "seq_mean_token_mean":
        return 1.0 / (sequences * sum(e.episode == entry.episode for e in active))
    return 1.0 / (sequences * algorithm.norm_length)


def _term(
    term: str, e: Entry, entries: list[Entry], algorithm: AlgorithmConfig, trainer: TrainerConfig
) -> torch.Tensor:
    if term == "ce":
        return -e.logprob
    if term == "kl":
        return torch.exp(e.ref - e.logprob) - (e.ref - e.logprob) - 1
    if term == "distill":
        return _distill(e, algorithm)
    weight = min(math.exp(e.old - e.engine), trainer.importance_cap) if e.recomputed else 1.0
    return weight * _policy_loss(e, entries, algorithm)


def _policy_loss(e: Entry, entries: list[Entry], algorithm: AlgorithmConfig) -> torch.Tensor:
    low, high = 1 - algorithm.clip_low, 1 + algorithm.clip_high
    if algorithm.loss == "reinforce":
        return -e.advantage * e.logprob
    if algorithm.loss == "cispo":
        weight = min(max(math.exp(e.before - e.old), low), high)
        return -weight * e.advantage * e.logprob
    if algorithm.loss == "gspo":
        own = [o for o in entries if o.sample == e.sample and o.weights["pg"] != 0 and o.keep]
        mean = sum(o.before - o.old for o in own) / len(own)
        ratio = torch.exp(e.logprob - e.before + mean)
    else:
        ratio = torch.exp(e.logprob - e.old)
    loss = -torch.minimum(ratio * e.advantage, ratio.clamp(low, high) * e.advantage)
    if algorithm.dual_clip is not None and e.advantage < 0:
        loss = torch.minimum(loss, torch.tensor(-algorithm.dual_clip * e.advantage))
    return loss


def _distill(e: Entry, algorithm: AlgorithmConfig) -> torch.Tensor:
    if e.topk is None:
        return 0.5 * (e.teacher - e.logprob) ** 2
    ids, teacher = e.topk
    student = e.logprobs_V[ids]
    if algorithm.distill == "overlap":
        old = student.detach()
        gain = torch.softmax(old, 0) * (teacher - old).clamp(-1, 1)
        return -(gain * torch.exp(student - old)).sum()
    tail, wanted = 1 - student.exp().sum(), 1 - teacher.exp().sum()
    return (student.exp() * (student - teacher)).sum() + tail * torch.log(tail / wanted)
