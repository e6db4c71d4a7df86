"""Which tasks the terminal environment refuses: public ones that need what it does not offer.

Costs nothing to import; the formats themselves are in ``tasks``.
"""

from envs.errors import TaskError
from envs.types import Task

KINDS = ("harbor", "terminal_bench")


def is_public(task: Task) -> bool:
    """Return whether a task is of a public format, played on a machine of its own."""
    return task.data.get("kind") in KINDS


def require_playable(task: Task) -> None:
    """Raise ``TaskError`` with the reasons when a public task needs what is not offered."""
    if is_public(task) and (reasons := "; ".join(task.data.get("unsupported", ()))):
        raise TaskError(f"{task.id} is not played: it needs {reasons}")
