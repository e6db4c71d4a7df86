"""``algorithm=hybrid``: rl_weight·A_binary + opd_weight·A_opd on each token.

A turn with only one of the two signals carries only that one.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rl import advantages
from rl.advantages import Baselines
from rl.methods.annotation import Annotation, Member, along_turns, by_token, learns
from rl.methods.binary import turn_advantages
from rl.methods.opd import teacher_logprobs
from rl.methodsettings import HybridConfig


def annotate(members: Sequence[Member], settings: HybridConfig, baselines: Baselines) -> Annotation:
    """Annotate turns by whatever is known about them."""
    skipped: Counter[str] = Counter()
    samples = []
    for member in members:
        scores = turn_advantages(member, settings, baselines, skipped)
        for sample in member.samples:
            binary_L = along_turns(sample, scores)
            teacher_L = teacher_logprobs(member, sample, skipped)
            opd_L = advantages.opd(teacher_L, sample.old_logprobs_L, settings.clip)
            parts_2L = np.stack([settings.rl_weight * binary_L, settings.opd_weight * opd_L])
            neither_L = np.isnan(parts_2L).all(axis=0)
            both_L = np.where(neither_L, np.nan, np.nansum(parts_2L, axis=0))
            samples.append(by_token(sample, both_L, settings))
    return Annotation(samples, "trained" if learns(samples) else "no_signal", skipped)
