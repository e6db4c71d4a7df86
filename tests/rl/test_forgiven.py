"""A resume after the machine failed everything at once."""

from pathlib import Path

import pytest

from agents.episode import Assignment
from agents.types import Episode
from rl.errors import RunError
from rl.store import Store
from tests.rl.fleets import FakeFleet, lost
from tests.rl.test_controller import run


def test_a_resume_plays_again_what_the_machine_failed(tmp_path: Path) -> None:
    """Bug prevented: memory ran out, every worker died, all attempts were used up, and each
    resume ended at once with the same failure, found in the store."""
    broken = True

    def behaviour(assignment: Assignment) -> Episode | None:
        return lost(assignment) if broken and assignment.group_id >= "g000002" else None

    with pytest.raises(RunError, match="every episode of a batch was lost"):
        run(tmp_path, FakeFleet(behaviour)).close()
    with Store(tmp_path) as store:
        before = len(store.losses())
        assert before > 0
    broken = False
    with run(tmp_path, FakeFleet(behaviour)) as store:
        assert sorted(store.consumed().values()) == [1, 1, 2, 2, 3, 3]
        assert len(store.losses()) == before
