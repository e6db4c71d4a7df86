"""``algorithm=dr_grpo``: the reward minus the group's mean, undivided."""

from collections.abc import Sequence

from rl import advantages
from rl.advantages import Baselines
from rl.methods.annotation import Annotation, Member, by_outcome
from rl.methodsettings import DrGrpoConfig


def annotate(members: Sequence[Member], settings: DrGrpoConfig, _: Baselines) -> Annotation:
    """Annotate a group by its rewards."""
    return by_outcome(members, advantages.dr_grpo, settings)
