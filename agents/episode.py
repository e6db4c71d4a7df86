"""The one episode loop: task, observation, reply, action, until something ends it.

Every ending has one ``StopReason``. What the agent does wrong costs what the task says; what the
machine does wrong ends it without a reward (``StopReason.failed``) and with its first cause.
Left out: retries and grouping (``rl.controller``), prompts and parsing (``agents.shell``).
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from agents.consequence import NOTHING, Consequence, consequence, missing
from agents.protocol import Agent, ParseError, Policy
from agents.types import Episode, StopReason, Turn
from envs.errors import EnvError, SandboxLost
from envs.types import Task, Verdict
from serving.errors import ContextOverflow, PolicyError, PolicyUnavailable
from serving.types import Message, Reply, Sampling

T = TypeVar("T")


class PlayableEnv(Protocol):
    """What the loop needs of an environment: Gymnasium's two calls, and ``grade``."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Mapping[str, Any], dict[str, Any]]: ...

    def step(self, action: str) -> tuple[Mapping[str, Any], float, bool, bool, dict[str, Any]]: ...

    def grade(self) -> Verdict: ...


@dataclass(frozen=True)
class EpisodeLimits:
    """Limits that belong to the loop rather than to the task.

    Attributes:
        max_parse_errors: replies without an action in a row that end the episode.
        time_limit_s: wall-clock limit of the agent's commands in the whole episode; set-up and
            waiting for the policy are the machine's time and do not count.
        reply_timeout_s: longest wait for one reply; past it the policy is held to be unavailable.
    """

    max_parse_errors: int = 3
    time_limit_s: float = 300.0
    reply_timeout_s: float = 300.0


@dataclass(frozen=True)
class Assignment:
    """One attempt to play: which task, in which group, how to sample.

    Attributes:
        episode_id, group_id: names in the run; the episode id is also the policy session.
        sampling: of every turn; ``seed`` is moved on by one each turn.
        seed: of the environment's reset.
    """

    episode_id: str
    group_id: str
    task: Task
    sampling: Sampling
    seed: int = 0

    def record(
        self,
        stop: StopReason,
        *,
        reward: float | None = None,
        turns: tuple[Turn, ...] = (),
        error: str = "",
        started_at: float = 0.0,
        duration_s: float = 0.0,
    ) -> Episode:
        """Return the episode this assignment led to."""
        return Episode(
            id=self.episode_id,
            group_id=self.group_id,
            task_id=self.task.id,
            env=self.task.env,
            split=self.task.split,
            family=self.task.family,
            turns=turns,
            reward=reward,
            stop_reason=stop,
            error=error,
            temperature=self.sampling.temperature,
            started_at=started_at,
            duration_s=duration_s,
            seed=self.seed,
            meta={"tags": list(self.task.tags)},
        )


@dataclass
class _Progress:
    """What has happened so far."""

    messages: list[Message] = field(default_factory=list)
    observation: Mapping[str, Any] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    parse_errors: int = 0
    reward: float = 0.0
    acting_s: float = 0.0


async def play(
    env: PlayableEnv,
    agent: Agent,
    policy: Policy,
    assignment: Assignment,
    limits: EpisodeLimits | None = None,
) -> Episode:
    """Play one episode. Environment calls run in the event loop's default executor.

    Never raises for a failure of world or policy: that is an episode with ``stop_reason.failed``.
    Cancellation is passed on.
    """
    limits = limits or EpisodeLimits()
    started, clock = time.time(), time.monotonic()
    progress = _Progress()
    error = ""
    try:
        stop = await _run(env, agent, policy, assignment, limits, progress)
    except SandboxLost as cause:
        stop, error = StopReason.SANDBOX_LOST, _first_cause(cause)
    except EnvError as cause:
        stop, error = StopReason.ENV_ERROR, _first_cause(cause)
    except PolicyError as cause:
        stop, error = StopReason.POLICY_ERROR, _first_cause(cause)
    return assignment.record(
        stop,
        reward=None if stop.failed else progress.reward,
        turns=tuple(progress.turns),
        error=error,
        started_at=started,
        duration_s=time.monotonic() - clock,
    )


