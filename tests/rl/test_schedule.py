"""The schedule: deterministic, covering, and drawn to where there is something to learn."""

from collections import Counter
from pathlib import Path

import pytest

from envs.types import Task
from rl.errors import StoreError
from rl.schedule import Schedule, group_id, member_id, member_of
from rl.store import Store

TASKS = [
    Task(id=f"t/{family}/{i}", env="t", family=family, split="train", instruction="")
    for family in ("always", "never", "sometimes")
    for i in range(5)
]


def test_uniform_plays_every_task_once_an_epoch_and_mixes_families() -> None:
    """A batch of three must hold three families, and no task may be starved."""
    schedule = Schedule(TASKS, seed=1)
    epoch = [schedule.task(n) for n in range(len(TASKS))]
    assert len({task.id for task in epoch}) == len(TASKS)
    assert len({task.family for task in epoch[:3]}) == 3


@pytest.mark.parametrize("curriculum", ["uniform", "informative"])
def test_equal_seed_and_record_give_equal_tasks(curriculum: str) -> None:
    """Two runs of one seed play the same tasks; another seed plays others."""
    one, two, other = (Schedule(TASKS, seed, curriculum) for seed in (3, 3, 4))  # type: ignore[arg-type]
    picks = [[s.task(n).id for n in range(12)] for s in (one, two, other)]
    assert picks[0] == picks[1] != picks[2]


def test_informative_prefers_families_with_variance() -> None:
    """Solved-always and solved-never groups carry no gradient; both keep a floor."""
    schedule = Schedule(TASKS, 0, "informative")
    for _ in range(6):
        schedule.observe("always", 8, 8)
        schedule.observe("never", 0, 8)
        schedule.observe("sometimes", 4, 8)
    drawn = Counter(schedule.task(n).family for n in range(600))
    assert drawn["sometimes"] > 3 * drawn["always"]
    assert min(drawn["always"], drawn["never"]) > 5


def test_unknown_family_is_tried_first() -> None:
    """Never played counts as one half: the most informative guess."""
    schedule = Schedule(TASKS, 0, "informative")
    schedule.observe("never", 0, 8)
    assert schedule.weight("sometimes") > schedule.weight("never")


def test_names_round_trip() -> None:
    """Ids carry group, member and attempt."""
    assert member_of(member_id(group_id(12), 7, 2)) == 7


def test_choice_is_kept_in_the_store(tmp_path: Path) -> None:
    """A resumed run plays the task that was promised, whatever the record says by then."""
    with Store(tmp_path) as store:
        store.admit("g000000", "t/never/1")
        with pytest.raises(StoreError):
            store.admit("g000000", "t/never/2")
    with Store(tmp_path) as store:
        assert store.admitted() == {"g000000": "t/never/1"}
