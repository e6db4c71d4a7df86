"""ReAct's text form: one action a reply, made-up observations are cut, faults have names."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.react import ReactAgent, read_react
from agents.toolcall import ReplyFailure, ToolCallParseError
from envs.toolcall.action import Action, parse_action
from envs.toolcall.env import ToolCallEnv
from tests.agents.test_toolcall import first, reply

CALL = 'Thought: t\nAction: ring\nAction Input: {"times": 3}'


def arguments(text: str) -> object:
    action = parse_action(ReactAgent().parse(reply(text)))
    assert isinstance(action, Action)
    (call,) = action.calls
    return json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments


@pytest.mark.parametrize(
    "text",
    [
        CALL, CALL.lower(), f"{CALL}\nObservation: done\nThought: fine\nSay: rung",
        'Action: `ring`\nAction Input:\n```json\n{"times": 3}\n```', CALL.replace("t\n", "t\n\n"),
    ],
)  # fmt: skip
def test_one_call_is_read_and_what_follows_is_cut(text: str) -> None:
    """Bug prevented: a model that makes up the tool's answer is taken at its word."""
    assert arguments(text) == {"times": 3}


@pytest.mark.parametrize("text", ["Say: It is noon.", "Thought: x\nFinal Answer: It is noon."])
def test_words_are_for_the_user(text: str) -> None:
    assert read_react(text) == Action("It is noon.")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", ReplyFailure.EMPTY), ("I shall ring.", ReplyFailure.NO_ACTION),
        ("Action: ring", ReplyFailure.MALFORMED_CALL),
        (f"{CALL}\n{CALL}", ReplyFailure.MALFORMED_CALL),
        (f"{CALL}\nSay: done", ReplyFailure.MALFORMED_CALL),
        ("Action:\nAction Input: {}", ReplyFailure.MALFORMED_CALL),
    ],
)  # fmt: skip
def test_what_holds_no_action_is_named(text: str, kind: ReplyFailure) -> None:
    with pytest.raises(ToolCallParseError) as caught:
        read_react(text)
    assert caught.value.kind is kind


def test_a_reply_that_was_cut_off_counts_only_up_to_its_call() -> None:
    with pytest.raises(ToolCallParseError, match="cut off"):
        ReactAgent().parse(reply(CALL, "length"))
    assert ReactAgent().parse(reply(f"{CALL}\nObservation: and so", "length"))


def test_a_broken_input_is_named_by_the_environment() -> None:
    task = first("simple")
    env = ToolCallEnv([task])
    env.reset()
    name = task.data["expected"][0]["name"]
    action = ReactAgent().parse(reply(f"Action: {name}\nAction Input: {{times: 3}}"))
    *_, info = env.step(action)
    assert info["failures"] == ["not_json"]


def test_the_oracle_plays_through_it() -> None:
    task = first("simple")
    env, agent = ToolCallEnv([task]), ReactAgent()
    seen, _ = env.reset()
    assert "Action Input" in str(agent.begin(task, seen)[0]["content"])
    reward = 0.0
    for row in task.data["oracle"]:
        for call in row.get("tool_calls", ()):
            text = f"Action: {call['name']}\nAction Input: {json.dumps(call['arguments'])}"
            seen, reward, *_ = env.step(agent.parse(reply(text)))
            assert str(agent.observe(seen)["content"]).startswith("Observation: ")
        if row.get("content"):
            _, reward, *_ = env.step(agent.parse(reply(f"Say: {row['content']}")))
    assert reward == 1.0


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=120) | st.text(alphabet="ActionInputSay: {}\n", max_size=80))
def test_any_text_is_an_action_or_a_named_failure(text: str) -> None:
    try:
        read_react(text)
    except ToolCallParseError as error:
        assert error.kind in ReplyFailure
