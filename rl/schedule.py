"""Which task is played when.

``uniform`` takes every family in turn. ``informative`` prefers families whose groups carry a
gradient: a group of equal rewards teaches nothing, and with success p a group's variance is
p(1 - p), so families are drawn with weight 0.05 + 4p(1 - p), p being estimated from what was played
(a family never seen counts as 1/2). Both are functions of the seed, the group's number and those
estimates; the choice is written into the store when it is made, so a resumed run plays what was
promised.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from envs.types import Task

Curriculum = Literal["uniform", "informative"]
FLOOR = 0.05  # weight of a family that is always or never solved: it may change
MEMORY = 0.6  # how much of a family's record stays when a new group of it is finished


class Schedule:
    """Draws tasks for groups.

    Args:
        tasks: training tasks.
        seed: of the order.
        curriculum: see the module.
    """

    def __init__(
        self, tasks: Sequence[Task], seed: int, curriculum: Curriculum = "uniform"
    ) -> None:
        self.tasks = sorted(tasks, key=lambda task: task.id)
        self.seed = seed
        self.curriculum = curriculum
        self._by_id = {task.id: task for task in self.tasks}
        self._families: dict[str, list[Task]] = {}
        for task in self.tasks:
            self._families.setdefault(task.family, []).append(task)
        self._record: dict[str, tuple[float, float]] = {}
        self._epochs: dict[int, list[Task]] = {}

    def task(self, number: int) -> Task:
        """Return the task of the ``number``-th group."""
        if self.curriculum == "uniform":
            epoch, index = divmod(number, len(self.tasks))
            if epoch not in self._epochs:
                self._epochs[epoch] = self._order(epoch)
            return self._epochs[epoch][index]
        rng = np.random.default_rng([self.seed, number])
        names = sorted(self._families)
        weights = np.array([self.weight(name) for name in names])
        family = self._families[names[int(rng.choice(len(names), p=weights / weights.sum()))]]
        return family[int(rng.integers(len(family)))]

    def known(self, task_id: str) -> Task | None:
        """Return a training task by id, or None when it is not among them."""
        return self._by_id.get(task_id)

    def observe(self, family: str, solved: int, played: int) -> None:
        """Take a finished group of a family into account."""
        old_solved, old_played = self._record.get(family, (0.0, 0.0))
        self._record[family] = (MEMORY * old_solved + solved, MEMORY * old_played + played)

    def weight(self, family: str) -> float:
        """Return the weight a family is drawn with."""
        solved, played = self._record.get(family, (0.0, 0.0))
        p = (solved + 1.0) / (played + 2.0)
        return FLOOR + 4.0 * p * (1.0 - p)

    def _order(self, epoch: int) -> list[Task]:
        """Shuffle tasks, then interleave families, so that a batch holds many kinds."""
        rng = np.random.default_rng([self.seed, epoch])
        families: dict[str, list[Task]] = {}
        for index in rng.permutation(len(self.tasks)):
            task = self.tasks[int(index)]
            families.setdefault(task.family, []).append(task)
        longest = max(len(family) for family in families.values())
        return [f[i] for i in range(longest) for f in families.values() if i < len(f)]


def group_id(number: int) -> str:
    """Return the id of the ``number``-th group."""
    return f"g{number:06d}"


def member_id(group: str, member: int, attempt: int) -> str:
    """Return the episode id of a member's attempt."""
    return f"{group}.m{member}" + (f".r{attempt}" if attempt else "")


def member_of(episode_id: str) -> int:
    """Return the member number of an episode id."""
    return int(episode_id.split(".m")[1].split(".")[0])
