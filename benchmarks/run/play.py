"""Plays one sample of one task: a plain class, which ``crew`` wraps for Ray.

The world is made anew for every episode, in sandboxes of the player's own; what the episode loop
made of it becomes a ``Record``.
"""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from agents import registry as agents
from agents.episode import Assignment, EpisodeLimits, play
from agents.protocol import Policy
from agents.shell import ReplyFormat
from agents.types import Episode, StopReason, Turn
from benchmarks.run.policy import ChatPolicy, Endpoint
from benchmarks.run.records import Key, Record, TurnRecord
from benchmarks.run.settings import Settings
from envs.errors import EnvError
from envs.tasks.loading import level
from envs.types import Task
from serving.types import Sampling

log = logging.getLogger(__name__)

SET_UP_S = 600.0  # most an episode may take beyond its replies and commands


@dataclass(frozen=True)
class Attempt:
    """One try at one sample of a task.

    Attributes:
        task_digest: see ``versions.task_digest``.
        sample: from 0.
        seed: of world and sampling; the same for every try.
        number: which try, from 1.
    """

    task: Task
    task_digest: str
    sample: int
    seed: int
    number: int = 1

    @property
    def key(self) -> Key:
        """Which sample of which task."""
        return self.task.id, self.sample

    def again(self) -> "Attempt":
        """Return the next try."""
        return replace(self, number=self.number + 1)


@dataclass(frozen=True)
class Rules:
    """How every episode of a run is played; pickles to workers."""

    run_id: str
    endpoint: Endpoint
    settings: Settings

    def patience_s(self, task: Task) -> float:
        """Return how long an episode may take before its worker is held to be stuck."""
        settings = self.settings
        waits = task.limits.max_steps * settings.reply_timeout_s
        return self.limits(task).time_limit_s + waits + task.limits.verifier_timeout_s + SET_UP_S

    def limits(self, task: Task) -> EpisodeLimits:
        """Return the loop's limits; the time that a public task states for its agent counts."""
        settings = self.settings
        stated = (task.data.get("limits") or {}).get("agent_timeout_s")
        return EpisodeLimits(
            settings.max_parse_errors, stated or settings.time_limit_s, settings.reply_timeout_s
        )

    def assignment(self, attempt: Attempt) -> Assignment:
        """Return what the episode loop is to play."""
        group = f"{self.run_id}/{attempt.task.id}"
        sampling = Sampling(
            max_tokens=self.settings.max_reply_tokens,
            temperature=self.settings.temperature,
            seed=attempt.seed,
        )
        name = f"{group}/{attempt.sample}/{attempt.number}"
        return Assignment(name, group, attempt.task, sampling, attempt.seed)

    def lost(self, attempt: Attempt, stop: StopReason, error: str) -> Record:
        """Return the record of an episode whose worker cannot tell of it."""
        return to_record(self.assignment(attempt).record(stop, error=error), attempt)


class Player:
    """Plays attempts against the model, several at once.

    Args:
        rules: of the run.
        worker: label of its sandboxes.
        policy: in place of the model behind ``rules.endpoint``.
    """

    def __init__(self, rules: Rules, worker: str, policy: Policy | None = None) -> None:
        settings = rules.settings
        self.rules, self.worker = rules, worker
        self.slots = settings.episodes_per_worker
        self._chat = None if policy else ChatPolicy(rules.endpoint)
        self._policy: Policy = policy or self._chat  # type: ignore[assignment]  # one of the two
        self._threads = ThreadPoolExecutor(self.slots + 2, thread_name_prefix=worker)
        self._pool: Any = None

    async def play(self, attempt: Attempt) -> Record:
        """Play one episode. Never raises for a failure of world or policy."""
        loop = asyncio.get_running_loop()
        loop.set_default_executor(self._threads)
        settings, task = self.rules.settings, attempt.task
        agent = agents.make(task.env, _format(settings.reply_format), settings.finish == "submit")
        env = self._env(task)
        try:
            assignment = self.rules.assignment(attempt)
            episode = await play(env, agent, self._policy, assignment, self.rules.limits(task))
            patch = None
            if episode.reward is not None and hasattr(env, "patch"):
                patch = await loop.run_in_executor(None, _patch, env, task)
            return to_record(episode, attempt, patch)
        finally:
            await loop.run_in_executor(None, env.close)

    async def ping(self) -> str:
        """Return the worker's name: it is alive."""
        return self.worker

    async def close(self) -> None:
        """Remove every sandbox and close connections. Idempotent."""
        if self._pool is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._pool.close)
        if self._chat is not None:
            await self._chat.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _env(self, task: Task) -> Any:
        from envs import registry

        if self._pool is None and registry.find(task.env).image:
            from envs.sandbox.pool import SandboxPool

            self._pool = SandboxPool(
                run_id=self.rules.run_id, worker=self.worker, max_idle=self.slots
            )
        return registry.make(task.env, [task], self._pool, finish=self.rules.settings.finish)


def seed_of(run_seed: int, task_id: str, sample: int) -> int:
    """Return the seed of one sample: the same in every run with the run's seed, below 2**31."""
    text = f"{run_seed}/{task_id}/{sample}"
    return int.from_bytes(sha256(text.encode()).digest()[:4], "big") >> 1


def to_record(episode: Episode, attempt: Attempt, patch: str | None = None) -> Record:
    """Return what is kept of an episode."""
    task = attempt.task
    kinds = (tag.removeprefix("heldout:") for tag in task.tags if tag.startswith("heldout:"))
    instance = task.data.get("instance_id")
    if instance is None and "source:release" in task.tags:
        instance = task.id
    return Record(
        task_id=task.id,
        task_digest=attempt.task_digest,
        env=task.env,
        family=task.family,
        split=task.split,
        level=level(task),
        kind=next(kinds, ""),
        sample=attempt.sample,
        attempt=attempt.number,
        seed=attempt.seed,
        reward=episode.reward,
        stop_reason=episode.stop_reason,
        error=episode.error,
        instance_id=str(instance or ""),
        instruction=task.instruction,
        started_at=episode.started_at,
        duration_s=round(episode.duration_s, 3),
        turns=tuple(_turn(turn) for turn in episode.turns),
        patch=patch,
    )


def _turn(turn: Turn) -> TurnRecord:
    return TurnRecord(
        text=turn.text,
        action=turn.action,
        observation=turn.observation,
        parse_error=turn.parse_error,
        finish_reason=turn.finish_reason,
        prompt_tokens=len(turn.prompt_ids_P),
        reply_tokens=len(turn.token_ids_T),
    )


def _format(name: str) -> ReplyFormat:
    return "fenced" if name == "fenced" else "plain"


def _patch(env: Any, task: Task) -> str | None:
    """Return the agent's change; the verdict stands where it can no longer be read."""
    try:
        patch: str = env.patch()
        return patch
    except EnvError as error:
        log.warning("%s: no patch: %s: %s", task.id, type(error).__name__, error)
        return None
