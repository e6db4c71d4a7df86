"""What happens to tokens older than ``rollout.max_staleness`` versions, by name (algorithms §5).

``drop`` leaves the group out; ``wait`` holds training until no running group would become too old
(``rl.collector``), and drops what is too old all the same; ``mask`` keeps the group, and only its
old tokens carry no loss.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rl.types import TERMS, Sample, TermWeights


def mask(samples: Sequence[Sample], oldest: int) -> tuple[list[Sample], int]:
    """Take tokens sampled before version ``oldest`` out of every term; return how many those were.

    Demonstrations were not sampled by any version, and stay.
    """
    kept, masked = [], 0
    for sample in samples:
        old_L = sample.active_L & (sample.versions_L >= 0) & (sample.versions_L < oldest)
        masked += int(old_L.sum())
        kept.append(_without(sample, old_L) if old_L.any() else sample)
    return [sample for sample in kept if sample.active_L.any()], masked


def _without(sample: Sample, out_L: np.ndarray) -> Sample:
    size = len(sample.token_ids_L)
    weights = {term: np.where(out_L, 0.0, sample.weights.along(term, size)) for term in TERMS}
    return replace(sample, weights=TermWeights(**weights))
