"""Recorded turns: found, forgotten, kept on disk, rated."""

import json
import stat
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.fitness import FitnessLog, kind_of
from serving.journal import Journal
from serving.sessions import SessionStore, Trail
from serving.turns import Feedback, Turn
from serving.types import Message

ASKED = [{"role": "user", "content": "x"}]


def turn(
    name: str | None,
    text: str,
    *,
    number: int = 2,
    owner: str = "",
    session: str = "s",
    turn_id: str = "",
    asked: Sequence[Message] = ASKED,
    parent: str | None = None,
) -> Turn:
    reply = {"role": "assistant", "content": text}
    return Turn(
        id=turn_id or f"{name}-{text}-{number}-{owner}",
        session=name or session,
        owner=owner,
        num_before=len(asked),
        prompt_ids_P=array("i", [1]),
        token_ids_T=array("i", [number]),
        logprobs_T=array("d", [-0.5]),
        versions_T=array("i", [0]),
        text=text,
        parent=parent,
        messages=tuple(asked),
        node=Trail(asked).node(owner, name, reply),
    )


def said(text: str) -> list[Message]:
    return [*ASKED, {"role": "assistant", "content": text}]


def test_the_least_recently_used_turn_is_forgotten() -> None:
    store = SessionStore(max_turns=2)
    for text in ("a", "b"):
        store.record(turn("s", text))
    assert store.find("", "s", Trail(said("a"))) is not None
    store.record(turn("s", "c"))
    assert store.find("", "s", Trail(said("b"))) is None
    assert store.find("", "s", Trail(said("a"))) is not None
    assert (
        store.find("", "other", Trail(said("a"))) is None
        and store.find("", None, Trail(said("a"))) is None
    )
    assert store.find("Ann", "s", Trail(said("a"))) is None


def test_sessions_are_forgotten_with_their_turns() -> None:
    """Bug prevented: the names of all sessions ever seen kept for ever."""
    store = SessionStore(max_turns=2)
    for at, name in enumerate(("a", "b", "b", "c")):
        store.record(turn(name, "y", number=at))
    assert [store.knows("", name) for name in "abc"] == [False, True, True]
    assert len(store) == 2 and {row.id for row in store.summaries("")} == {"b", "c"}


def test_an_inferred_turn_is_never_replaced() -> None:
    """Bug prevented: the tokens of one conversation put into another with equal text."""
    store = SessionStore()
    for number, session in enumerate(("first", "second")):
        store.record(turn(None, "y", number=number, session=session))
        store.record(turn("named", "y", number=number))
    inferred, named = (
        store.find("", None, Trail(said("y"))),
        store.find("", "named", Trail(said("y"))),
    )
    assert inferred is not None and (inferred.session, list(inferred.token_ids_T)) == ("first", [0])
    assert named is not None and list(named.token_ids_T) == [1]
    assert store.num_collisions == 1


def test_a_reply_is_found_in_whatever_shape_a_client_sends_it_back() -> None:
    """Bug prevented: other call ids, arguments written anew or a null content start a new
    session, and what was sampled is tokenised again."""
    store = SessionStore()
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    reply = {"role": "assistant", "content": " Look: ", "tool_calls": [call]}
    recorded = turn("s", " Look: ")
    recorded = Turn(
        **{**recorded.__dict__, "tool_calls": (call,), "node": Trail(ASKED).node("", "s", reply)}
    )
    store.record(recorded)
    other = {**call, "id": "toolu_9", "function": {"name": "f", "arguments": '{ "x":1 }'}}
    same: Message = {"role": "assistant", "content": "Look:", "tool_calls": [other]}
    assert store.find("", "s", Trail([*ASKED, same])) is not None
    changed = {**call, "function": {"name": "f", "arguments": '{"x": 2}'}}
    assert store.find("", "s", Trail([*ASKED, {**same, "tool_calls": [changed]}])) is None
    assert store.find("", "s", Trail([*ASKED, {**same, "tool_calls": []}])) is None


def test_a_retry_belongs_to_the_session_it_repeats() -> None:
    """Bug prevented: each retry, and each reply its client drops, starts a session of its own."""
    store = SessionStore(max_turns=2)
    store.record(turn(None, "unusable", session="first"), Trail(ASKED))
    again: list[Message] = [*ASKED, {"role": "user", "content": "That was no call."}]
    assert store.related("", Trail(ASKED)) == store.related("", Trail(again)) == "first"
    assert store.related("Ann", Trail(ASKED)) is None
    assert store.related("", Trail([{"role": "user", "content": "another"}])) is None
    old = turn(None, "old", session="old", asked=again)
    store.record(Turn(**{**old.__dict__, "created": 0.0}), Trail(again))
    assert store.related("", Trail(again)) is None
    store.record(turn("s", "x"))
    assert (
        store.related("", Trail(ASKED)) is None and not store._asked_by.keys() - store._turns.keys()
    )


