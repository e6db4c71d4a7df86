"""Feedback, rules and their order: what counts as evidence, and what must not."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from rl.errors import ConfigError, JudgeUnavailable
from rl.judge.feedback import from_feedback
from rl.judge.pipeline import Pipeline, build
from rl.judge.rules import from_rules, repeated_unit
from rl.judge.settings import JudgeConfig
from rl.judge.types import Exchange, Judgement, Relation
from serving.turns import Feedback

USER = {"role": "user", "content": "How many files are there?"}
REPLY = {"role": "assistant", "content": "There are three."}
NEXT = ({"role": "user", "content": "and folders?"},)
PLAIN = Exchange("t", history=(USER,), reply=REPLY, next_state=NEXT)


def call(name: str = "run", arguments: str = '{"command": "ls"}', call_id: str = "c1") -> Any:
    function = {"name": name, "arguments": arguments}
    calls = [{"id": call_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def result(content: Any, call_id: str = "c1", **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **fields}


def judged(exchange: Exchange) -> Judgement | None:
    return asyncio.run(from_rules(exchange))


def after(*results: dict[str, Any], reply: Any = None) -> Exchange:
    return Exchange("t", history=(USER,), reply=reply or call(), next_state=results)


def test_the_last_of_contradicting_feedback_counts() -> None:
    up, down = Feedback("t", rating=1), Feedback("t", rating=-1)
    for order, score in (((up, down), -1), ((down, up), 1)):
        found = asyncio.run(from_feedback(replace(PLAIN, feedback=order)))
        assert found is not None and found.score == score


def test_a_correction_is_bad_and_gives_the_hint_but_a_thumb_decides() -> None:
    asked = Feedback("t", correction="say it in one word")
    found = asyncio.run(from_feedback(replace(PLAIN, feedback=(asked,))))
    assert found is not None and (found.score, found.hint) == (-1, "say it in one word")
    kept = asyncio.run(from_feedback(replace(PLAIN, feedback=(asked, Feedback("t", rating=-1)))))
    assert kept is not None and kept.hint == "say it in one word"
    praised = asyncio.run(from_feedback(replace(PLAIN, feedback=(asked, Feedback("t", rating=1)))))
    assert praised is not None and (praised.score, praised.hint) == (1, "")


def test_an_edit_is_bad_unless_it_changes_nothing_and_a_comment_says_nothing() -> None:
    for item, score in (
        (Feedback("t", edit="Three files."), -1),
        (Feedback("t", edit="There are three."), 1),
        (Feedback("t", comment="hm"), None),
    ):
        found = asyncio.run(from_feedback(replace(PLAIN, feedback=(item,))))
        assert (found.score if found else None) == score


def test_feedback_overrides_a_failed_tool() -> None:
    exchange = after(result('{"exit_code": 2}'))
    pipeline = build(JudgeConfig(model="rules"))
    assert asyncio.run(pipeline(exchange)).score == -1
    liked = replace(exchange, feedback=(Feedback("t", rating=1),))
    assert asyncio.run(pipeline(liked)).source == "feedback"


@pytest.mark.parametrize(
    "failed",
    [
        result('{"exit_code": 127, "output": "sh: foo: not found"}'),
        result('{"stdout": "", "returncode": 1}'),
        result('{"error": "no such city"}'),
        result('{"jsonrpc": "2.0", "error": {"code": -32602, "message": "Invalid params"}}'),
        result('{"content": [{"type": "text", "text": "boom"}], "isError": true}'),
        result("boom", is_error=True),
        result([{"type": "text", "text": "boom", "is_error": True}]),
        result("ls: cannot access 'x'\n[exit code 2]"),
        result("<returncode>1</returncode>\n<output>\n</output>"),
    ],
)
def test_a_stated_failure_is_bad(failed: dict[str, Any]) -> None:
    found = judged(after(failed))
    assert found is not None and (found.score, found.source) == (-1, "rule")


@pytest.mark.parametrize(
    "fine",
    [
        "ERROR 14:02 disk full\nINFO 14:03 ok",  # a log that was asked for
        '{"error": null, "rows": 3}',
        '{"error": 0.031, "slope": 2.0}',  # a measured error
        '{"error": "", "exit_code": 0}',
        '{"ok": true, "error": "deprecated"}',
        "the docs say: exit code 1 means no match",
        '{"isError": false, "content": []}',
        "42",
    ],
)
def test_the_word_error_alone_is_no_failure(fine: str) -> None:
    assert judged(after(result(fine))) is None


def test_one_failed_of_parallel_calls_is_found_and_named() -> None:
    reply = call("look", call_id="a")
    reply["tool_calls"] += call("book", call_id="b")["tool_calls"]
    good, bad = result('{"found": 1}', "a"), result('{"error": "full"}', "b")
    found = judged(after(bad, good, reply=reply))
    assert found is not None and found.reason == "book failed: error: full"


def test_programs_that_answer_by_their_exit_code_did_not_fail() -> None:
    grep = call(arguments='{"command": "cat log | grep -c panic"}')
    assert judged(after(result('{"exit_code": 1, "stdout": "0"}'), reply=grep)) is None
    assert judged(after(result('{"exit_code": 2, "stdout": ""}'), reply=grep)) is not None
    said = result('{"exit_code": 1, "stdout": "", "stderr": "grep: bad option"}')
    assert judged(after(said, reply=grep)) is not None


def test_a_failed_call_repeated_at_once_is_bad_and_a_repeat_for_a_reason_is_not() -> None:
    failed = (USER, call(), result('{"exit_code": 1}'))
    other_spacing = call(arguments='{"command":"ls"}')
    done = (result('{"exit_code": 0}'),)
    repeated = judged(Exchange("t", history=failed, reply=other_spacing, next_state=done))
    assert repeated is not None and "again" in repeated.reason
    asked = (*failed, {"role": "assistant", "content": "It failed."}, USER)
    assert judged(Exchange("t", history=asked, reply=call(), next_state=done)) is None
    worked = (USER, call(), result('{"exit_code": 0}'))
    assert judged(Exchange("t", history=worked, reply=call(), next_state=done)) is None


def test_calls_are_held_to_the_schemas_offered() -> None:
    schema = {"type": "object", "properties": {"command": {}}, "required": ["command"],
              "additionalProperties": False}  # fmt: skip
    tools = ({"type": "function", "function": {"name": "run", "parameters": schema}},)
    for reply, said in (
        (call(arguments="{ls}"), "no JSON object"),
        (call(arguments="{}"), "lacks command"),
        (call(arguments='{"command": "ls", "cwd": "/"}'), "takes no cwd"),
        (call("walk"), "no tool 'walk'"),
    ):
        found = judged(replace(after(result("ok"), reply=reply), tools=tools))
        assert found is not None and found.score == -1 and said in found.reason
    assert judged(replace(after(result("ok")), tools=tools)) is None


def test_empty_cut_and_endless_replies() -> None:
    empty = judged(replace(PLAIN, reply={"role": "assistant", "content": " \n"}))
    assert empty is not None and empty.score == -1
    cut = judged(replace(PLAIN, finish_reason="length"))
    assert cut is not None and cut.score == 0
    later = asyncio.run(from_rules(replace(PLAIN, finish_reason="length"), judge_cut=True))
    assert later == judged(PLAIN)  # where cut replies are trained on, what follows judges them
    endless = {"role": "assistant", "content": "I see. " + "The file is large. " * 20}
    found = judged(replace(PLAIN, reply=endless, finish_reason="length"))
    assert found is not None and found.score == -1


def test_repetition_that_was_asked_for_or_has_a_form_is_fine() -> None:
    lines = {"role": "user", "content": "Write 'I will be good.' fifty times."}
    reply = {"role": "assistant", "content": "I will be good. " * 50}
    assert judged(replace(PLAIN, history=(lines,), reply=reply)) is None
    for text in ("| --- " * 60 + "|", "0, " * 200, "-" * 300, "ha " * 20, "text. " + "=" * 200):
        assert repeated_unit(text) == ""
    assert repeated_unit("好的我知道了。" * 30)


def test_what_happened_afterwards() -> None:
    for relation, score in ((Relation.RETRIED, -1), (Relation.EDITED, 0), (Relation.IDLE, 0)):
        found = judged(replace(PLAIN, next_state=(), relation=relation))
        assert found is not None and found.score == score
    rated = replace(PLAIN, relation=Relation.EDITED, feedback=(Feedback("t", rating=-1),))
    assert asyncio.run(build(JudgeConfig(model="rules"))(rated)).score == -1


def test_an_outage_is_raised_and_never_a_score() -> None:
    async def gone(exchange: Exchange) -> Judgement | None:
        raise JudgeUnavailable("no answer")

    with pytest.raises(JudgeUnavailable):
        asyncio.run(Pipeline((from_rules, gone))(PLAIN))
    assert asyncio.run(Pipeline((from_rules,))(PLAIN)).score == 0


def test_an_unknown_judge_is_refused_with_the_legal_names() -> None:
    with pytest.raises(ConfigError, match="default, rules, policy or a base URL"):
        build(JudgeConfig(model="gpt"))
    with pytest.raises(ConfigError, match="no policy server"):
        build(JudgeConfig(model="policy"))
