"""Live chat over a real journal and a fleet of fakes: next states, judging, exactly once."""

import asyncio
from array import array
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
from rl.judge.types import Exchange, Judgement, Relation
from rl.live import records, service
from rl.live.assembly import Assembly
from rl.live.loop import LiveLoop, Waiting
from rl.live.teacher import Teacher
from rl.metrics import Metrics
from rl.settings import RunConfig
from rl.store import Store
from rl.types import Hint, TurnSignal
from serving.journal import Journal
from serving.renderer import PLAIN, Context, Drift, Prompt
from serving.turns import Feedback, Turn
from tests.rl.fleets import FakeFleet


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def turn(name: str, text: str = "hi", parent: str | None = None, **changes: Any) -> Turn:
    made = Turn(
        id=name,
        session=changes.pop("session", "s"),
        num_before=1,
        prompt_ids_P=array("i", [1, 2, 3]),
        token_ids_T=array("i", [4, 5]),
        logprobs_T=array("d", [-0.5, -0.6]),
        versions_T=array("i", [0, 0]),
        text=f"reply of {name}",
        parent=parent,
        messages=(said(text),),
        node=name,
        created=changes.pop("created", 1000.0),
    )
    return replace(made, **changes)


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def assembly(clock: Clock) -> Assembly:
    return Assembly(idle_s=60.0, grace_s=5.0, now=clock)


def test_a_reply_waits_for_what_comes_next(assembly: Assembly) -> None:
    assembly.turn(turn("a"))
    assert assembly.due() == []
    assembly.turn(turn("b", "thanks", parent="a"))
    (exchange,) = assembly.due()
    assert exchange.id == "a" and exchange.relation == Relation.CONTINUED
    assert exchange.next_state == (said("thanks"),)
    assert exchange.history == (said("hi"),)
    assert assembly.due() == [] and assembly.num_waiting == 1


def test_history_is_the_whole_conversation(assembly: Assembly) -> None:
    assembly.turn(turn("a"))
    assembly.turn(turn("b", "more", parent="a"))
    assembly.turn(turn("c", "even more", parent="b"))
    exchange = assembly.due()[1]
    assert [m["content"] for m in exchange.history] == ["hi", "reply of a", "more"]


