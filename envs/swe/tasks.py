"""Loading the tasks of this environment."""

from envs.swe.generated import generated_tasks
from envs.swe.release_tasks import release_tasks
from envs.types import Split, Task


def load_tasks(releases: bool = True, release_split: Split = "heldout") -> list[Task]:
    """Return the generated tasks, and the release tasks that have been built.

    Args:
        releases: False leaves the release tasks out.
        release_split: the split release tasks are given.
    """
    tasks = list(generated_tasks())
    return tasks + release_tasks(release_split) if releases else tasks
