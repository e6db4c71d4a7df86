"""Which task is played when: a pure function of the tasks, the seed and the group's number.

So a resumed run continues exactly where it was, and a group's id tells its task.
"""

from collections.abc import Sequence

import numpy as np

from envs.types import Task


class Schedule:
    """An endless order of groups: every epoch plays each family in turn, tasks shuffled.

    Args:
        tasks: training tasks.
        seed: of the order.
    """

    def __init__(self, tasks: Sequence[Task], seed: int) -> None:
        self.tasks = sorted(tasks, key=lambda task: task.id)
        self.seed = seed
        self._epochs: dict[int, list[Task]] = {}

    def task(self, number: int) -> Task:
        """Return the task of the ``number``-th group."""
        epoch, index = divmod(number, len(self.tasks))
        if epoch not in self._epochs:
            self._epochs = {epoch: self._order(epoch)} | {
                e: order for e, order in self._epochs.items() if e == epoch - 1
            }
        return self._epochs[epoch][index]

    def _order(self, epoch: int) -> list[Task]:
        """Shuffle tasks, then interleave families, so that a batch holds many kinds."""
        rng = np.random.default_rng([self.seed, epoch])
        families: dict[str, list[Task]] = {}
        for index in rng.permutation(len(self.tasks)):
            task = self.tasks[int(index)]
            families.setdefault(task.family, []).append(task)
        order: list[Task] = []
        round_index = 0
        while len(order) < len(self.tasks):
            order += [f[round_index] for f in families.values() if round_index < len(f)]
            round_index += 1
        return order


def group_id(number: int) -> str:
    """Return the id of the ``number``-th group."""
    return f"g{number:06d}"


def member_id(group: str, member: int, attempt: int) -> str:
    """Return the episode id of a member's attempt."""
    return f"{group}.m{member}" + (f".r{attempt}" if attempt else "")


def member_of(episode_id: str) -> int:
    """Return the member number of an episode id."""
    return int(episode_id.split(".m")[1].split(".")[0])