def test_all_results_of_parallel_calls_are_the_next_state(assembly: Assembly) -> None:
    results = ({"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}, said("and?"))
    assembly.turn(turn("a"))
    assembly.turn(replace(turn("b", parent="a"), messages=results))
    assert assembly.due()[0].next_state == results


def test_the_same_request_again_is_a_retry_and_another_one_an_edit(assembly: Assembly) -> None:
    assembly.turn(turn("a"))
    assembly.turn(turn("b"))
    assembly.turn(turn("c", "hello"))
    retried, edited = assembly.due()
    assert (retried.id, retried.relation) == ("a", Relation.RETRIED)
    assert (edited.id, edited.relation) == ("b", Relation.EDITED)
    assert edited.next_state == (said("hello"),)


def test_the_same_request_much_later_is_no_retry(assembly: Assembly) -> None:
    """A program that asks the same every hour, in one named session."""
    assembly.turn(turn("a"))
    assembly.turn(turn("b", created=1000.0 + 3600))
    (exchange,) = assembly.due()
    assert (exchange.id, exchange.relation) == ("a", Relation.IDLE)


def test_choices_of_one_request_are_no_retries(assembly: Assembly) -> None:
    assembly.turn(turn("a"))
    assembly.turn(turn("a#1"))
    assert assembly.due() == []


def test_other_sessions_and_owners_have_nothing_to_do_with_it(assembly: Assembly) -> None:
    assembly.turn(turn("a"))
    assembly.turn(turn("b", session="t"))
    assembly.turn(turn("c", owner="ada"))
    assert assembly.due() == []


def test_side_turns_say_nothing(assembly: Assembly) -> None:
    assembly.turn(turn("a"))
    assembly.turn(turn("t", "Generate a title", parent="a", kind="side", unfit=("side request",)))
    assert assembly.due() == []
    assert assembly.skipped == {"side": 1}


def test_unfit_turns_settle_the_one_before_them_but_are_not_judged(
    assembly: Assembly, clock: Clock
) -> None:
    assembly.turn(turn("a"))
    assembly.turn(turn("b", "go on", parent="a", unfit=("top_p below 1",)))
    assert [e.id for e in assembly.due()] == ["a"]
    clock.at += 1000
    assert assembly.due() == []
    assert assembly.skipped == {"top_p below 1": 1}


def test_silence_ends_the_waiting(assembly: Assembly, clock: Clock) -> None:
    assembly.turn(turn("a"))
    clock.at += 59
    assert assembly.due() == []
    clock.at += 1
    (exchange,) = assembly.due()
    assert exchange.relation == Relation.IDLE and exchange.next_state == ()


def test_silence_counts_only_while_somebody_listened(clock: Clock) -> None:
    """The run was stopped over night: that is not the user's silence."""
    clock.at = 50_000.0
    assembly = Assembly(idle_s=60.0, grace_s=5.0, now=clock)
    assembly.turn(turn("a", created=1000.0))
    assert assembly.due() == []
    clock.at += 60
    assert [e.id for e in assembly.due()] == ["a"]


def test_feedback_waits_a_moment_for_more_of_it(assembly: Assembly, clock: Clock) -> None:
    assembly.turn(turn("a"))
    assert assembly.feedback(Feedback("a", rating=-1, created=clock.at))
    clock.at += 4
    assembly.feedback(Feedback("a", correction="in French", created=clock.at))
    clock.at += 4
    assert assembly.due() == []
    clock.at += 1
    (exchange,) = assembly.due()
    assert [f.correction for f in exchange.feedback] == [None, "in French"]
    assert not assembly.feedback(Feedback("a", rating=1))


def test_what_is_removed_is_gone(assembly: Assembly, clock: Clock) -> None:
    assembly.turn(turn("a"))
    assembly.turn(turn("b", "go on", parent="a"))
    assembly.remove("a")
    clock.at += 100
    (exchange,) = assembly.due()
    assert exchange.id == "b" and exchange.history == (said("go on"),)
    assert assembly.exchange("a") is None


def test_private_words_are_nobodys_next_state_and_end_the_judging(
    assembly: Assembly, clock: Clock
) -> None:
    assembly.turn(turn("a"))
    assembly.turn(turn("b", "/private my locker is 5", parent="a", unfit=("private",)))
    assembly.turn(turn("c", "and now?", parent="b"))
    clock.at += 1000
    (exchange,) = assembly.due()
    assert (exchange.id, exchange.relation, exchange.next_state) == ("a", Relation.IDLE, ())
    assert assembly.skipped == {"private": 2}


def test_a_heartbeat_in_the_conversation_does_not_hide_what_came_next(assembly: Assembly) -> None:
    assembly.turn(turn("a"))
    assembly.turn(turn("h", "HEARTBEAT", parent="a", kind="side", unfit=("side request",)))
    assembly.turn(turn("b", "thanks", parent="h"))
    (exchange,) = assembly.due()
    assert exchange.id == "a" and exchange.next_state == (said("thanks"),)


def test_what_is_known_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl.live.assembly.MOST_TURNS", 50)
    assembly = Assembly(idle_s=60.0, grace_s=5.0, now=clock)
    for number in range(3000):
        assembly.turn(turn(f"t{number}"), judged=True)
    assert len(assembly._turns) <= 1050 and len(assembly._siblings) <= 1050


# ------------------------------------------------------------- the loop


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
    teacher = Teacher(fleet.score, Words(), 4096)
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


def test_neutral_turns_take_no_place_but_go_with_the_batch(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        loop = live(tmp_path, FakeFleet(), store, ByWord(), config())
        for name, score in (("a", 0), ("b", 1), ("c", 0), ("d", -1), ("e", 1)):
            loop._waiting[f"chat:{name}"] = Waiting(TurnSignal(f"chat:{name}", 0, score), 0.0)
        assert loop.due(1.0) == ["chat:b", "chat:d", "chat:a", "chat:c"]
        del loop._waiting["chat:b"], loop._waiting["chat:d"], loop._waiting["chat:e"]
        assert loop.due(1e9) == []


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
        while not loop._waiting:
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
    assert loop._waiting["chat:t0"].signal.score == -1


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
            while not loop._waiting:
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
        teacher = Teacher(FakeFleet().score, Words(reproduces=False), 4096)
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


@pytest.mark.parametrize("method", ["grpo", "opd_topk", "stepwise", "sft"])
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
