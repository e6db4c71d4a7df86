"""Live chat over a real journal and a fleet of fakes: next states, judging, exactly once."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rl import checkpoint
from rl.checkpoint import CheckpointMeta
from rl.config import validate
from rl.errors import ConfigError, JudgeUnavailable, RunError
from rl.judge.feedback import from_feedback
from rl.judge.pipeline import Pipeline
from rl.judge.types import Exchange, Judgement
from rl.live import records, service
from rl.live.backlog import Backlog
from rl.live.loop import LiveLoop
from rl.live.teacher import ChatTeacher
from rl.metrics import Metrics
from rl.settings import RunConfig
from rl.store import Store
from rl.teacher import Teacher
from rl.types import Hint, TurnSignal
from serving.journal import Journal
from serving.renderer import PLAIN, Context, Drift, Prompt
from serving.turns import Feedback, Turn
from tests.rl.fleets import FakeFleet
from tests.rl.talk import said, turn


class Words:
    """A renderer of one token per letter."""

    def __init__(self, reproduces: bool = True) -> None:
        self.reproduces = reproduces

    def render(self, messages: Sequence[Mapping[str, Any]], context: Context = PLAIN) -> Prompt:
        text = "".join(str(m["content"]) for m in messages)
        if "[Hint]" not in text and self.reproduces:
            return Prompt((1, 2, 3), Drift.NEW)  # what every turn here was asked
        return Prompt(tuple(ord(c) for c in text), Drift.NEW)


class ByWord:
    """A judge that finds ``good`` and ``bad`` in the next message."""

    def __init__(self, outages: int = 0) -> None:
        self.outages = outages
        self.asked: list[str] = []

    async def __call__(self, exchange: Exchange) -> Judgement | None:
        if self.outages:
            self.outages -= 1
            raise JudgeUnavailable("away")
        self.asked.append(exchange.id)
        text = " ".join(str(m["content"]) for m in exchange.next_state)
        if "bad" in text:
            return Judgement(-1, reason=text, source="word", hint="Answer in one short sentence.")
        return Judgement(1 if "good" in text else 0, reason=text, source="word")


async def feedback_judge(exchange: Exchange) -> Judgement | None:
    return await from_feedback(exchange)


def config(**chat: Any) -> RunConfig:
    return validate(
        {
            "env": "chat",
            "algorithm": {"name": "hybrid"},
            "chat": {"batch": 2, "idle_s": 3600.0, "feedback_grace_s": 0.0, **chat},
            "optim": {"steps": 1},
            "checkpoint": {"every": 1},
        }
    )


def talk(folder: Path, *turns: Turn, feedback: Sequence[Feedback] = ()) -> None:
    with Journal(folder / "gateway") as journal:
        for one in turns:
            journal.turn(one)
        for one_said in feedback:
            journal.feedback(one_said)


def live(folder: Path, fleet: FakeFleet, store: Store, judge: Any, settings: RunConfig) -> LiveLoop:
    pipeline = Pipeline([feedback_judge, judge])
    teacher = ChatTeacher(Teacher(fleet.score, 4096), Words())
    metrics = Metrics(folder)
    return LiveLoop(settings, folder, fleet, store, metrics, folder / "gateway", pipeline, teacher)


def run(
    folder: Path, fleet: FakeFleet, judge: Any, settings: RunConfig | None = None
) -> tuple[LiveLoop, Store]:
    store = Store(folder)
    loop = live(folder, fleet, store, judge, settings or config())
    asyncio.run(asyncio.wait_for(loop.run(), 30))
    return loop, store


def dialogue(count: int, word: str = "good", start: int = 0) -> list[Turn]:
    """A chain of turns; each answers the one before with a word."""
    import time

    return [
        turn(f"t{i}", word, parent=f"t{i - 1}" if i else None, created=time.time())
        for i in range(start, start + count)
    ]


def test_two_judged_turns_make_a_step_and_new_weights(tmp_path: Path) -> None:
    talk(tmp_path, *dialogue(3))
    fleet = FakeFleet()
    loop, store = run(tmp_path, fleet, ByWord())
    assert fleet.trained == [["chat:t0", "chat:t1"]]
    assert fleet.version == 1 and fleet.quality == [(0, 1.0, 2)]
    assert store.consumed() == {"chat:t0": 1, "chat:t1": 1}
    assert loop.assembly.num_waiting == 1


def test_neutral_turns_take_no_place_and_stay_while_feedback_could_count() -> None:
    """Bug prevented: a thumb given an hour later is of no use, its turn went with a batch."""
    settings = config()
    backlog = Backlog(settings)
    for name, score in (("a", 0), ("b", 1), ("c", 0), ("d", -1), ("e", 1)):
        backlog.add(TurnSignal(f"chat:{name}", 0, score), turn(name, ""), 0.0)
    near, far = settings.rollout.max_staleness, settings.rollout.max_staleness + 1
    assert backlog.due(1.0, near) == ["chat:b", "chat:d"]
    assert backlog.due(1.0, far) == ["chat:b", "chat:d", "chat:a", "chat:c"]
    backlog.change(TurnSignal("chat:a", 0, -1))
    assert backlog.due(1.0, near) == ["chat:a", "chat:b"]
    for name in "abde":
        backlog.pop(f"chat:{name}")
    assert backlog.due(1e9, near) == []


def test_one_turn_is_learned_from_when_it_has_waited_long_enough(tmp_path: Path) -> None:
    talk(tmp_path, *dialogue(2))
    fleet = FakeFleet()
    run(tmp_path, fleet, ByWord(), config(max_wait_s=0.5))
    assert fleet.trained == [["chat:t0"]]


def test_a_hint_is_scored_by_the_policy_that_serves(tmp_path: Path) -> None:
    talk(tmp_path, *dialogue(3, "bad"))
    fleet = FakeFleet()
    loop, store = run(tmp_path, fleet, ByWord())
    (hint,) = loop._taught["chat:t0"].hints
    assert hint.teacher_logprobs_T == (-9.0, -9.0)
    assert store.signals("chat:t0")[0].hints[0].text == "Answer in one short sentence."


def test_a_hint_that_speaks_for_the_bad_reply_is_left_out(tmp_path: Path) -> None:
    class Fond(FakeFleet):
        async def score(
            self, token_ids: Sequence[Sequence[int]], temperature: float
        ) -> list[list[float]]:
            return [[-0.1] * (len(row) - 1) for row in token_ids]

    talk(tmp_path, *dialogue(3, "bad"))
    fleet = Fond()
    loop, _ = run(tmp_path, fleet, ByWord())
    assert loop._taught["chat:t0"].hints == ()
    assert fleet.trained  # by the score alone


def test_a_judge_that_is_away_delays_and_never_scores(tmp_path: Path) -> None:
    talk(tmp_path, *dialogue(3))
    judge = ByWord(outages=2)
    loop, _ = run(tmp_path, FakeFleet(), judge)
    assert loop.counts["judge_unavailable"] == 2
    assert sorted(judge.asked) == ["t0", "t1"]


def test_a_judge_that_breaks_costs_one_verdict_and_nothing_else(tmp_path: Path) -> None:
    class Breaks(ByWord):
        async def __call__(self, exchange: Exchange) -> Judgement | None:
            if exchange.id == "t0":
                raise KeyError("content")
            return await super().__call__(exchange)

    talk(tmp_path, *dialogue(4))
    fleet = FakeFleet()
    loop, store = run(tmp_path, fleet, Breaks())
    assert fleet.trained == [["chat:t1", "chat:t2"]]
    assert loop.counts["judge_failed"] == 1
    assert store.signals("chat:t0")[0].score == 0


def test_feedback_overrides_the_judge(tmp_path: Path) -> None:
    talk(tmp_path, *dialogue(3), feedback=[Feedback("t0", rating=-1), Feedback("t1", rating=-1)])
    judge = ByWord()
    _, store = run(tmp_path, FakeFleet(), judge)
    assert judge.asked == []
    assert store.signals("chat:t0")[0].score == -1


def test_late_feedback_changes_what_no_step_has_consumed(tmp_path: Path) -> None:
    async def play() -> tuple[Store, LiveLoop]:
        store = Store(tmp_path)
        loop = live(tmp_path, FakeFleet(), store, ByWord(), config())
        task = asyncio.create_task(loop.run())
        while not len(loop.backlog):
            await asyncio.sleep(0.05)
        talk(tmp_path, feedback=[Feedback("t0", rating=-1)])
        while store.signals("chat:t0")[0].score != -1:
            await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return store, loop

    talk(tmp_path, *dialogue(2))
    store, loop = asyncio.run(asyncio.wait_for(play(), 30))
    assert store.signals("chat:t0")[0].reason.startswith("feedback")
    assert getattr(loop.backlog.signal("chat:t0"), "score", None) == -1


def test_feedback_that_comes_while_a_turn_is_judged_overrides(tmp_path: Path) -> None:
    class Slow(ByWord):
        async def __call__(self, exchange: Exchange) -> Judgement | None:
            if exchange.id == "t0":
                talk(tmp_path, feedback=[Feedback("t0", rating=-1)])
                await asyncio.sleep(1.5)
            return await super().__call__(exchange)

    talk(tmp_path, *dialogue(3))
    _, store = run(tmp_path, FakeFleet(), Slow(), config(batch=3, max_wait_s=2.5))
    assert store.signals("chat:t0")[0].score == -1


def test_feedback_between_two_lives_is_not_lost(tmp_path: Path) -> None:
    async def first() -> None:
        with Store(tmp_path) as store:
            loop = live(tmp_path, FakeFleet(), store, ByWord(), config())
            task = asyncio.create_task(loop.run())
            while not len(loop.backlog):
                await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    talk(tmp_path, *dialogue(2))
    asyncio.run(asyncio.wait_for(first(), 30))
    talk(tmp_path, feedback=[Feedback("t0", rating=-1)])
    _, store = run(tmp_path, FakeFleet(), ByWord(), config(max_wait_s=1.0))
    assert store.signals("chat:t0")[0].score == -1


def test_a_comment_takes_no_verdict_back(tmp_path: Path) -> None:
    talk(tmp_path, *dialogue(3), feedback=[Feedback("t0", comment="hm")])
    _, store = run(tmp_path, FakeFleet(), ByWord())
    assert store.signals("chat:t0")[0].score == 1


def test_unrated_turns_say_nothing_of_the_judges_agreement(tmp_path: Path) -> None:
    """Two thumbs among turns nobody said anything of: a batch like any other."""
    words = ["so", "good", "so", "so", "good", "so"]
    turns = [replace(t, messages=(said(w),)) for t, w in zip(dialogue(6), words, strict=True)]
    talk(tmp_path, *turns)
    loop, _ = run(tmp_path, FakeFleet(), ByWord())
    assert loop.learner.version == 1


def test_a_batch_whose_session_is_removed_while_it_is_taught_is_left_out(tmp_path: Path) -> None:
    class Removes(FakeFleet):
        async def score(
            self, token_ids: Sequence[Sequence[int]], temperature: float
        ) -> list[list[float]]:
            if not removed:
                removed.append(True)
                with Journal(tmp_path / "gateway") as journal:
                    journal.forget("", "s")
                await asyncio.sleep(1.0)
                talk(tmp_path, *[replace(t, id=f"u{t.id}", session="u",
                                         parent=t.parent and f"u{t.parent}")
                                 for t in dialogue(3)])  # fmt: skip
            return await super().score(token_ids, temperature)

    removed: list[bool] = []
    talk(tmp_path, *dialogue(3, "bad"))
    fleet = Removes()
    run(tmp_path, fleet, ByWord())
    assert fleet.trained == [["chat:ut0", "chat:ut1"]]


def test_a_hint_whose_prompt_is_not_the_students_is_left_out(tmp_path: Path) -> None:
    async def teach() -> Any:
        teacher = ChatTeacher(Teacher(FakeFleet().score, 4096), Words(reproduces=False))
        signal = TurnSignal("chat:a", 0, score=-1, hints=(Hint("Answer in one short sentence."),))
        return await teacher({"chat:a": (turn("a"), [said("hi")], signal)})

    taught = asyncio.run(teach())
    assert taught.refused == {"hint_not_reproduced": 1}
    assert taught.signals["chat:a"].hints == ()


def test_a_learner_that_stops_ends_no_conversation(tmp_path: Path) -> None:
    class Broken(FakeFleet):
        async def step(self, samples: Sequence[Any], version: int) -> Any:
            raise RunError("the trainer is gone")

    async def play() -> None:
        with Store(tmp_path) as store:
            loop = live(tmp_path, Broken(), store, ByWord(), config())
            task = asyncio.create_task(loop.run())
            while not loop.status()["stopped_learning"]:
                await asyncio.sleep(0.05)
            talk(tmp_path, *dialogue(2, start=3))
            while "chat:t3" not in store.ids():
                await asyncio.sleep(0.05)
            assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    talk(tmp_path, *dialogue(3))
    asyncio.run(asyncio.wait_for(play(), 30))


@pytest.mark.parametrize("method", ["grpo", "stepwise", "sft"])
def test_a_method_that_learns_nothing_from_chat_is_refused(method: str) -> None:
    with pytest.raises(ConfigError, match="binary, hybrid, opd"):
        service.describe(validate({"env": "chat", "algorithm": {"name": method}}))


def test_a_restart_judges_and_trains_nothing_twice(tmp_path: Path) -> None:
    talk(tmp_path, *dialogue(3))
    fleet = FakeFleet()
    run(tmp_path, fleet, ByWord())
    checkpoint.save(tmp_path / "checkpoints", CheckpointMeta(1, 1, True), {}, 2)
    talk(tmp_path, *dialogue(2, start=3))
    judge = ByWord()
    settings = config().model_copy(update={"optim": config().optim.model_copy(update={"steps": 2})})
    _, store = run(tmp_path, fleet, judge, settings)
    assert sorted(judge.asked) == ["t2", "t3"]
    assert fleet.trained == [["chat:t0", "chat:t1"], ["chat:t2", "chat:t3"]]
    assert store.consumed()["chat:t3"] == 2


def test_a_batch_whose_weights_were_lost_is_formed_again(tmp_path: Path) -> None:
    """kill -9 after a step and before its checkpoint."""
    talk(tmp_path, *dialogue(3))
    first, second, judge = FakeFleet(), FakeFleet(), ByWord()
    run(tmp_path, first, judge)
    _, store = run(tmp_path, second, judge)
    assert second.trained == first.trained == [["chat:t0", "chat:t1"]]
    assert sorted(judge.asked) == ["t0", "t1"]
    assert store.consumed() == {"chat:t0": 1, "chat:t1": 1}


def test_what_a_user_removed_is_removed_here_too(tmp_path: Path) -> None:
    talk(tmp_path, *dialogue(2))
    talk(tmp_path, *[replace(t, owner="", session="u", id="u" + t.id,
                             parent=t.parent and "u" + t.parent) for t in dialogue(3)])  # fmt: skip
    with Journal(tmp_path / "gateway") as journal:
        journal.forget("", "s")
    _, store = run(tmp_path, FakeFleet(), ByWord())
    assert store.ids() == {"chat:ut0", "chat:ut1"}


def test_episodes_and_turns_find_each_other() -> None:
    assert records.turn_id(records.episode_id("chatcmpl-1")) == "chatcmpl-1"
