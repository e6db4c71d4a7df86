"""Methods by name: each turns a group of episodes into annotated samples; the trainer is blind.

A new method is a function here and a name in ``rl.config.AlgorithmConfig``.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from agents.types import Episode
from rl import advantages
from rl.config import AlgorithmConfig, RolloutConfig
from rl.samples import Continuation, merge
from rl.types import FloatArray, Sample

GroupAdvantage = Callable[[FloatArray], FloatArray | None]

GROUP_METHODS: dict[str, GroupAdvantage] = {
    "grpo": advantages.grpo,
    "dr_grpo": advantages.dr_grpo,
    "rloo": advantages.rloo,
}


@dataclass(frozen=True)
class GroupOutcome:
    """What became of one group.

    Attributes:
        samples: annotated; empty unless ``outcome`` is ``trained``.
        outcome: ``trained``, or why nothing was learned: ``zero_variance``, ``too_few_members``.
        rewards: of the members the machine did not fail.
        continuations: how turns were joined.
    """

    samples: list[Sample]
    outcome: str
    rewards: list[float]
    continuations: Counter[Continuation] = field(default_factory=Counter)


def annotate_group(
    episodes: Sequence[Episode], algorithm: AlgorithmConfig, rollout: RolloutConfig
) -> GroupOutcome:
    """Turn a finished group into samples with advantages.

    Members that the machine failed are left out; a group with fewer than ``min_group`` others is
    dropped, and a group with equal rewards carries no gradient and dilutes nothing.
    """
    finished = [e for e in episodes if e.reward is not None and e.num_sampled > 0]
    rewards = [float(e.reward) for e in finished if e.reward is not None]
    if len(finished) < rollout.min_group:
        return GroupOutcome([], "too_few_members", rewards)
    advantages_G = GROUP_METHODS[algorithm.name](np.asarray(rewards))
    if advantages_G is None:
        return GroupOutcome([], "zero_variance", rewards)
    samples: list[Sample] = []
    classes: Counter[Continuation] = Counter()
    for episode, advantage in zip(finished, advantages_G, strict=True):
        branches, joined = merge(episode, train_truncated=algorithm.train_truncated)
        classes += joined
        samples += [branch.with_advantage(float(advantage)) for branch in branches]
    return GroupOutcome(samples, "trained", rewards, classes)


def demonstrations(episodes: Sequence[Episode]) -> list[Sample]:
    """Turn oracle episodes into samples for cross-entropy; unsolved ones are left out."""
    return [sample for e in episodes if e.solved for sample in merge(e)[0]]
