"""``algorithm=opd_topk``: distillation over the teacher's top-K tokens and one tail bin, or its
overlap-selected form (``distill=overlap``). Among the hints of a turn the one is taken whose top-K
tokens are most often among the student's own: it says something the policy can reach.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rl import advantages
from rl.advantages import Baselines
from rl.errors import SampleError
from rl.methods.annotation import Annotation, Member, learns, turns_of
from rl.methodsettings import OpdTopKConfig
from rl.types import Sample, TopK, TurnSignal


def annotate(members: Sequence[Member], settings: OpdTopKConfig, _: Baselines) -> Annotation:
    """Annotate hinted turns with the teacher's distribution."""
    skipped: Counter[str] = Counter()
    samples = [_distilled(m, s, settings, skipped) for m in members for s in m.samples]
    return Annotation(samples, "trained" if learns(samples) else "no_teacher", skipped)


def _distilled(
    member: Member, sample: Sample, settings: OpdTopKConfig, skipped: Counter[str]
) -> Sample:
    weight_L = np.zeros(len(sample.token_ids_L))
    chosen: list[tuple[np.ndarray, TopK]] = []
    for turn in turns_of(sample):
        signal = member.signals.get(turn)
        topk = choose(signal, settings.max_hints) if signal is not None else None
        if topk is None:
            skipped["no_teacher"] += 1
            continue
        at = np.flatnonzero(sample.turns_L == turn)
        if len(at) != len(topk.token_ids_TK):
            found = f"{len(topk.token_ids_TK)} top-K rows for {len(at)} sampled tokens"
            raise SampleError(f"turn {turn} of {sample.episode_id}: {found}")
        weight_L[at] = 1.0
        chosen.append((at, topk))
    weights = replace(sample.weights, distill=weight_L, kl=settings.kl_coef * weight_L)
    rows = TopK.stack([t for _, t in chosen]) if chosen else None
    at = np.concatenate([np.zeros(0, np.int64), *(a for a, _ in chosen)])
    return replace(sample, weights=weights, topk=rows, topk_at=at)


def choose(signal: TurnSignal, max_hints: int) -> TopK | None:
    """Return the top-K of the hint that shares most tokens with the student, else of the first."""
    found = [hint.topk for hint in signal.hints[:max_hints] if hint.topk is not None]
    student_ids_TK = signal.student_topk_ids_TK
    if not found or student_ids_TK is None:
        return found[0] if found else None
    return max(found, key=lambda topk: advantages.overlap(topk.token_ids_TK, student_ids_TK))
