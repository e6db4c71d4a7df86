"""Task sets of others: what is supported is played and fair, what is not is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from envs.errors import TaskError
from envs.tasks.loading import load
from envs.tasks.validation import validate_task
from envs.toolcall.env import ToolCallEnv
from envs.toolcall.formats.__main__ import main
from envs.toolcall.formats.messages import load_messages, task_of
from envs.toolcall.formats.tau2 import task_of as tau2_task
from envs.toolcall.worlds.airline.tasks import airline_tasks

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"},
                       "day": {"type": "string"}}, "required": ["city", "day"]},
    },
}  # fmt: skip


def called(arguments: str, ident: str = "c1", name: str = "get_weather") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": None,
            "tool_calls": [{"id": ident, "type": "function", "function": function}]}  # fmt: skip


ROW = {
    "tools": [TOOL],
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the weather in Oslo?"},
        {"role": "assistant", "content": "For which weekday?"},
        {"role": "user", "content": "On Monday."},
        called('{"city": "Oslo", "day": "Monday"}'),
        {"role": "tool", "tool_call_id": "c1", "content": '{"sky": "rain"}'},
        {"role": "assistant", "content": "It rains."},
        {"role": "user", "content": "And in Porto?"},
        called('{"city": "Porto", "day": "Monday"}', "c2"),
        {"role": "tool", "tool_call_id": "c2", "content": "sunny"},
        {"role": "assistant", "content": "Sunny."},
    ],
}


def changed(**fields: Any) -> dict[str, Any]:
    return {**json.loads(json.dumps(ROW)), **fields}


def test_a_conversation_becomes_a_fair_task() -> None:
    task = task_of(ROW, "row 1", "a")
    env = ToolCallEnv([task])
    assert validate_task(env, task).reason == ""
    seen, _ = env.reset(options={"task": task})
    assert seen["message"] == "What is the weather in Oslo?" and seen["policy"] == "Be brief."
    seen, *_ = env.step('{"content": "Which weekday do you mean?"}')
    assert seen["message"] == "On Monday."
    seen, *_ = env.step(
        '{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Oslo", "day": "Monday"}}]}'
    )
    assert json.loads(seen["output"])["result"] == {"sky": "rain"}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (changed(functions=[]), "functions"),
        (changed(messages=ROW["messages"][:4]), "no tool call"),
        (changed(messages=ROW["messages"][:5]), "has no tool message"),
        (changed(messages=[{"role": "function", "content": "x"}]), "role='function'"),
        (changed(messages=[{"role": "user", "content": [{"type": "image_url"}]},
                           *ROW["messages"][4:6]]), "content must be text"),
        (changed(messages=[{"role": "user", "content": "x", "name": "Al"}]), "name"),
        (changed(messages=[*ROW["messages"][:2], called('{"city": NaN}'), *ROW["messages"][5:]]),
         "NaN"),
        (changed(messages=[*ROW["messages"][:2], called('{"a": 1, "a": 2}')]), "twice"),
        (changed(messages=ROW["messages"][4:7]), "no message of the user"),
        (changed(tools=[{"type": "function", "function": {"name": "a b"}}]), "named"),
        (changed(tools=[{"function": {"name": "a", "parameters": {"type": "object",
                 "properties": {"x": {"$ref": "http://x"}}}}}]), "leads elsewhere"),
        (changed(tools="all"), "must be a list"),
        (5, "an object is needed"),
    ],
)  # fmt: skip
def test_rows_that_are_not_supported_are_refused_by_name(row: Any, words: str) -> None:
    with pytest.raises(TaskError, match=words):
        task_of(row, "row 1", "a")


def test_files_are_lists_or_lines(tmp_path: Path) -> None:
    lines, listing = tmp_path / "lines.jsonl", tmp_path / "list.json"
    lines.write_text(f"{json.dumps(ROW)}\n\n{json.dumps(ROW)}\n")
    listing.write_text(json.dumps([ROW, ROW]))
    assert [task.data for task in load_messages(lines)] == [t.data for t in load_messages(listing)]
    lines.write_text(f"{json.dumps({**ROW, 'id': 'x'})}\n{json.dumps({**ROW, 'id': 'x'})}")
    with pytest.raises(TaskError, match="twice"):
        load_messages(lines)
    with pytest.raises(TaskError, match="cannot be read"):
        load_messages(tmp_path / "none.json")


def test_the_command_writes_a_task_set_that_can_be_loaded(tmp_path: Path) -> None:
    source, out = tmp_path / "rows.jsonl", tmp_path / "tasks.jsonl"
    source.write_text(json.dumps(ROW))
    assert main(["messages", str(source), f"out={out}", "split=heldout"]) == 0
    (task,) = load(str(out), split="heldout")
    assert task.family == "messages"


# ------------------------------------------------------------- tau2

BASE = next(task for task in airline_tasks() if task.family == "airline_cancel")
WORLD = {key: BASE.data[key] for key in ("world", "seed", "held")}


def tau2_row(**criteria: Any) -> dict[str, Any]:
    """The airline's own task, written as tau2 writes one."""
    calls = [call for row in BASE.data["oracle"] for call in row["tool_calls"]]
    actions = [{"action_id": f"a{i}", "requestor": "assistant", "name": call["name"],
                "arguments": call["arguments"], "info": None, "compare_args": None}
               for i, call in enumerate(calls)]  # fmt: skip
    instructions = {"task_instructions": "Be polite.", "domain": "airline",
                    "reason_for_call": "I want to cancel a booking.",
                    "known_info": "Your e-mail address is a@mail.example. Your booking is B-4001.",
                    "unknown_info": None}  # fmt: skip
    return {
        "id": "7", "description": {"purpose": "cancel"},
        "user_scenario": {"persona": None, "instructions": instructions},
        "initial_state": None,
        "evaluation_criteria": {"actions": actions, "communicate_info": ["123.50"],
                                "reward_basis": ["DB", "COMMUNICATE"], "nl_assertions": None,
                                **criteria},
        "annotations": None,
    }  # fmt: skip


