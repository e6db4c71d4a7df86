"""Methods by name: each turns a group of episodes into annotated samples; the trainer is blind.

A new method is a file under ``rl/methods``, a row of ``METHODS`` and a model in
``rl.methodsettings``: docs/adding-an-algorithm.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from agents.types import Episode
from rl.advantages import Baselines
from rl.errors import MissingSignalError
from rl.methods import (
    binary,
    cispo,
    dr_grpo,
    grpo,
    gspo,
    hybrid,
    opd,
    opd_topk,
    rloo,
    sft,
    stepwise,
)
from rl.methods.annotation import Annotation, Member
from rl.methodsettings import AlgorithmConfig, SftConfig
from rl.samples import Continuation, merge
from rl.settings import RolloutConfig
from rl.types import TERMS, Sample, TermWeights, TurnSignal

Annotate = Callable[[Sequence[Member], Any, Baselines], Annotation]


class SignalSource(Protocol):
    """Where judgements, hints and teachers' numbers come from."""

    def __call__(self, episode: Episode) -> Mapping[int, TurnSignal]:
        """Return what is known about an episode's turns, by turn index."""
        ...


@dataclass(frozen=True)
class Method:
    """One row of the table.

    Attributes:
        annotate: see ``rl.methods.annotation``.
        grouped: members are compared with each other, so ``rollout.min_group`` applies.
        needs: what must come from a signal source, in words; "" when rewards are enough.
        hinted: learns from a teacher that was told a hint.
    """

    annotate: Annotate
    grouped: bool = True
    needs: str = ""
    hinted: bool = False


METHODS: dict[str, Method] = {
    "grpo": Method(grpo.annotate),
    "dr_grpo": Method(dr_grpo.annotate),
    "rloo": Method(rloo.annotate),
    "gspo": Method(gspo.annotate),
    "cispo": Method(cispo.annotate),
    "stepwise": Method(stepwise.annotate, needs="process scores"),
    "binary": Method(binary.annotate, grouped=False, needs="a judge"),
    "opd": Method(opd.annotate, grouped=False, needs="hints and a teacher", hinted=True),
    "opd_topk": Method(opd_topk.annotate, grouped=False, needs="hints and a teacher", hinted=True),
    "hybrid": Method(hybrid.annotate, grouped=False, needs="a judge or a teacher", hinted=True),
    "sft": Method(sft.annotate, grouped=False),
}


@dataclass(frozen=True)
class GroupOutcome:
    """What became of one group.

    Attributes:
        samples: annotated; empty unless ``outcome`` is ``trained``.
        outcome: ``trained``, or why nothing was learned (``zero_variance``, ``too_few_members``…).
        rewards: of the members the machine did not fail.
        continuations: how turns were joined.
        skipped: turns, members or tokens that carry no loss, by reason.
        agreement: mean confidence of the verdicts, good or bad; None without any.
    """

    samples: list[Sample]
    outcome: str
    rewards: list[float]
    continuations: Counter[Continuation] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    agreement: float | None = None


def require_signals(algorithm: AlgorithmConfig, source: SignalSource | None) -> None:
    """Refuse a method whose signal nothing provides.

    Raises:
        MissingSignalError: with what is missing.
    """
    needs = METHODS[algorithm.name].needs
    if needs and source is None:
        raise MissingSignalError(
            f"algorithm={algorithm.name} needs {needs}, and this run has none: choose a method "
            f"that learns from rewards ({', '.join(n for n, m in METHODS.items() if not m.needs)})"
        )


def annotate_group(
    episodes: Sequence[Episode],
    algorithm: AlgorithmConfig,
    rollout: RolloutConfig,
    source: SignalSource | None = None,
    baselines: Baselines | None = None,
) -> GroupOutcome:
    """Turn a finished group into samples with advantages.

    Members that the machine failed are left out; a group with fewer than ``min_group`` others is
    dropped where members are compared, and one with equal rewards carries no gradient and dilutes
    nothing.
    """
    method = METHODS[algorithm.name]
    finished = [e for e in episodes if e.reward is not None and e.num_sampled > 0]
    rewards = [float(e.reward) for e in finished if e.reward is not None]
    if len(finished) < (rollout.min_group if method.grouped else 1):
        return GroupOutcome([], "too_few_members", rewards)
    members, classes = [], Counter[Continuation]()
    for episode in finished:
        samples, joined = merge(episode, train_truncated=algorithm.train_truncated)
        members.append(Member(episode, samples, source(episode) if source else {}))
        classes += joined
    result = method.annotate(members, algorithm, Baselines() if baselines is None else baselines)
    skipped = result.skipped.copy()
    known = [_without_missing(sample, skipped) for sample in result.samples]
    kept = [sample for sample in known if sample.active_L.any()]
    outcome = "no_active_token" if result.outcome == "trained" and not kept else result.outcome
    return GroupOutcome(kept, outcome, rewards, classes, skipped, _agreement(members))


def demonstrations(episodes: Sequence[Episode]) -> list[Sample]:
    """Turn oracle episodes into samples for cross-entropy; unsolved ones are left out."""
    members = [Member(episode, merge(episode)[0]) for episode in episodes]
    return sft.annotate(members, SftConfig(), Baselines()).samples


def group_metrics(outcomes: Iterable[GroupOutcome]) -> dict[str, float]:
    """Summarise a batch's groups by what became of them."""
    listed = list(outcomes)
    rewards = [reward for outcome in listed for reward in outcome.rewards]
    reasons = Counter(outcome.outcome for outcome in listed)
    joined: Counter[Continuation] = Counter()
    skipped: Counter[str] = Counter()
    for outcome in listed:
        joined += outcome.continuations
        skipped += outcome.skipped
    votes = [outcome.agreement for outcome in listed if outcome.agreement is not None]
    return {
        "reward": float(np.mean(rewards)) if rewards else float("nan"),
        "solved": float(np.mean([r >= 1.0 for r in rewards])) if rewards else float("nan"),
        "episodes": len(rewards),
        "groups_trained": reasons["trained"],
        **{f"groups_{reason}": n for reason, n in sorted(reasons.items()) if reason != "trained"},
        **{f"continuation_{kind.value}": joined[kind] for kind in Continuation},
        **{f"skipped_{reason}": n for reason, n in sorted(skipped.items())},
        **({"judge_agreement": float(np.mean(votes))} if votes else {}),
    }


def _without_missing(sample: Sample, skipped: Counter[str]) -> Sample:
    """Mask policy-gradient tokens without a recorded log-prob: none is ever invented."""
    size = len(sample.token_ids_L)
    pg_L = sample.weights.along("pg", size)
    missing_L = sample.trained_L & (pg_L != 0) & ~np.isfinite(sample.old_logprobs_L)
    if not missing_L.any():
        return sample
    skipped["missing_logprob"] += int(missing_L.sum())
    kept = {
        term: np.where(missing_L, 0.0, sample.weights.along(term, size))
        if term in ("pg", "kl")
        else getattr(sample.weights, term)
        for term in TERMS
    }
    return replace(sample, weights=TermWeights(**kept))


def _agreement(members: Sequence[Member]) -> float | None:
    votes = [s.confidence for m in members for s in m.signals.values() if s.score]
    return float(np.mean(votes)) if votes else None
