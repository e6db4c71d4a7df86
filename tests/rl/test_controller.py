"""The controller over a fleet of fakes: exactly once, bounded staleness, failures by rule."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from agents.episode import Assignment
from agents.types import Episode
from envs.types import Task
from rl import checkpoint, metrics
from rl.checkpoint import CheckpointMeta
from rl.config import validate
from rl.controller import Controller
from rl.errors import RunError, StalledError
from rl.metrics import Metrics
from rl.schedule import member_of
from rl.settings import RunConfig
from rl.store import Store
from rl.tasksets import TaskSets
from rl.types import Sample, StepMetrics
from tests.rl.fleets import FakeFleet, coin, lost

TASKS = [
    Task(id=f"terminal/f{i % 3}/{i:04d}", env="terminal", family=f"f{i % 3}", split="train",
         instruction="do") for i in range(7)
]  # fmt: skip
HELD = [
    Task(id=f"terminal/h/{i:04d}", env="terminal", family="h", split="heldout", instruction="do",
         tags=("heldout:template",)) for i in range(4)
]  # fmt: skip


def config(**changes: object) -> RunConfig:
    base: dict[str, object] = {
        "rollout": {
            "groups_per_step": 2,
            "group_size": 4,
            "min_group": 2,
            "max_staleness": 1,
            "retry_wait_s": 0.0,
        },
        "optim": {"steps": 3},
        "checkpoint": {"every": 1},
    }
    for key, value in changes.items():
        section = base.setdefault(key, {})
        assert isinstance(section, dict)
        assert isinstance(value, dict)
        section.update(value)
    return validate(base)


def run(folder: Path, fleet: FakeFleet, settings: RunConfig | None = None) -> Store:
    store = Store(folder)
    log = Metrics(folder)
    controller = Controller(settings or config(), folder, fleet, TaskSets(TASKS, HELD), store, log)
    try:
        asyncio.run(controller.run())
    finally:
        log.close()
    return store


def test_whole_run_trains_every_batch_once(tmp_path: Path) -> None:
    """Three steps of two groups: six groups consumed, each episode in one step at most."""
    fleet = FakeFleet()
    with run(tmp_path, fleet) as store:
        assert sorted(store.consumed().values()) == [1, 1, 2, 2, 3, 3]
        assert set(_kinds(store)) == {"train", "eval:start@000000", "eval:final@000003"}
    trained = [name for step in fleet.trained for name in step]
    assert len(trained) == len(set(trained))
    assert [row["step"] for row in metrics.read(tmp_path) if row["phase"] == "rl"] == [1, 2, 3]


@pytest.mark.parametrize("eta", [0, 1, 2])
def test_staleness_is_bounded_while_the_trainer_works(tmp_path: Path, eta: int) -> None:
    """Never more than (eta + 1) batches accepted, running or being learned: with a slow trainer no
    group may come out too stale and be thrown away."""

    class SlowTrainer(FakeFleet):
        async def step(self, samples: Sequence[Sample], version: int) -> StepMetrics:
            await asyncio.sleep(0.05)
            return await super().step(samples, version)

    fleet = SlowTrainer(delay_s=0.002)
    settings = config(rollout={"max_staleness": eta}, optim={"steps": 6})
    with run(tmp_path, fleet, settings) as store:
        assert "stale" not in _outcomes(store)
    assert fleet.most_running <= (eta + 1) * 2 * 4


def test_lost_members_are_retried_then_left_out(tmp_path: Path) -> None:
    """A dead sandbox is no reward; the group goes on with the members it has."""

    def behaviour(assignment: Assignment) -> Episode | None:
        if not assignment.episode_id.startswith("g"):
            return None
        return lost(assignment) if member_of(assignment.episode_id) == 0 else None

    fleet = FakeFleet(behaviour)
    with run(tmp_path, fleet) as store:
        attempts = [e for e in store.group("g000000") if member_of(e.id) == 0]
        assert [e.id for e in attempts] == ["g000000.m0", "g000000.m0.r1", "g000000.m0.r2"]
        assert all(e.reward is None for e in attempts)
    assert not any(".m0" in name for step in fleet.trained for name in step)


def test_group_without_enough_members_is_dropped_with_its_reason(tmp_path: Path) -> None:
    """All but one member of each even group die: it teaches nothing and is counted."""

    def behaviour(assignment: Assignment) -> Episode | None:
        name = assignment.episode_id
        dies = name.startswith("g") and int(name[1:7]) % 2 == 0 and member_of(name) > 0
        return lost(assignment) if dies else None

    with run(tmp_path, FakeFleet(behaviour)) as store:
        assert "too_few_members" in _outcomes(store)
    rows = [row for row in metrics.read(tmp_path) if row["phase"] == "rl"]
    assert sum(row.get("groups_too_few_members", 0) for row in rows) >= 2


def test_outage_ends_the_run_with_its_cause_instead_of_burning_steps(tmp_path: Path) -> None:
    """Twenty steps of dead sandboxes used to end as a run that was "done"."""

    def behaviour(assignment: Assignment) -> Episode | None:
        return lost(assignment) if assignment.episode_id.startswith("g") else None

    with pytest.raises(RunError, match="every episode of a batch was lost; sandbox_lost"):
        run(tmp_path, FakeFleet(behaviour))


def test_run_goes_on_after_an_outage_in_its_evaluation(tmp_path: Path) -> None:
    """Lost evaluation episodes are played again on resume, not counted as known."""
    with pytest.raises(RunError, match="no held-out episode"):
        run(tmp_path, FakeFleet(lost))
    with run(tmp_path, FakeFleet()) as store:
        assert len(store.evaluations()["start"]) == len(HELD)
        assert all(e.reward is not None for e in store.evaluations()["start"])


def test_longer_run_is_evaluated_again(tmp_path: Path) -> None:
    """A finished run resumed with more steps gets a final evaluation of its new weights."""
    with run(tmp_path, FakeFleet()):
        pass
    checkpoint.save(tmp_path / "checkpoints", CheckpointMeta(3, 3, True), {}, keep=1)
    second = FakeFleet()
    with run(tmp_path, second, config(optim={"steps": 5})):
        pass
    assert [n for n in second.played if n.startswith("eval:final@000005")]
    finals = [r["step"] for r in metrics.read(tmp_path) if r["phase"] == "eval:final"]
    assert finals == [3, 5]


def test_resume_repeats_the_lost_batch_in_its_old_composition(tmp_path: Path) -> None:
    """Killed after step 3, checkpoint at step 1: steps 2 and 3 see the same episodes again."""
    first = FakeFleet()
    with run(tmp_path, first):
        pass
    folder = tmp_path / "checkpoints"
    checkpoint.save(folder, CheckpointMeta(1, 1, True), {}, keep=1)
    second = FakeFleet()
    with run(tmp_path, second) as store:
        assert sorted(store.consumed().values()) == [1, 1, 2, 2, 3, 3]
    assert second.loaded == [str(folder / "000001")]
    assert second.trained == first.trained[1:]
    assert not {n for n in second.played if n.startswith("g")} & set(first.played)


def test_half_played_group_is_completed_not_repeated(tmp_path: Path) -> None:
    """Episodes acknowledged before a kill are kept; only missing members are played."""
    donor = tmp_path / "donor"
    with run(donor, FakeFleet()) as store:
        half = store.group("g000000")[:2]
    with Store(tmp_path / "run") as store:
        for episode in half:
            store.append(episode)
    fleet = FakeFleet()
    with run(tmp_path / "run", fleet) as store:
        assert len(store.group("g000000")) == 4
    assert not {e.id for e in half} & set(fleet.played)


def test_evaluation_nobody_could_play_names_the_first_cause(tmp_path: Path) -> None:
    """Without Docker every episode is lost: the run says why instead of reporting 0."""
    with pytest.raises(RunError, match="SandboxLost: gone"):
        run(tmp_path, FakeFleet(lost))


def test_silence_ends_the_run_with_what_it_waited_for(tmp_path: Path) -> None:
    """A worker that never answers must not block a run for a day."""

    class Silent(FakeFleet):
        async def play(self, assignment: Assignment, *, demonstrate: bool = False) -> Episode:
            if assignment.episode_id.startswith("g"):
                await asyncio.sleep(3600)
            return await super().play(assignment, demonstrate=demonstrate)

    with pytest.raises(StalledError, match="waiting for groups"):
        run(tmp_path, Silent(), config(rollout={"stall_timeout_s": 1.0}))


def test_interrupt_finishes_the_step_that_has_begun_before_saving(tmp_path: Path) -> None:
    """The trainer cannot be stopped in mid-step: saving weights that saw a batch which the store
    still counts as unread would train it twice."""

    class Slow(FakeFleet):
        steps = 0

        async def step(self, samples: Sequence[Sample], version: int) -> StepMetrics:
            self.steps += 1
            await asyncio.sleep(0.4)
            return await super().step(samples, version)

        async def save(self, step: int, version: int, warmed: bool) -> str:
            assert self.steps == step
            return await super().save(step, version, warmed)

    fleet = Slow()

    async def interrupted() -> dict[str, int]:
        with Store(tmp_path) as store:
            log = Metrics(tmp_path)
            settings = config(checkpoint={"every": 100}, optim={"steps": 50})
            sets = TaskSets(TASKS, HELD)
            controller = Controller(settings, tmp_path, fleet, sets, store, log)
            task = asyncio.create_task(controller.run())
            while fleet.steps < 2:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            log.close()
            return store.consumed()

    consumed = asyncio.run(interrupted())
    assert fleet.saved == [(2, 2, True)]
    assert set(consumed.values()) == {1, 2}
    assert [r["step"] for r in metrics.read(tmp_path) if r["phase"] == "rl"] == [1, 2]


def test_first_cause_is_what_the_run_reports(tmp_path: Path) -> None:
    """A trainer that dies in its step must not be reported as one that died while saving."""

    class Dying(FakeFleet):
        async def step(self, samples: Sequence[Sample], version: int) -> StepMetrics:
            raise RunError("the step failed")

        async def save(self, step: int, version: int, warmed: bool) -> str:
            raise RunError("died in save")

    with pytest.raises(RunError, match="the step failed"):
        run(tmp_path, Dying())


def test_the_coin_is_fair_enough_for_these_tests() -> None:
    """The fakes need groups with and without variance."""
    faces = {coin(f"g000000.m{i}") for i in range(4)}
    assert faces == {0.0, 1.0}


def _kinds(store: Store) -> list[str]:
    return [kind for (kind,) in store._db.execute("SELECT DISTINCT kind FROM episodes")]


def _outcomes(store: Store) -> list[str]:
    return [outcome for (outcome,) in store._db.execute("SELECT outcome FROM batches")]
