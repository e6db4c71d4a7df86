"""``algorithm=sft``: cross-entropy on episodes that solved their task; also the warm start."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rl.advantages import Baselines
from rl.methods.annotation import Annotation, Member
from rl.methodsettings import SftConfig
from rl.types import TermWeights


def annotate(members: Sequence[Member], _: SftConfig, __: Baselines) -> Annotation:
    """Annotate solved members for imitation."""
    solved = [member for member in members if member.episode.solved]
    samples = [
        replace(sample, weights=TermWeights(ce=1.0))
        for member in solved
        for sample in member.samples
    ]
    skipped = +Counter({"unsolved": len(members) - len(solved)})
    return Annotation(samples, "trained" if samples else "none_solved", skipped)
