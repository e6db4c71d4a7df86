"""The environment of tool calling."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypedDict, cast

import gymnasium
import numpy as np
from gymnasium import spaces

from envs.core import Finish, TaskEnv
from envs.spaces import Unicode
from envs.toolcall.action import Action, call, parse_action
from envs.toolcall.llm_user import LLMUser
from envs.toolcall.session import Session, solution
from envs.toolcall.users import RuleUser, User, UserPlan
from envs.toolcall.world import World
from envs.toolcall.worlds import table
from envs.types import Task, Verdict
from envs.voice import Voice


class ToolCallObservation(TypedDict):
    """What the agent sees.

    ``message`` is what the user said, ``output`` a line of JSON for each call in the order of the
    calls, ``tools`` the tools offered (OpenAI's form, a JSON list) and ``policy`` the rules in
    prose, both told once at the start and "" from then on; ``left`` is 1 when the user is gone.
    """

    message: str
    output: str
    tools: str
    policy: str
    left: np.int64


class ToolCallEnv(TaskEnv[ToolCallObservation]):
    """A user wants something, and there are tools to do it with.

    Action space: ``Unicode``: JSON text of what the assistant says and which tools it calls, see
    ``envs.toolcall.action``. Calls are carried out in order; an action without calls is heard by
    the user, who answers. Text that is no action costs a step and is told what is wrong with it.
    Observation space: ``Dict(message, output, tools, policy, left)``, see ``ToolCallObservation``.
    Reward: 0 until the end, then 1 when the world is in the state that the task's own solution
    leads to, the user was told what must be told and no rule was broken; else 0.
    Endings: ``terminated`` when the user leaves, under ``finish="solved"`` also as soon as the
    verdict is 1; ``truncated`` at the task's ``max_steps``.
    Info of a step: ``process`` (for each call what is right of it, and its score, see
    ``envs.toolcall.grading``), ``failures`` (kinds of this step), ``num_failures`` (kind → how many
    in the episode), ``violations`` (rules broken so far), ``move`` (of the user); at the end
    ``verdict``.
    Task data: ``world`` and what it needs, ``user``, ``oracle`` (actions), ``told``.

    Equal seeds, tasks and actions give equal observations.

    Args:
        tasks, finish, render_mode: see ``TaskEnv``.
        worlds: builds a world from a task's data; one that needs sandboxes, such as
            ``envs.toolcall.mcp_world.McpWorlds``, goes here.
        voice: a model that plays the users; None: rules do, unless the environment variable
            ``CLAWGYM_USER_URL`` names one, see ``envs.voice``.

    Version history: v0.
    """

    idle = Action().to_text()

    def __init__(
        self,
        tasks: Sequence[Task],
        finish: Finish = "submit",
        render_mode: str | None = None,
        worlds: Callable[[Mapping[str, Any]], World] = table.make,
        voice: Voice | None = None,
    ) -> None:
        super().__init__(tasks, finish, render_mode)
        self._worlds = worlds
        self._users = _users(voice or Voice.named())
        samples = (
            Action("Which one do you mean?").to_text(),
            Action("I cannot do that.").to_text(),
            call("get_time").to_text(),
            call("get_order", order_id="O-10001").to_text(),
        )
        self.action_space = Unicode(max_length=1 << 21, samples=samples)
        parts: dict[str, spaces.Space[Any]] = {
            **{name: Unicode() for name in ("message", "output", "tools", "policy")},
            "left": spaces.Discrete(2),
        }
        self.observation_space = cast("spaces.Space[ToolCallObservation]", spaces.Dict(parts))
        self._session: Session | None = None
        self._ended = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ToolCallObservation, dict[str, Any]]:
        """Start a task: ``options={"task": Task | id}``, else one drawn with ``seed``.

        Raises:
            TaskError: an unknown id, or a task that cannot be played.
        """
        super().reset(seed=seed)
        self.close()
        self._ended = True
        task = self._choose(options)
        rng = random.Random(int(self.np_random.integers(1 << 62)))
        self._session = session = Session(task, rng, self._worlds, self._users)
        self._task, self._steps, self._ended = task, 0, False
        opening = session.plan.opening
        self._transcript = [f"user: {opening}"]
        tools = [tool.to_openai() for tool in session.world.tools.values()]
        seen = ToolCallObservation(
            message=opening,
            output="",
            tools=json.dumps(tools, ensure_ascii=False),
            policy=session.world.policy,
            left=np.int64(0),
        )
        return seen, {"task": task.id}

    def step(self, action: str) -> tuple[ToolCallObservation, float, bool, bool, dict[str, Any]]:
        """Speak to the user, or call tools.

        Raises:
            gymnasium.error.ResetNeeded: before ``reset`` or after the end.
        """
        if self._session is None or self._task is None or self._ended:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        self._steps += 1
        session = self._session
        outcome = session.act(parse_action(action))
        left = outcome.move.ends
        last = left or self._steps >= self._task.limits.max_steps
        verdict = session.verdict() if last or self.finish == "solved" else None
        solved = verdict is not None and verdict.solved and self.finish == "solved"
        terminated = left or solved
        truncated = last and not terminated
        self._ended = terminated or truncated
        info: dict[str, Any] = {
            "process": [record.to_json() for record in outcome.records],
            "failures": [str(kind) for kind in outcome.failures],
            "num_failures": dict(session.failures),
            "violations": list(session.world.violations),
            "move": str(outcome.move),
        }
        reward = 0.0
        if verdict is not None and self._ended:
            reward = verdict.reward
            info["verdict"] = verdict
        if self.render_mode == "ansi":
            said = (f"assistant: {action}", f"tools: {outcome.output}", f"user: {outcome.message}")
            self._transcript += [line for line in said if not line.endswith(": ")]
        seen = ToolCallObservation(
            message=outcome.message,
            output=outcome.output,
            tools="",
            policy="",
            left=np.int64(left),
        )
        return seen, reward, terminated, truncated, info

    def grade(self) -> Verdict:
        """Return the verdict on what was done so far.

        Raises:
            gymnasium.error.ResetNeeded: before ``reset``.
        """
        if self._session is None:
            raise gymnasium.error.ResetNeeded("call reset() before grade()")
        return self._session.verdict()

    def oracle(self, task: Task) -> Sequence[str]:
        """Return the actions of the task's solution."""
        return [action.to_text() for action in solution(task)]

    def close(self) -> None:
        """End the session. Idempotent."""
        if self._session is not None:
            self._session.close()
        self._session = None


def _users(voice: Voice | None) -> Callable[[UserPlan, random.Random], User]:
    if voice is None:
        return RuleUser
    return partial(LLMUser, voice=voice)
