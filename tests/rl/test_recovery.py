"""The controller over fakes when batches are refused, stale or unsignalled."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from agents.episode import Assignment
from agents.types import Episode
from rl import checkpoint, metrics
from rl.algorithms import SignalSource
from rl.checkpoint import CheckpointMeta
from rl.controller import Controller
from rl.errors import GuardBreach, MismatchError, MissingSignalError, RunError
from rl.metrics import Metrics
from rl.settings import RunConfig
from rl.store import Store
from rl.tasksets import TaskSets
from rl.types import Sample, StepMetrics, TurnSignal
from tests.rl.fleets import FakeFleet, coin
from tests.rl.records import episode, turn
from tests.rl.test_controller import HELD, TASKS, config


class Refusing(FakeFleet):
    """Refuses the steps it is told to; writes real checkpoints, so that there is a way back."""

    def __init__(self, folder: Path, refuse: Sequence[int], error: Exception) -> None:
        super().__init__()
        self.folder, self.refuse, self.error = folder, refuse, error
        self.calls = 0
        self.served: list[int] = []

    async def step(self, samples: Sequence[Sample], version: int) -> StepMetrics:
        self.calls += 1
        if self.calls in self.refuse:
            await asyncio.sleep(0.1)  # meanwhile the present weights sample the next batch
            raise self.error
        return await super().step(samples, version)

    async def publish(self, version: int) -> dict[str, float]:
        self.served.append(version)
        return await super().publish(version)

    async def save(self, step: int, version: int, warmed: bool) -> str:
        await super().save(step, version, warmed)
        meta = CheckpointMeta(step, version, warmed)
        return str(checkpoint.save(self.folder / "checkpoints", meta, {}, keep=2))


class Knows:
    """Stands in for ``Hindsight``: knows at once what a function says of an episode."""

    def __init__(self, say: SignalSource) -> None:
        self._say = say

    def __call__(self, one: Episode) -> Mapping[int, TurnSignal]:
        return self._say(one)

    async def prepare(self, groups: Iterable[str]) -> Counter[str]:
        return Counter(asked=len(list(groups)))


def run(
    folder: Path, fleet: FakeFleet, settings: RunConfig, signals: SignalSource | None = None
) -> Store:
    source = Knows(signals) if signals else None
    store, log = Store(folder), Metrics(folder)
    sets = TaskSets(TASKS, HELD)
    try:
        asyncio.run(Controller(settings, folder, fleet, sets, store, log, source).run())
    finally:
        log.close()
    return store


def rows(folder: Path) -> list[dict[str, object]]:
    return [row for row in metrics.read(folder) if row["phase"] == "rl"]


def outcomes(store: Store) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for step, outcome in store._db.execute("SELECT step, outcome FROM batches ORDER BY step"):
        found.setdefault(step, set()).add(outcome)
    return found


def test_refused_batch_is_skipped_counted_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One bad batch: no publication, no new version, its groups spent, the reason in the log."""
    fleet = Refusing(tmp_path, [2], MismatchError("gap 0.5 over the bound"))
    with (
        caplog.at_level(logging.WARNING),
        run(tmp_path, fleet, config(optim={"steps": 4})) as store,
    ):
        assert outcomes(store)[2] & {"refused_mismatch"}
        assert "trained" not in outcomes(store)[2]
    assert fleet.served == [1, 2, 3]
    assert "gap 0.5 over the bound" in caplog.text
    found = rows(tmp_path)
    assert [row.get("refused", 0) for row in found] == [0, 1, 0, 0]
    assert found[1]["reason"] == "gap 0.5 over the bound"


