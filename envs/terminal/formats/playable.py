"""Which tasks the terminal environment refuses: those of public formats, only read so far.

The sandbox has a read-only root, a user without rights and its own server as the main process;
these tasks expect root, ``apt-get`` and to write anywhere. Graded here they would not score as in
the official harness. Costs nothing to import; the formats themselves are in ``tasks``.
"""

from envs.errors import TaskError
from envs.types import Task

KINDS = ("harbor", "terminal_bench")


def require_playable(task: Task) -> None:
    """Raise ``TaskError`` with the reasons when a task is of a format that is only read so far."""
    kind = task.data.get("kind")
    if kind in KINDS:
        reasons = "; ".join(task.data.get("unsupported", ()))
        raise TaskError(
            f"{task.id}: tasks of format {kind} are read and listed, not played by this version"
            + (f"; this one also needs: {reasons}" if reasons else "")
        )