async def _run(
    env: PlayableEnv,
    agent: Agent,
    policy: Policy,
    assignment: Assignment,
    limits: EpisodeLimits,
    progress: _Progress,
) -> StopReason:
    task = assignment.task
    observation, _ = await _in_thread(
        lambda: env.reset(seed=assignment.seed, options={"task": task})
    )
    progress.messages, progress.observation = agent.begin(task, observation), observation
    for turn_index in range(task.limits.max_steps):
        if progress.acting_s >= limits.time_limit_s:
            return await _graded(env, progress, StopReason.TIME_LIMIT)
        try:
            reply = await policy.complete(
                progress.messages,
                session=assignment.episode_id,
                sampling=_sampling(assignment.sampling, turn_index),
                timeout_s=limits.reply_timeout_s,
            )
        except ContextOverflow:
            return await _graded(env, progress, StopReason.CONTEXT_LIMIT)
        if reply.generation.finish_reason == "cancelled":
            raise PolicyUnavailable("the policy stopped in the middle of a reply")
        stop = await _act(env, agent, reply, progress, limits)
        if stop is not None:
            return stop
    return await _graded(env, progress, StopReason.STEP_LIMIT)


async def _act(
    env: PlayableEnv, agent: Agent, reply: Reply, progress: _Progress, limits: EpisodeLimits
) -> StopReason | None:
    """Do what a reply says; return the reason when that ended the episode."""
    progress.messages.append({"role": "assistant", "content": reply.text})
    try:
        action = agent.parse(reply)
    except ParseError as complaint:
        message = agent.complain(complaint)
        progress.messages.append(message)
        progress.turns.append(
            _turn(reply, None, str(message["content"]), 0.0, parse_error=str(complaint))
        )
        progress.parse_errors += 1
        if progress.parse_errors >= limits.max_parse_errors:
            return await _graded(env, progress, StopReason.PARSE_ERROR)
        return None
    progress.parse_errors = 0
    begun = time.monotonic()
    observation, reward, terminated, truncated, info = await _in_thread(lambda: env.step(action))
    progress.acting_s += time.monotonic() - begun
    message = agent.observe(observation)
    progress.messages.append(message)
    followed = consequence(progress.observation, observation, info)
    progress.turns.append(
        _turn(reply, action, str(message["content"]), float(reward), followed=followed)
    )
    progress.observation = observation
    progress.reward += float(reward)
    if terminated:
        verdict = info.get("verdict")
        solved = isinstance(verdict, Verdict) and verdict.solved
        return StopReason.SOLVED if solved else StopReason.SUBMITTED
    return StopReason.STEP_LIMIT if truncated else None


async def _graded(env: PlayableEnv, progress: _Progress, stop: StopReason) -> StopReason:
    """End by a limit of the loop: the state reached so far still counts."""
    verdict = await _in_thread(env.grade)
    progress.reward = verdict.reward
    if progress.turns:
        last = progress.turns[-1]
        told = replace(last.consequence, verdict=missing(verdict))
        progress.turns[-1] = replace(last, consequence=told)
    return StopReason.SOLVED if verdict.solved else stop


def _sampling(sampling: Sampling, turn_index: int) -> Sampling:
    """Give every turn a seed of its own."""
    if sampling.seed is None:
        return sampling
    return Sampling(
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sampling.seed + turn_index,
        stop=sampling.stop,
    )


def _turn(
    reply: Reply,
    action: str | None,
    observation: str,
    reward: float,
    parse_error: str = "",
    followed: Consequence = NOTHING,
) -> Turn:
    generation = reply.generation
    return Turn(
        prompt_ids_P=reply.prompt_ids_P,
        token_ids_T=generation.token_ids_T,
        logprobs_T=generation.logprobs_T,
        versions_T=generation.versions_T,
        finish_reason=generation.finish_reason,
        text=reply.text,
        action=action,
        observation=observation,
        reward=reward,
        parse_error=parse_error,
        consequence=followed,
    )


def _first_cause(error: BaseException) -> str:
    """Return ``Class: message`` of the last error of the chain that says something.

    A time-out ends in a bare ``CancelledError``, which names nothing.
    """
    telling: BaseException = error
    cause: BaseException | None = error
    while cause is not None:
        telling = cause if str(cause) else telling
        cause = cause.__cause__
    return f"{type(telling).__name__}: {telling}"


async def _in_thread(call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, call)