def test_a_tau2_task_is_fair_in_a_world_of_ours() -> None:
    task = tau2_task(tau2_row(), "row 1", WORLD)
    env = ToolCallEnv([task])
    assert validate_task(env, task).reason == ""
    env.reset(options={"task": task})
    seen, *_ = env.step('{"content": "Which booking is it?"}')
    assert "B-4001" in seen["message"] and "a@mail.example" not in seen["message"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (tau2_row(reward_basis=["DB", "NL_ASSERTION"]), "NL_ASSERTION"),
        (tau2_row(reward_basis=["ACTION"]), "ACTION"),
        (tau2_row(reward_basis=["ENV_ASSERTION"]), "ENV_ASSERTION"),
        (tau2_row(actions=[{"name": "toggle", "requestor": "user"}]), "requestor='user'"),
        (tau2_row(actions=[{"name": "x", "compare_args": ["a"]}]), "compare_args"),
        (tau2_row(actions=[{"name": "no_such_tool"}]), "not offered"),
        (tau2_row(actions=[], communicate_info=[]), "doing nothing"),
        ({**tau2_row(), "user_tools": ["reboot"]}, "user_tools"),
        ({**tau2_row(), "initial_state": {"message_history": [{}]}}, "message_history"),
        ({**tau2_row(), "user_scenario": {"instructions": {"reason_for_call": ""}}}, "is empty"),
    ],
)
def test_tau2_rows_that_are_not_supported_are_refused_by_name(row: Any, words: str) -> None:
    with pytest.raises(TaskError, match=words):
        tau2_task(row, "row 1", WORLD)


@pytest.mark.parametrize(
    "words",
    [[], ["csv", "x", "out=y"], ["tau2", "x", "out=y"], ["messages", "/none", "out=y"],
     ["messages", "x", "out=y", "split=all"]],
)  # fmt: skip
def test_the_command_line_names_what_is_wrong(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.strip()
