"""Tool calling in process: checked calls, steps and whole episodes a second, on one core.

Measured in processor time of this process, so that other load on the machine does not count.
``call check`` validates a call's JSON text against a nested schema with a pattern; its peer is
``jsonschema.Draft202012Validator``, compiled once too, behind Python's own JSON reader.
``step`` is the mean over episodes played by the solutions of all tasks, without ``reset``.
Where an engine answers, interpreters and MCP servers in sandboxes follow, in wall-clock time.
"""

import json
import random
from collections.abc import Callable, Sequence
from time import process_time

from jsonschema import Draft202012Validator

from benchmarks.perf import interpreters, mcp_calls
from benchmarks.perf.rows import Row
from envs.errors import MissingDependency
from envs.toolcall.env import ToolCallEnv
from envs.toolcall.tasks import load_tasks
from envs.toolcall.tools import Tool, check_call
from envs.toolcall.worlds.shop.schemas import TOOLS
from envs.types import Task

SIMPLE = ("get_order", '{"order_id": "O-12345"}')
NESTED = (
    "start_return",
    '{"order_id": "O-12345", "lines": [{"sku": "P-01B", "quantity": 2}], "refund_to": "credit"}',
)
GOAL_CHECKS = ">= 20000/s"
ROUNDS = 5
SKYRL = "not compared: pip install skyrl-gym (its tools have no schema, its worlds no state)"


def run(quick: bool) -> list[Row]:
    """Measure."""
    num_calls, num_tasks = (2000, 60) if quick else (20000, 400)
    rows = [
        _checks(case, *made, num_calls) for case, made in (("simple", SIMPLE), ("nested", NESTED))
    ]
    tasks = random.Random(0).sample(load_tasks(), num_tasks)
    for world in ("script", "shop"):
        rows += _episodes(world, [task for task in tasks if task.data["world"] == world])
    return rows + _sandboxed(quick)


def _sandboxed(quick: bool) -> list[Row]:
    """Measure what needs sandboxes; a machine without them gets rows that say what is missing."""
    try:
        return [*interpreters.run(quick), *mcp_calls.run(quick)]
    except MissingDependency as error:
        return [Row("toolcall", "interpreters, MCP calls", "ms", None, None, str(error))]


def _checks(case: str, name: str, arguments: str, count: int) -> Row:
    tool: Tool = TOOLS[name]
    validator = Draft202012Validator(tool.parameters)
    assert isinstance(check_call(tool, arguments), dict)
    ours, peer = _rates(
        (lambda: check_call(tool, arguments), lambda: validator.is_valid(json.loads(arguments))),
        count // ROUNDS,
    )
    return Row(
        "toolcall", f"call check, {case}", "calls/s", ours, peer,
        "jsonschema + json.loads", GOAL_CHECKS, "higher",
    )  # fmt: skip


def _rates(actions: Sequence[Callable[[], object]], count: int) -> list[float]:
    """Return calls a second of each, the best of rounds taken in turn."""
    best = [0.0] * len(actions)
    for _ in range(ROUNDS):
        for place, action in enumerate(actions):
            begun = process_time()
            for _ in range(count):
                action()
            best[place] = max(best[place], count / (process_time() - begun))
    return best


def _episodes(world: str, tasks: Sequence[Task]) -> list[Row]:
    env = ToolCallEnv(tasks)
    steps, stepping_s, resetting_s = 0, 0.0, 0.0
    for task in tasks:
        actions = env.oracle(task)
        begun = process_time()
        env.reset(seed=0, options={"task": task})
        resetting_s += process_time() - begun
        begun = process_time()
        for action in actions:
            _, reward, terminated, _, _ = env.step(action)
        stepping_s += process_time() - begun
        steps += len(actions)
        assert terminated and reward == 1.0, task.id
    return [
        Row("toolcall", f"step, {world}", "steps/s", steps / stepping_s, None, SKYRL,
            better="higher"),
        Row("toolcall", f"reset, {world}", "ms", resetting_s / len(tasks) * 1e3),
    ]  # fmt: skip
