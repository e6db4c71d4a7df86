"""The agent of tool calling: its prompt, its parser, and whole episodes with it."""

import asyncio
import json
import pickle
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import registry
from agents.episode import Assignment, play
from agents.toolcall import FORMATS, ReplyFailure, ToolCallAgent, ToolCallParseError, read_reply
from agents.types import Episode, StopReason
from envs.toolcall.action import Action, Call, parse_action
from envs.toolcall.env import ToolCallEnv
from envs.toolcall.tasks import load_tasks
from envs.types import Task
from serving.formats import table
from serving.formats.pieces import ToolCall
from serving.types import Generation, Reply, Sampling
from tests.agents.worlds import TalkingPolicy

TASKS = load_tasks()
CALL = Call("ring", {"times": 3})


def first(family: str) -> Task:
    return next(task for task in TASKS if task.family == family)


def reply(text: str, finish: str = "stop") -> Reply:
    generation = Generation((1, 2), (0.0, 0.0), (0, 0), finish)  # type: ignore[arg-type]
    return Reply("r", text, (), generation)


def run(task: Task, policy: TalkingPolicy, agent: ToolCallAgent | None = None) -> Episode:
    assignment = Assignment("e1", "g1", task, Sampling(seed=1), seed=4)
    return asyncio.run(play(ToolCallEnv([task]), agent or ToolCallAgent(), policy, assignment))


def test_the_registry_gives_it_to_tool_calling() -> None:
    assert registry.make("toolcall") == ToolCallAgent()


def test_a_format_that_is_none_is_refused_with_the_legal_ones() -> None:
    with pytest.raises(ValueError, match="choose one of json, hermes"):
        ToolCallAgent("qwen_xml")


def test_the_prompt_lists_every_tool_on_a_line() -> None:
    env = ToolCallEnv(TASKS)
    task = first("nested")
    observation, _ = env.reset(options={"task": task})
    system, user = ToolCallAgent().begin(task, observation)
    for row in task.data["tools"]:
        assert f"\n{row['function']['name']}(" in str(system["content"])
    assert user == {"role": "user", "content": task.instruction}


@pytest.mark.parametrize(
    "text",
    [
        '{"tool_calls": [{"name": "ring", "arguments": {"times": 3}}]}',
        '{"content": "", "tool_calls": [{"name": "ring", "arguments": {"times": 3}}]}',
        '{"role": "assistant", "tool_calls": [{"name": "ring", "arguments": {"times": 3}}]}',
        '{"name": "ring", "arguments": {"times": 3}}',
        '{"name": "ring", "parameters": {"times": 3}}',
        '[{"name": "ring", "arguments": {"times": 3}}]',
        '```json\n{"name": "ring", "arguments": {"times": 3}}\n```',
        '<think>\nHm {"a".\n</think>\n{"name": "ring", "arguments": {"times": 3}}',
        '<tool_call>{"name": "ring", "arguments": {"times": 3}}</tool_call>',
        '<tool_call>\n{"name": "ring", "arguments": {"times": 3}}',
        '{"tool_calls": [{"function": {"name": "ring", "arguments": {"times": 3}}}]}',
    ],
)
def test_the_usual_shapes_of_a_call_are_read(text: str) -> None:
    assert read_reply(text) == Action(calls=(CALL,))


def test_words_are_for_the_user_and_may_stand_before_a_call() -> None:
    assert read_reply(" Which day? ") == Action("Which day?")
    assert read_reply("It costs {5}.") == Action("It costs {5}.")
    assert read_reply('One moment.\n{"name": "ring", "arguments": {"times": 3}}') == Action(
        "One moment.", (CALL,)
    )


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("", ReplyFailure.EMPTY, "empty"),
        ("<think>hm</think>  ", ReplyFailure.EMPTY, "empty"),
        ('{"name": "ring", "arguments": {"times": 3}', ReplyFailure.NOT_JSON, "not JSON"),
        ('{"name": "ring"} and more', ReplyFailure.NOT_JSON, "Extra data"),
        ('{"content": "a", "content": "b"}', ReplyFailure.NOT_JSON, "twice"),
        ('{"name": "ring", "arguments": {"times": NaN}}', ReplyFailure.NOT_JSON, "NaN"),
        ("[" * 50_000, ReplyFailure.NOT_JSON, "levels"),
        ('{"content": "' + "x" * 10**6 + '"}', ReplyFailure.NOT_JSON, "bytes"),
        ('{"thought": "hm"}', ReplyFailure.NO_ACTION, "no action"),
        ("[1, 2]", ReplyFailure.NO_ACTION, "no action"),
        ("<tool_call>ring</tool_call>", ReplyFailure.MALFORMED_CALL, "cannot be read"),
    ],
)
def test_what_holds_no_action_is_named(text: str, kind: ReplyFailure, words: str) -> None:
    with pytest.raises(ToolCallParseError, match=words) as caught:
        read_reply(text)
    assert caught.value.kind is kind
    assert pickle.loads(pickle.dumps(caught.value)).kind is kind


