"""``algorithm=stepwise``: outcome + c·process score of each turn, standardised at the same step.

A turn without a process score is masked and counted; it is not a score of 0.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rl import advantages
from rl.advantages import Baselines
from rl.methods.annotation import Annotation, Member, along_turns, by_token, learns
from rl.methodsettings import StepwiseConfig


def annotate(members: Sequence[Member], settings: StepwiseConfig, _: Baselines) -> Annotation:
    """Annotate a group step by step."""
    process_GS = [_scores(member) for member in members]
    outcomes_G = np.asarray([member.reward for member in members])
    advantages_GS = advantages.stepwise(outcomes_G, process_GS, settings.process_coef)
    missing = sum(int(np.isnan(scores).sum()) for scores in process_GS)
    flat = sum(int(np.isnan(row).sum()) for row in advantages_GS) - missing
    samples = [
        by_token(sample, along_turns(sample, dict(enumerate(row_S.tolist()))), settings)
        for member, row_S in zip(members, advantages_GS, strict=True)
        for sample in member.samples
    ]
    skipped = Counter({"no_process_score": missing, "no_variance_at_step": flat})
    return Annotation(samples, "trained" if learns(samples) else "zero_variance", +skipped)


def _scores(member: Member) -> list[float]:
    """Return a process score per turn, NaN where there is none."""
    scores = []
    for turn in range(len(member.episode.turns)):
        signal = member.signals.get(turn)
        known = signal is not None and signal.process is not None
        scores.append(float(signal.process) if known else float("nan"))  # type: ignore[union-attr, arg-type]
    return scores
