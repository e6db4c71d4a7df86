"""What a method takes and gives, and the three ways to put advantages on tokens.

A method is a function ``annotate(members, settings, baselines) -> Annotation``; ``settings`` is its
own model of ``rl.methodsettings``.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agents.types import Episode
from rl.methodsettings import AlgorithmConfig
from rl.types import FloatArray, Sample, TurnSignal

Estimator = Callable[[FloatArray], FloatArray | None]


@dataclass(frozen=True)
class Member:
    """One finished episode of a group: its merged samples, and what is known about its turns."""

    episode: Episode
    samples: list[Sample]
    signals: Mapping[int, TurnSignal] = field(default_factory=dict)

    @property
    def reward(self) -> float:
        """The episode's reward; 0 for a chat nobody scored as a whole."""
        return float(self.episode.reward or 0.0)


@dataclass(frozen=True)
class Annotation:
    """Samples with weights, and what taught nothing, by reason.

    Attributes:
        samples: annotated; those without an active token carry no loss.
        outcome: ``trained``, or why the whole group taught nothing.
        skipped: turns or members without a signal: reason → number.
    """

    samples: list[Sample]
    outcome: str = "trained"
    skipped: Counter[str] = field(default_factory=Counter)


def by_outcome(
    members: Sequence[Member], estimator: Estimator, settings: AlgorithmConfig
) -> Annotation:
    """Give every token of a member the advantage of the member's reward in its group."""
    advantages_G = estimator(np.asarray([member.reward for member in members]))
    if advantages_G is None:
        return Annotation([], "zero_variance")
    return Annotation(
        [
            sample.with_advantage(float(advantage), settings.kl_coef)
            for member, advantage in zip(members, advantages_G, strict=True)
            for sample in member.samples
        ]
    )


def by_token(sample: Sample, advantages_L: FloatArray, settings: AlgorithmConfig) -> Sample:
    """Give each token its own advantage; where it is NaN the token is in no term."""
    there_L = sample.trained_L & ~np.isnan(advantages_L)
    weights = replace(
        sample.weights,
        pg=there_L.astype(np.float64),
        kl=np.where(there_L, settings.kl_coef, 0.0),
    )
    return replace(sample, advantages_L=np.where(there_L, advantages_L, 0.0), weights=weights)


def along_turns(sample: Sample, values: Mapping[int, float]) -> FloatArray:
    """Spread one number per turn over the turn's tokens; NaN everywhere else."""
    spread_L = np.full(len(sample.token_ids_L), np.nan)
    if sample.turns_L is not None:
        for turn, value in values.items():
            spread_L[sample.turns_L == turn] = value
    return spread_L


def turns_of(sample: Sample) -> list[int]:
    """Return the turns that have a trained token in the sample, in order."""
    if sample.turns_L is None:
        return []
    return sorted({int(turn) for turn in sample.turns_L[sample.trained_L] if turn >= 0})


def learns(samples: Sequence[Sample]) -> bool:
    """Return whether any token carries loss."""
    return any(sample.active_L.any() for sample in samples)
