"""Loading the tasks of this environment."""

from envs.swe.generated import generated_tasks
from envs.types import Task


def load_tasks(releases: bool = True) -> list[Task]:
    """Return generated tasks, and the release tasks that have been built.

    Args:
        releases: False leaves the release tasks out.
    """
    return list(generated_tasks())
