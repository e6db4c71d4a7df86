"""Records of learning.

Axis suffixes: ``_L`` position in one sequence, ``_G`` member of a group, ``_N`` node of a packed
batch, ``_E`` trained token (loss entry) of a packed batch.

Example: a two-turn episode whose second prompt continues the first exactly is one ``Sample``::

    token_ids_L  = prompt1 + output1 + (tool result, separators) + output2
    trained_L    = 0…0      1…1        0…0                         1…1
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Sample:
    """One branch of one episode as a single sequence; all arrays have the same length L.

    Attributes:
        episode_id, group_id: where it came from; groups are formed by id, never by position.
        token_ids_L: every token as the engine saw or sampled it.
        trained_L: True exactly where a sampled token carries loss.
        old_logprobs_L: log-prob at sampling; NaN where there is none. Never read where not trained.
        versions_L: policy version that sampled the token; -1 where it was not sampled.
        advantages_L: filled by an algorithm; 0 until then.
        temperature: of the sampler, applied by the learner too.
    """

    episode_id: str
    group_id: str
    token_ids_L: IntArray
    trained_L: BoolArray
    old_logprobs_L: FloatArray
    versions_L: IntArray
    advantages_L: FloatArray
    temperature: float = 1.0

    def __post_init__(self) -> None:
        lengths = {
            len(array)
            for array in (
                self.token_ids_L,
                self.trained_L,
                self.old_logprobs_L,
                self.versions_L,
                self.advantages_L,
            )
        }
        if len(lengths) != 1:
            raise ValueError(f"sample of {self.episode_id}: arrays of lengths {sorted(lengths)}")

    @property
    def num_trained(self) -> int:
        """Tokens that carry loss."""
        return int(self.trained_L.sum())

    def with_advantage(self, advantage: float) -> "Sample":
        """Return the sample with one advantage on every trained token."""
        return replace(self, advantages_L=np.where(self.trained_L, advantage, 0.0))


@dataclass(frozen=True)
class StepMetrics:
    """What one optimiser step did; ``values`` are plain floats for ``metrics.jsonl``."""

    values: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the values."""
        return dict(self.values)
