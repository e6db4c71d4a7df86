"""An episode in progress: the world, the user, what was said, what counts.

The goal is the state that the task's own solution leads to, in a world of its own; it is found anew
for each episode, so that a task whose solution does not work is an error and never a reward.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from envs.errors import TaskError
from envs.toolcall.action import Action, Call, action_of
from envs.toolcall.failures import Failure, FailureKind
from envs.toolcall.grading import CallRecord, Goal, Reference, differing
from envs.toolcall.results import LEAST_BYTES, failure_line, result_line
from envs.toolcall.tools import Tool, check_call, check_value, unknown_tool
from envs.toolcall.users import Move, RuleUser, User, UserPlan
from envs.toolcall.world import ToolError, World
from envs.toolcall.worlds import table
from envs.types import Task, Verdict


@dataclass(frozen=True)
class Outcome:
    """What an action led to.

    Attributes:
        output: a line for each call.
        message: what the user said.
        move: what the user did.
        records: one for each call.
        failures: kinds, in order; also of an action that was none.
    """

    output: str = ""
    message: str = ""
    move: Move = Move.WAIT
    records: tuple[CallRecord, ...] = ()
    failures: tuple[FailureKind, ...] = ()


class Session:
    """See the module.

    Args:
        task: what is played.
        rng: of the user's choices of words.
        make: builds a world from the task's data.
        users: makes the user of a plan.

    Raises:
        TaskError: the task cannot be played, or its solution does not work.
    """

    def __init__(
        self,
        task: Task,
        rng: random.Random,
        make: Callable[[Mapping[str, Any]], World] = table.make,
        users: Callable[[UserPlan, random.Random], User] = RuleUser,
    ) -> None:
        self.failures: Counter[str] = Counter()
        self._budget_bytes = task.limits.output_bytes
        try:
            self.plan = UserPlan.from_json(task.data["user"])
            told = tuple(tuple(ways) for ways in task.data.get("told", ()))
            actions = solution(task)
        except (KeyError, TypeError) as error:
            raise TaskError(f"{task.id}: no session: {error!r}") from error
        self._user = users(self.plan, rng)
        calls = [(each.name, each.arguments) for action in actions for each in action.calls]
        with closing(make(task.data)) as world:
            goal = _replayed(world, calls, task.id)
        self.world = make(task.data)
        if goal == self.world.state() and not told:
            self.world.close()
            raise TaskError(f"{task.id}: doing nothing would solve it")
        self.goal = Goal(goal, told)
        self._reference = Reference(calls)
        self._said: list[str] = []

    def act(self, action: Action | Failure) -> Outcome:
        """Do what the agent says: its words are heard first, then its calls are carried out.

        The user answers an action without calls only.
        """
        if isinstance(action, Failure):
            self.failures[action.kind] += 1
            return Outcome(failure_line("", action), failures=(action.kind,))
        if action.content.strip():
            self._said.append(action.content)
        if not action.calls:
            move, message = self._user.hear(action.content)
            return Outcome(message=message, move=move)
        budget = max(LEAST_BYTES, self._budget_bytes // len(action.calls))
        done = [self._carry_out(each, budget) for each in action.calls]
        records = tuple(record for _, record in done)
        failures = tuple(record.failure for record in records if record.failure)
        self.failures.update(failures)
        return Outcome("\n".join(line for line, _ in done), "", Move.WAIT, records, failures)

    def verdict(self) -> Verdict:
        """Judge what was done so far."""
        return self.goal.verdict(self.world.state(), self._said, self.world.violations)

    def close(self) -> None:
        """Close the world. Idempotent."""
        self.world.close()

    def _carry_out(self, call: Call, budget_bytes: int) -> tuple[str, CallRecord]:
        tool = self.world.tools.get(call.name)
        if tool is None:
            failure = unknown_tool(call.name, self.world.tools)
            return failure_line(call.name, failure), CallRecord(
                call.name[:64], valid=False, failure=failure.kind
            )
        arguments = checked(tool, call)
        if isinstance(arguments, Failure):
            known = self._reference.knows(call.name)
            record = CallRecord(call.name, False, known, failure=arguments.kind)
            return failure_line(call.name, arguments), record
        return self._run(call.name, arguments, budget_bytes)

    def _run(
        self, name: str, arguments: dict[str, Any], budget_bytes: int
    ) -> tuple[str, CallRecord]:
        before = len(differing(self.world.state(), self.goal.state))
        try:
            result = self.world.call(name, arguments)
        except ToolError as error:
            failure = Failure(error.kind, error.message)
            known = self._reference.knows(name)
            return failure_line(name, failure), CallRecord(name, True, known, failure=error.kind)
        right_tool, right_arguments = self._reference.tick(name, arguments)
        nearer = before - len(differing(self.world.state(), self.goal.state))
        effect = (nearer > 0) - (nearer < 0)
        if not nearer and right_arguments:
            effect = 1
        record = CallRecord(name, True, right_tool, right_arguments, effect)
        return result_line(name, result, budget_bytes), record


def checked(tool: Tool, call: Call) -> dict[str, Any] | Failure:
    """Return a call's arguments, or what is wrong with them."""
    if isinstance(call.arguments, str):
        return check_call(tool, call.arguments)
    return check_value(tool, call.arguments)


def solution(task: Task) -> list[Action]:
    """Return the actions of the task's own solution. Raises ``TaskError``."""
    actions = [action_of(row) for row in task.data["oracle"]]
    wrong = next((each for each in actions if isinstance(each, Failure)), None)
    if wrong is not None:
        raise TaskError(f"{task.id}: the solution is none: {wrong.message}")
    return [each for each in actions if isinstance(each, Action)]


def _replayed(world: World, calls: Sequence[tuple[str, Any]], task_id: str) -> Mapping[str, object]:
    """Return the state that calls lead to; some may give no result, none may be wrong."""
    for name, arguments in calls:
        if name not in world.tools:
            raise TaskError(f"{task_id}: the solution calls {name}, which is not offered")
        fitting = checked(world.tools[name], Call(name, arguments))
        if isinstance(fitting, Failure):
            raise TaskError(f"{task_id}: the solution's {name}: {fitting.message}")
        try:
            world.call(name, fitting)
        except ToolError:
            continue
    if world.violations:
        raise TaskError(f"{task_id}: the solution breaks {', '.join(world.violations)}")
    return world.state()
