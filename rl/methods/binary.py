"""``algorithm=binary``: each judged turn's score against what is normal for its subject.

A score of 0 and a turn without one are masked, counted, and take no slot in the batch.
"""

from collections import Counter
from collections.abc import Sequence

from rl.advantages import Baselines
from rl.methods.annotation import Annotation, Member, along_turns, by_token, learns, turns_of
from rl.methodsettings import BinaryConfig, HybridConfig


def annotate(members: Sequence[Member], settings: BinaryConfig, baselines: Baselines) -> Annotation:
    """Annotate judged turns."""
    skipped: Counter[str] = Counter()
    samples = []
    for member in members:
        gains = turn_advantages(member, settings, baselines, skipped)
        samples += [by_token(s, along_turns(s, gains), settings) for s in member.samples]
    return Annotation(samples, "trained" if learns(samples) else "no_signal", skipped)


def turn_advantages(
    member: Member,
    settings: BinaryConfig | HybridConfig,
    baselines: Baselines,
    skipped: Counter[str],
) -> dict[int, float]:
    """Return the advantage of every turn that has one, in the order of the conversation."""
    gains: dict[int, float] = {}
    for turn in sorted({turn for sample in member.samples for turn in turns_of(sample)}):
        signal = member.signals.get(turn)
        if signal is None or signal.score is None:
            skipped["not_judged"] += 1
        elif signal.score == 0:
            skipped["neutral"] += 1
        elif settings.baseline == "none":
            gains[turn] = float(signal.score)
        else:
            decay = settings.baseline_decay
            gain = baselines.advantage(signal.subject, signal.score, decay)
            assert gain is not None
            gains[turn] = gain
    return gains
