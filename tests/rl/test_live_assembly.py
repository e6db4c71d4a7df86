"""What ends the waiting of a reply: the talk goes on, a retry, an edit, feedback, silence."""

from dataclasses import replace

import pytest

from rl.judge.types import Relation
from rl.live.assembly import Assembly
from serving.turns import Feedback
from tests.rl.talk import said, turn


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