def test_refusals_in_a_row_roll_back_and_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Steps 5 and 6 are refused: the weights of a proven version are served under a new number,
    what the given-up ones sampled is left out, and the run goes on."""
    fleet = Refusing(tmp_path, [5, 6], GuardBreach("repetition 0.98 is above"))
    settings = config(optim={"steps": 10}, guards={"patience": 2})
    with caplog.at_level(logging.WARNING), run(tmp_path, fleet, settings) as store:
        spent = outcomes(store)
    assert len(fleet.loaded) == 1
    assert "rolled back to the weights of version" in caplog.text
    found = rows(tmp_path)
    assert found[5]["rolled_back_to"] in (3.0, 4.0)
    assert found[5]["version"] == 5
    assert spent[7] == {"rolled_back"}
    assert any("trained" in spent[step] for step in (8, 9, 10))
    assert (6, 5, True) in fleet.saved


def test_rollbacks_that_do_not_help_end_the_run(tmp_path: Path) -> None:
    """A run that only skips is not a run; its last reason is what is reported."""
    fleet = Refusing(tmp_path, range(3, 99), GuardBreach("entropy 0 is below"))
    settings = config(optim={"steps": 90}, guards={"patience": 2, "max_rollbacks": 1})
    with pytest.raises(RunError, match=r"after 1 rollbacks; the last: entropy 0 is below"):
        run(tmp_path, fleet, settings)


def test_waiting_never_makes_a_group_stale(tmp_path: Path) -> None:
    """One group in four takes very long: under drop it is overtaken and lost, under wait it is
    not, whatever it costs."""

    class LongTailed(FakeFleet):
        async def play(self, assignment: Assignment, *, demonstrate: bool = False) -> Episode:
            born = self.version
            group = assignment.group_id
            if group.startswith("g") and int(group[1:]) % 4 == 1:
                await asyncio.sleep(0.15)
            played = await super().play(assignment, demonstrate=demonstrate)
            turns = (turn([1, 2, 3], [4, 5], version=born),)
            return Episode(**{**vars(played), "turns": turns})

    spent = {}
    for policy in ("drop", "wait"):
        settings = config(
            rollout={"staleness": policy, "max_staleness": 1, "groups_per_step": 2},
            optim={"steps": 12},
        )
        with run(tmp_path / policy, LongTailed(delay_s=0.001), settings) as store:
            spent[policy] = set().union(*outcomes(store).values())
    assert "stale" in spent["drop"]
    assert "stale" not in spent["wait"]


def test_masking_keeps_what_is_fresh_of_a_stale_group(tmp_path: Path) -> None:
    """Tokens of version -1 below the bound are masked and counted; the group is still learned."""

    def behaviour(assignment: Assignment) -> Episode | None:
        if not assignment.episode_id.startswith("g"):
            return None
        version = max(fleet.version, 3)
        turns = [turn([1], [2, 3], version=0), turn([1, 2, 3, 4], [5], version=version)]
        made = episode(turns, coin(assignment.episode_id), assignment.episode_id)
        return Episode(**{**vars(made), "group_id": assignment.group_id})

    fleet = FakeFleet(behaviour)
    with run(tmp_path, fleet, config(rollout={"staleness": "mask"}, optim={"steps": 6})) as store:
        assert "stale" not in set().union(*outcomes(store).values())
    found = rows(tmp_path)
    assert all(row.get("skipped_stale_tokens", 0) > 0 for row in found[2:] if row["groups_trained"])


def test_method_without_its_signal_ends_before_anything_is_played(tmp_path: Path) -> None:
    """Hours of rollouts that nobody judges."""
    fleet = FakeFleet()
    with pytest.raises(MissingSignalError, match="needs a judge"):
        run(tmp_path, fleet, config(algorithm={"name": "binary"}))
    assert fleet.played == []


def test_signals_reach_the_samples_and_the_baseline_survives_a_resume(tmp_path: Path) -> None:
    """Every turn praised: the running mean grows, is kept with its step, and is found again."""

    def praise(one: Episode) -> Mapping[int, TurnSignal]:
        return {0: TurnSignal(one.id, 0, 1, confidence=0.75, subject="ada")}

    settings = config(algorithm={"name": "binary"}, optim={"steps": 2})
    with run(tmp_path, FakeFleet(), settings, praise) as store:
        kept = store.learner_state()["baselines"]["ada"]
    assert 0.5 < kept < 1.0
    assert rows(tmp_path)[0]["judge_agreement"] == 0.75
    checkpoint.save(tmp_path / "checkpoints", CheckpointMeta(2, 2, True), {}, keep=1)
    settings = config(algorithm={"name": "binary"}, optim={"steps": 3})
    with run(tmp_path, FakeFleet(), settings, praise) as store:
        assert kept < store.learner_state()["baselines"]["ada"] < 1.0


def test_judges_at_odds_skip_the_batch(tmp_path: Path) -> None:
    """Votes that no longer agree are noise: nothing is learned from them, and it is said."""

    def noise(one: Episode) -> Mapping[int, TurnSignal]:
        return {0: TurnSignal(one.id, 0, 1, confidence=0.34, subject="ada")}

    fleet = FakeFleet()
    settings = config(algorithm={"name": "binary"}, optim={"steps": 2})
    with run(tmp_path, fleet, settings, noise) as store:
        assert set().union(*outcomes(store).values()) == {"refused_guard"}
    assert fleet.trained == []
    assert "judge_agreement 0.34 is below" in str(rows(tmp_path)[0]["reason"])
