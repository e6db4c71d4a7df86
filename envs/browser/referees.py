"""Which referee judges a task."""

from envs.browser.checks import Checks
from envs.browser.miniwob.referee import MiniWob
from envs.browser.referee import Referee
from envs.types import Task


def referee(task: Task) -> Referee:
    """Return the referee of a task. Raises ``TaskError``, ``MissingDependency``."""
    return MiniWob(task) if "miniwob" in task.data else Checks(task)
