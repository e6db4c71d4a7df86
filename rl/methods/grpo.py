"""``algorithm=grpo``: the reward against the group's mean, over its deviation (``norm=std``)."""

from collections.abc import Sequence

from rl import advantages
from rl.advantages import Baselines
from rl.methods.annotation import Annotation, Member, by_outcome
from rl.methodsettings import CispoConfig, GrpoConfig, GspoConfig


def annotate(
    members: Sequence[Member], settings: GrpoConfig | GspoConfig | CispoConfig, _: Baselines
) -> Annotation:
    """Annotate a group by its rewards."""
    estimator = advantages.grpo if settings.norm == "std" else advantages.dr_grpo
    return by_outcome(members, estimator, settings)
