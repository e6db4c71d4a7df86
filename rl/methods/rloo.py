"""``algorithm=rloo``: the reward minus the mean of the other members'."""

from collections.abc import Sequence

from rl import advantages
from rl.advantages import Baselines
from rl.methods.annotation import Annotation, Member, by_outcome
from rl.methodsettings import RlooConfig


def annotate(members: Sequence[Member], settings: RlooConfig, _: Baselines) -> Annotation:
    """Annotate a group by its rewards."""
    return by_outcome(members, advantages.rloo, settings)
