"""``algorithm=opd``: hindsight on-policy distillation. The policy that was told a hint beforehand
scores the tokens that were sampled without it; what it would rather have said gains.

A turn without an accepted hint, or whose teacher gave no numbers, is masked and counted.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rl import advantages
from rl.advantages import Baselines
from rl.errors import SampleError
from rl.methods.annotation import Annotation, Member, by_token, learns, turns_of
from rl.methodsettings import OpdConfig
from rl.types import FloatArray, Sample


def annotate(members: Sequence[Member], settings: OpdConfig, _: Baselines) -> Annotation:
    """Annotate hinted turns."""
    skipped: Counter[str] = Counter()
    samples = []
    for member in members:
        for sample in member.samples:
            teacher_L = teacher_logprobs(member, sample, skipped)
            gains_L = advantages.opd(teacher_L, sample.old_logprobs_L, settings.clip)
            annotated = by_token(sample, gains_L, settings)
            samples.append(replace(annotated, teacher_logprobs_L=teacher_L))
    return Annotation(samples, "trained" if learns(samples) else "no_teacher", skipped)


def teacher_logprobs(member: Member, sample: Sample, skipped: Counter[str]) -> FloatArray:
    """Return log π_T at the sampled tokens of hinted turns, NaN elsewhere.

    Raises:
        SampleError: a teacher scored another number of tokens than were sampled.
    """
    teacher_L = np.full(len(sample.token_ids_L), np.nan)
    for turn in turns_of(sample):
        signal = member.signals.get(turn)
        given = signal.hints[0].teacher_logprobs_T if signal is not None and signal.hints else ()
        if not given:
            skipped["no_teacher"] += 1
            continue
        at = np.flatnonzero(sample.turns_L == turn)
        if len(at) != len(given):
            raise SampleError(
                f"turn {turn} of {sample.episode_id}: {len(given)} teacher log-probs for "
                f"{len(at)} sampled tokens"
            )
        teacher_L[at] = given
    return teacher_L