def test_a_conversation_is_the_path_to_its_root() -> None:
    store = SessionStore()
    store.record(turn("s", "a", turn_id="1"))
    longer = [*said("a"), {"role": "user", "content": "more"}]
    late = turn("s", "b", turn_id="2", asked=longer, parent="1")
    store.record(Turn(**{**late.__dict__, "messages": (longer[-1],)}))
    assert store.conversation("", "2") == [*longer, {"role": "assistant", "content": "b"}]
    assert store.conversation("Ann", "2") is None and store.conversation("", "3") is None


def test_turns_and_feedback_outlive_the_process(tmp_path: Path) -> None:
    """Bug prevented: after a restart nothing is continued exactly and no old reply can be rated."""
    folder = tmp_path / "kept"
    with Journal(folder) as journal:
        store = SessionStore(sinks=[journal])
        kept = {f"t{at}": turn("s", f"t{at}") for at in range(5)}
        for one in kept.values():
            store.record(one)
        store.record(turn("s", "Ann's", owner="Ann"))
        store.give("", Feedback(turn("s", "t3").id, rating=-1, correction="shorter"))
        assert store.give("", Feedback(turn("s", "Ann's", owner="Ann").id, rating=1)) is None
        store.record(turn("gone", "secret", turn_id="gone"))
        assert store.forget("", "gone") == 1
    assert stat.S_IMODE((folder / "turns.db").stat().st_mode) == 0o600
    assert b"secret" not in (folder / "turns.db").read_bytes()
    with Journal(folder) as journal:
        again = SessionStore()
        for one, said_of_it in journal.read():
            again.restore(one, said_of_it)
    found = again.find("", "s", Trail(said("t3")))
    assert found == kept["t3"]
    rated = [feedback for one, feedback in again.turns("", "s") if one.text == "t3"]
    assert [one.correction for one in rated[0]] == ["shorter"]
    assert again.turns("", "gone") == [] and len(again.turns("Ann", "s")) == 1


def test_a_damaged_line_costs_that_turn_alone(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.turn(turn("s", "a"))
        journal.turn(turn("s", "b"))
        journal.flush()
        with journal._database:
            journal._database.execute("UPDATE turns SET body = '{' WHERE id LIKE 's-a%'")
        assert [kept.text for kept, _ in journal.read()] == ["b"]


@given(st.lists(st.text(), max_size=4), st.lists(st.floats(allow_nan=False), max_size=4))
def test_a_turn_survives_json(texts: list[str], numbers: list[float]) -> None:
    """Bug prevented: log-probs rounded, or a lone surrogate that no file can hold."""
    asked = [{"role": "user", "content": text} for text in texts]
    kept = turn("s", "".join(texts), asked=asked)
    kept = Turn(**{**kept.__dict__, "logprobs_T": array("d", numbers)})
    again = Turn.from_json(json.loads(kept.line()))
    assert again == Turn(**{**kept.__dict__, "messages": again.messages})
    assert [dict(message) for message in again.messages] == asked


@pytest.mark.parametrize(
    ("messages", "kind"),
    [
        ([("user", "Please name a good title for my novel")], "main"),
        ([("user", "Summarize this article: ...")], "main"),
        ([("user", "Generate a concise title for this conversation")], "side"),
        ([("system", "Generate a short title for the chat."), ("user", "User: hi")], "side"),
        ([("user", "hi"), ("assistant", "yo"), ("user", "Summarise the conversation")], "side"),
        ([("user", "Read HEARTBEAT.md if it exists")], "side"),
        ([("user", "hi"), ("assistant", "Generate a title for this chat"), ("user", "no")], "main"),
    ],
)
def test_side_requests_are_told_by_what_they_say(
    messages: list[tuple[str, str]], kind: str
) -> None:
    said = [{"role": role, "content": text} for role, text in messages]
    assert kind_of(said)[0] == kind


def test_a_row_of_unfit_turns_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    """Bug prevented: nothing is ever trained and nothing says so."""
    log = FitnessLog(warn_after=3)
    for _ in range(5):
        log.add(["greedy (temperature 0)"])
    assert len(caplog.records) == 1 and "greedy (temperature 0) (3)" in caplog.text
    log.add([])
    for _ in range(3):
        log.add(["side request"])
    assert len(log.warnings) == 2 and "greedy" not in log.warnings[1]
    assert log.num_trainable == 1 and log.counts["greedy (temperature 0)"] == 5