def test_a_reply_that_was_cut_off_is_named() -> None:
    with pytest.raises(ToolCallParseError, match="2 tokens") as caught:
        ToolCallAgent().parse(reply('{"content": "Hel', "length"))
    assert caught.value.kind is ReplyFailure.CUT_OFF


@given(st.text() | st.text(alphabet='{}[]":,<tool_cal>/nameargumnts\n `'))
@settings(max_examples=400, deadline=None)
def test_any_text_is_an_action_or_a_named_failure(text: str) -> None:
    for name in FORMATS:
        try:
            action = ToolCallAgent(name).parse(reply(text))
        except ToolCallParseError as error:
            assert error.kind in ReplyFailure and str(error)
        else:
            read = parse_action(action)
            assert isinstance(read, Action) or "surrogate" in read.message


names = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
values = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
calls = st.lists(
    st.builds(Call, names, st.dictionaries(names, values, max_size=3)), min_size=1, max_size=3
)


@given(calls.map(lambda made: Action(calls=tuple(made))))
@settings(deadline=None)
def test_what_the_environment_writes_the_agent_reads(action: Action) -> None:
    """The oracle's actions are demonstrations: a model is trained to say them word by word."""
    assert read_reply(action.to_text()) == action


@pytest.mark.parametrize("name", FORMATS[1:])
@given(calls)
@settings(deadline=None)
def test_calls_are_read_as_each_family_writes_them(name: str, made: list[Call]) -> None:
    written = table.find(name).written_calls(
        [ToolCall(each.name, json.dumps(each.arguments)) for each in made]
    )
    read = parse_action(ToolCallAgent(name).parse(reply(written)))
    assert isinstance(read, Action)
    assert read.calls == tuple(made)


def test_results_and_the_users_words_are_told_apart() -> None:
    """Bug prevented: an order in a tool's result looks as if the user had given it."""
    agent = ToolCallAgent()
    seen = {"output": '{"tool": "x", "result": 1}', "message": "", "left": 0}
    assert agent.observe(seen)["content"] == 'Tool results:\n{"tool": "x", "result": 1}'
    assert agent.observe({**seen, "output": "", "message": "Hi"})["content"] == "Hi"
    assert agent.observe({**seen, "output": ""})["content"] == "[no answer]"


@pytest.mark.parametrize("family", sorted({task.family for task in TASKS}))
def test_an_oracle_episode_is_solved(family: str) -> None:
    task = first(family)
    episode = run(task, TalkingPolicy(list(ToolCallEnv([task]).oracle(task))))
    assert (episode.stop_reason, episode.reward) == (StopReason.SOLVED, 1.0), episode


def test_a_native_episode_is_solved() -> None:
    task = first("sequential")
    replies = []
    for row in task.data["oracle"]:
        made = [ToolCall(c["name"], json.dumps(c["arguments"])) for c in row["tool_calls"]]
        replies.append(row["content"] + table.find("hermes").written_calls(made))
    episode = run(task, TalkingPolicy(replies), ToolCallAgent("hermes"))
    assert episode.reward == 1.0


def test_replies_without_an_action_end_the_episode_without_reward() -> None:
    episode = run(first("simple"), TalkingPolicy(['{"name": ']))
    assert (episode.stop_reason, episode.reward) == (StopReason.PARSE_ERROR, 0.0)
    assert "cannot be read" in episode.turns[0].parse_error


def test_importing_the_agents_loads_neither_torch_nor_transformers() -> None:
    code = (
        "import sys, agents.registry; print([m for m in ('torch', 'transformers', 'ray') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
