"""Conversations with tools as OpenAI's chat form has them, as tasks: do what the assistant did.

A row holds ``messages`` and ``tools``, optionally ``id``. The assistant's calls are the expected
ones, each message a step of the order, and what the tool messages say is what they return. The
first words of the user open; later ones come when the assistant has settled what came before, or,
where the assistant had asked, as the answer to a question that shares a word with the one asked
there.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.errors import TaskError
from envs.toolcall.action import Action, Call
from envs.toolcall.formats.fields import listed, only, rows_of, text_of
from envs.toolcall.schema import SchemaError
from envs.toolcall.session import solution
from envs.toolcall.strict import BadJson, loads
from envs.toolcall.tools import Tool
from envs.toolcall.users import Fact, UserPlan
from envs.types import Split, Task, TaskLimits

ROW = {"messages", "tools", "id"}
FIELDS = {
    "system": {"role", "content"}, "developer": {"role", "content"}, "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id", "name"},
}  # fmt: skip
SPARE_STEPS = 4
_WORD = re.compile(r"[a-z]{4,}")
_COMMON = {"what", "which", "would", "should", "could", "your", "that", "this", "have", "with",
           "please", "like", "need", "tell", "want", "know"}  # fmt: skip


def load_messages(path: Path, split: Split = "train") -> list[Task]:
    """Return a task for each row.

    Raises:
        TaskError: the file, or a row that is not supported; names row and field.
    """
    tasks: dict[str, Task] = {}
    for number, (where, row) in enumerate(rows_of(path)):
        task = task_of(row, where, f"{path.stem}_{number:04d}", split)
        if task.id in tasks:
            raise TaskError(f"{where}: the id {task.id!r} is there twice")
        tasks[task.id] = task
    return list(tasks.values())


def task_of(row: Any, where: str, name: str, split: Split = "train") -> Task:
    """Return the task of a row. Raises ``TaskError``."""
    row = only(row, ROW, where)
    tools = [_tool(each, where) for each in listed(row, "tools", where)]
    messages = listed(row, "messages", where)
    for number, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in FIELDS:
            raise TaskError(f"{where}: message {number}: role={role!r} is not supported")
        only(message, FIELDS[role], f"{where}: message {number}")
    results = {m.get("tool_call_id"): m.get("content") for m in messages if m["role"] == "tool"}
    expected: list[dict[str, Any]] = []
    oracle: list[Action] = []
    for message in messages:
        if message["role"] != "assistant":
            continue
        calls = [_call(each, where) for each in listed(message, "tool_calls", where)]
        for ident, call in calls:
            if ident not in results:
                raise TaskError(f"{where}: the call {ident!r} has no tool message")
            result = _result(results[ident])
            expected.append({"name": call.name, "arguments": call.arguments,
                             "step": len(oracle), "result": result})  # fmt: skip
        oracle.append(Action(text_of(message, "content", where), tuple(c for _, c in calls)))
    if not expected:
        raise TaskError(f"{where}: no tool call, so nothing tells a right end from a wrong one")
    if oracle[-1].calls:
        oracle.append(Action("Done."))
    user = _user(messages, where)
    data = {
        "world": "script", "policy": _policy(messages, where), "tools": tools,
        "expected": expected, "user": user.to_json(),
        "oracle": [{"content": a.content, "tool_calls": [c.to_json() for c in a.calls]}
                   for a in oracle],
    }  # fmt: skip
    task = Task(
        id=f"toolcall/messages/{row.get('id', name)}", env="toolcall", family="messages",
        split=split, instruction=user.opening, image="",
        limits=TaskLimits(max_steps=len(oracle) + SPARE_STEPS, output_bytes=8000),
        data=json.loads(json.dumps(data)), tags=("source:messages",),
    )  # fmt: skip
    solution(task)
    return task


def _tool(row: Any, where: str) -> dict[str, Any]:
    try:
        return Tool.from_openai(row).to_openai()
    except SchemaError as error:
        raise TaskError(f"{where}: tools: {error}") from None


def _call(row: Any, where: str) -> tuple[str, Call]:
    row = only(row, {"id", "type", "function", "index"}, f"{where}: tool_calls")
    if row.get("type", "function") != "function":
        raise TaskError(f"{where}: tool_calls: type={row['type']!r} is not supported")
    function = only(row.get("function"), {"name", "arguments"}, f"{where}: tool_calls: function")
    arguments = function.get("arguments", {})
    try:
        values = loads(arguments) if isinstance(arguments, str) else arguments
    except BadJson as error:
        raise TaskError(f"{where}: arguments of {function.get('name')}: {error}") from None
    if not isinstance(values, dict):
        raise TaskError(f"{where}: arguments of {function.get('name')} must be an object")
    return str(row.get("id")), Call(str(function.get("name")), values)


def _result(content: Any) -> Any:
    """Return a tool message's content as values where it is JSON."""
    if not isinstance(content, str):
        return content
    try:
        return loads(content)
    except BadJson:
        return content


def _policy(messages: Sequence[Mapping[str, Any]], where: str) -> str:
    system = [m for m in messages if m["role"] in ("system", "developer")]
    return "\n".join(text_of(message, "content", where) for message in system)


def _user(messages: Sequence[Mapping[str, Any]], where: str) -> UserPlan:
    """Return who asks: what is said first, what answers a question, what comes up later."""
    said: list[str] = []
    facts: list[Fact] = []
    asked = ""
    for message in messages:
        content = text_of(message, "content", where)
        if message["role"] == "assistant":
            asked = content if "?" in content and not message.get("tool_calls") else ""
        elif message["role"] == "user":
            words = sorted(set(_WORD.findall(asked.lower())) - _COMMON)
            if said and words:
                facts.append(Fact(tuple(words), content))
            else:
                said.append(content)
    if not said or not said[0].strip():
        raise TaskError(f"{where}: no message of the user")
    return UserPlan(said[0], tuple(facts), tuple(said[1:]))
