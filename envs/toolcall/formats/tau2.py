"""Tasks written as tau2-bench writes them, played in a world of this package.

Supported: ``user_scenario.instructions`` (reason for the call, what is known) and
``evaluation_criteria`` with ``actions`` of the assistant, ``communicate_info`` and a
``reward_basis`` of DB and COMMUNICATE. Refused by name: the user's own tools, a basis of
environment assertions, judged assertions or actions, starting states and histories. Doing nothing
must not solve a task: such rows, of which the original sets hold dozens, are refused too. The world
is named by the caller: the original domains' data are not part of this package.
"""

import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envs.errors import TaskError
from envs.toolcall.action import Action, Call
from envs.toolcall.formats.fields import listed, only, rows_of, text_of
from envs.toolcall.session import Session
from envs.toolcall.users import Fact, UserPlan
from envs.types import Split, Task, TaskLimits

TASK = {"id", "description", "user_scenario", "initial_state", "evaluation_criteria", "annotations"}
INSTRUCTIONS = {"task_instructions", "domain", "reason_for_call", "known_info", "unknown_info"}
CRITERIA = {"actions", "communicate_info", "reward_basis", "env_assertions", "nl_assertions"}
ACTION = {"action_id", "requestor", "name", "arguments", "info", "compare_args"}
BASIS = {"DB", "COMMUNICATE"}
SPARE_STEPS = 10
_KNOWN = re.compile(r"[^.\n;]+(?:\.(?!\s|$)[^.\n;]*)*")
_WORD = re.compile(r"[a-z][a-z-]{3,}")


def load_tau2(path: Path, world: Mapping[str, Any], split: Split = "train") -> list[Task]:
    """Return a task for each row of a tau2 task file.

    Args:
        path: a JSON list.
        world: the task's data that name a world of ours: ``world``, ``seed``, ``held``.
        split: of the tasks.

    Raises:
        TaskError: the file, or a row that is not supported; names row and field.
    """
    tasks: dict[str, Task] = {}
    for where, row in rows_of(path):
        task = task_of(row, where, world, split)
        if task.id in tasks:
            raise TaskError(f"{where}: the id {task.id!r} is there twice")
        tasks[task.id] = task
    return list(tasks.values())


def task_of(row: Any, where: str, world: Mapping[str, Any], split: Split = "train") -> Task:
    """Return the task of a row, proved playable. Raises ``TaskError``."""
    row = only(row, TASK, where)
    state = row.get("initial_state") or {}
    if any(state.values()):
        names = ", ".join(name for name, value in state.items() if value)
        raise TaskError(f"{where}: initial_state: not supported: {names}")
    criteria = only(row.get("evaluation_criteria"), CRITERIA, f"{where}: evaluation_criteria")
    basis = set(listed(criteria, "reward_basis", where) or BASIS)
    if basis - BASIS:
        raise TaskError(f"{where}: reward_basis: not supported: {', '.join(sorted(basis - BASIS))}")
    told = listed(criteria, "communicate_info", where) if "COMMUNICATE" in basis else []
    calls = [_action(each, where) for each in listed(criteria, "actions", where)]
    close = " ".join(["Done.", *map(str, told)])
    oracle = [*[Action(calls=(call,)) for call in calls], Action(close)]
    user = _user(row.get("user_scenario"), where)
    data = {
        **world, "user": user.to_json(),
        "told": [[str(each)] for each in told],
        "oracle": [{"content": a.content, "tool_calls": [c.to_json() for c in a.calls]}
                   for a in oracle],
    }  # fmt: skip
    task = Task(
        id=f"toolcall/tau2/{row.get('id')}", env="toolcall", family="tau2", split=split,
        instruction=user.opening, image="",
        limits=TaskLimits(max_steps=len(oracle) + SPARE_STEPS, output_bytes=8000),
        data=json.loads(json.dumps(data)), tags=("source:tau2",),
    )  # fmt: skip
    Session(task, random.Random(0)).close()
    return task


def _action(row: Any, where: str) -> Call:
    row = only(row, ACTION, f"{where}: actions")
    if row.get("requestor", "assistant") != "assistant":
        raise TaskError(f"{where}: actions: requestor={row['requestor']!r} is not supported")
    if row.get("compare_args") is not None:
        raise TaskError(f"{where}: actions: compare_args is not supported")
    return Call(str(row.get("name")), dict(row.get("arguments") or {}))


def _user(scenario: Any, where: str) -> UserPlan:
    """Return who asks: the reason opens, each sentence of what is known answers its own words."""
    scenario = only(scenario, {"persona", "instructions"}, f"{where}: user_scenario")
    instructions = scenario.get("instructions")
    if isinstance(instructions, str):
        return UserPlan(instructions)
    instructions = only(instructions, INSTRUCTIONS, f"{where}: instructions")
    opening = text_of(instructions, "reason_for_call", where)
    if not opening.strip():
        raise TaskError(f"{where}: reason_for_call is empty")
    facts = []
    for sentence in _KNOWN.findall(text_of(instructions, "known_info", where)):
        if words := _WORD.findall(sentence.lower()):
            facts.append(Fact(tuple(dict.fromkeys(words)), sentence.strip() + "."))
    return UserPlan(opening, tuple(facts))
