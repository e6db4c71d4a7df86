"""The machines of a run: a policy server, a trainer, rollout workers, as Ray actors.

Thin: the work is in ``rl.workers``. Here is who lives where, and what happens when one dies: a
worker's sandboxes are reaped before a new one starts; a policy server comes back on its port with
the last weights; a trainer's death ends the run with its first cause. Every wait is bounded.
"""

import asyncio
import logging
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from agents.episode import Assignment
from agents.types import Episode, StopReason
from rl import cluster
from rl.actors import START_TIMEOUT_S, actor, bounded, called, one_line, quietly
from rl.errors import RlError, StalledError
from rl.rankgroup import RankGroup
from rl.settings import RunConfig
from rl.types import Sample, StepMetrics, TopK
from rl.workers import PolicyAddress, PolicyHost, RolloutWorker, Serving

log = logging.getLogger(__name__)

LOAD_TIMEOUT_S = 300.0
MEMORY_NEEDED = 3 << 30  # bytes in memory for publications: three of a 135M model, and some
PATIENCE_S = 600.0  # for an episode, beyond the agent's own time: set-up and waiting for replies


class Fleet(Protocol):
    """What the controller needs of the machines. Tests pass one without Ray."""

    @property
    def slots(self) -> int:
        """Episodes that can run at once."""
        ...

    async def play(self, assignment: Assignment, *, demonstrate: bool = False) -> Episode:
        """Play an episode on a free worker. A dead worker is a failed episode, never an error."""
        ...

    async def step(self, samples: Sequence[Sample], version: int) -> StepMetrics: ...

    async def imitate(self, samples: Sequence[Sample]) -> StepMetrics: ...

    async def forget_moments(self) -> None:
        """Start the optimiser afresh: the warm start's moments are not RL's."""
        ...

    async def publish(self, version: int) -> dict[str, float]:
        """Bring the trainer's weights to the engine as ``version``; return seconds by part."""
        ...

    async def save(self, step: int, version: int, warmed: bool) -> str: ...

    async def load(self, checkpoint: str) -> None: ...

    async def export(self, folder: str) -> str: ...

    async def score(
        self, token_ids: Sequence[Sequence[int]], temperature: float
    ) -> list[list[float]]:
        """Return the served policy's log-probs of the 2nd to last token of each sequence.

        Raises:
            PolicyError: no answer.
        """
        ...

    async def likeliest(
        self,
        sequences: Sequence[tuple[Sequence[int], int]],
        temperature: float,
        num_likeliest: int,
    ) -> list[TopK]:
        """Return the trained policy's likeliest tokens in place of the last so many of each
        sequence."""
        ...

    async def heal(self) -> None:
        """Start the policy server again if it died; a living one is left alone."""
        ...

    async def release(self) -> None:
        """Let requests that were held since the start go on. Raises ``PolicyError``."""
        ...

    async def push_quality(self, version: int, score: float, judged: int) -> None:
        """Show users how the latest replies were judged; a server that is away is no error."""
        ...


class RayFleet:
    """The fleet on Ray. An async context manager.

    Args:
        config: of the run.
        run_id: unique; part of every label and name.
        folder: the run folder.
        serving: where and how the policy is served; by default to this run's workers alone.
        num_workers: rollout workers; by default the configuration's number.
    """

    def __init__(
        self,
        config: RunConfig,
        run_id: str,
        folder: Path,
        serving: Serving | None = None,
        num_workers: int | None = None,
    ) -> None:
        self.config, self.run_id, self.folder = config, run_id, folder
        self.serving = serving or Serving(secrets.token_urlsafe(24))
        self.num_workers = config.rollout.workers if num_workers is None else num_workers
        self.address = PolicyAddress("", self.serving.api_key)
        self.publish_folder = _publish_folder(run_id, folder, config.ray.address is None)
        self._policy: Any = None
        self._trainer: Any = None
        self._workers: dict[str, Any] = {}
        self._load: dict[str, int] = {}
        self._slot_free = asyncio.Condition()
        self._client: Any = None
        self._published: tuple[str, int] | None = None
        self._generation = 0

    @property
    def slots(self) -> int:
        """Episodes that can run at once."""
        return self.num_workers * self.config.rollout.episodes_per_worker

    async def __aenter__(self) -> "RayFleet":
        try:
            await self._start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def _start(self) -> None:
        await cluster.connect(self.config.ray.address)
        await self._start_policy(self.serving.port)
        self._trainer = RankGroup(self.config, self.run_id, self.folder, self.publish_folder)
        for _ in range(self.num_workers):
            self._start_worker()
        await self._trainer.start()
        if self.config.lora.quantize != "none":
            await self.publish(0)  # the engine is to sample from the base as it is trained
        for worker in list(self._workers.values()):
            await called(worker.ping.remote(), START_TIMEOUT_S, "a rollout worker to start")

    async def __aexit__(self, *_: object) -> None:
        for worker in self._workers.values():
            await quietly(worker.close.remote(), 60.0)
        if self._client is not None:
            await self._client.close()
        if self._policy is not None:
            await quietly(self._policy.close.remote(), 20.0)
        await asyncio.get_running_loop().run_in_executor(None, self._shutdown)

    async def play(self, assignment: Assignment, *, demonstrate: bool = False) -> Episode:
        """Play an episode on the least busy worker."""
        async with self._slot_free:
            await self._slot_free.wait_for(self._has_room)
            name = min(self._load, key=lambda n: self._load[n])
            self._load[name] += 1
        try:
            episode = await self._play_on(name, assignment, demonstrate)
        finally:
            async with self._slot_free:
                if name in self._load:
                    self._load[name] -= 1
                self._slot_free.notify_all()
        if episode.stop_reason == StopReason.POLICY_ERROR:
            await self._revive_policy()
        return episode

    async def _play_on(self, name: str, assignment: Assignment, demonstrate: bool) -> Episode:
        from ray.exceptions import RayActorError, RayError

        worker = self._workers[name]
        method = worker.demonstrate if demonstrate else worker.play
        limit = self.config.agent.time_limit_s + PATIENCE_S
        try:
            episode: Episode = await bounded(method.remote(assignment), limit, "an episode")
            return episode
        except RayActorError as error:
            await self._replace_worker(name)
            return assignment.record(StopReason.WORKER_LOST, error=one_line(error))
        except StalledError as error:
            return assignment.record(StopReason.WORKER_LOST, error=one_line(error))
        except RayError as error:
            return assignment.record(StopReason.ENV_ERROR, error=one_line(error))

    async def step(self, samples: Sequence[Sample], version: int) -> StepMetrics:
        """Take a policy-gradient step on the trainer."""
        return await self._trainer.call("step", samples, version)  # type: ignore[no-any-return]

    async def imitate(self, samples: Sequence[Sample]) -> StepMetrics:
        """Take a supervised step on the trainer."""
        return await self._trainer.call("imitate", samples)  # type: ignore[no-any-return]

    async def publish(self, version: int) -> dict[str, float]:
        """Write, load, switch; requests in flight wait and go on."""
        from serving.errors import PolicyError

        path, write_s = await self._trainer.call("publish", version)
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            await self._load_weights(path, version)
        except PolicyError as error:
            log.warning("the policy server did not take the weights: %s", error)
            await self._revive_policy()
            await self._load_weights(path, version)
        self._published = (path, version)
        return {"publish_write_s": write_s, "publish_load_s": loop.time() - started}

    async def forget_moments(self) -> None:
        """Start the optimiser afresh."""
        await self._trainer.call("forget_moments")

    async def save(self, step: int, version: int, warmed: bool) -> str:
        """Write a checkpoint."""
        return str(await self._trainer.call("save", step, version, warmed))

    async def load(self, checkpoint: str) -> None:
        """Continue from a checkpoint."""
        await self._trainer.call("load", checkpoint)

    async def export(self, folder: str) -> str:
        """Write the trained model."""
        return str(await self._trainer.call("export", folder))

    async def score(
        self, token_ids: Sequence[Sequence[int]], temperature: float
    ) -> list[list[float]]:
        """Ask the policy server. Raises ``PolicyError``."""
        scored: list[list[float]] = await self._client.score(token_ids, temperature)
        return scored

    async def likeliest(
        self,
        sequences: Sequence[tuple[Sequence[int], int]],
        temperature: float,
        num_likeliest: int,
    ) -> list[TopK]:
        """Ask the trainer."""
        found: list[TopK] = await self._trainer.call(
            "likeliest", sequences, temperature, num_likeliest
        )
        return found

    async def release(self) -> None:
        """Resume the engine. Raises ``PolicyError``."""
        await self._client.resume()

    async def heal(self) -> None:
        """Start the policy server again if it died."""
        await self._revive_policy()

    async def push_quality(self, version: int, score: float, judged: int) -> None:
        """Tell the policy server; it shows the curve."""
        from serving.errors import PolicyError

        try:
            await self._client.push_quality(version, score, judged, time.time())
        except PolicyError as error:
            log.warning("the curve of quality was not updated: %s", error)

    # ------------------------------------------------------------- inside

    def _shutdown(self) -> None:
        import ray

        ray.shutdown()
        shutil.rmtree(self.publish_folder, ignore_errors=True)

    async def _start_policy(self, port: int) -> None:
        from serving.client import PolicyClient

        self._generation += 1
        first = self._client is None
        serving = replace(self.serving, port=port, held=self.serving.held and first)
        self._policy = actor(PolicyHost, name=f"{self.run_id}-policy-{self._generation}").remote(
            self.config, serving
        )
        base_url = await called(
            self._policy.start.remote(), START_TIMEOUT_S, "the policy server to start"
        )
        self.address = PolicyAddress(str(base_url), self.serving.api_key)
        if self._client is None:
            key = self.serving.admin_key or self.serving.api_key
            self._client = PolicyClient(self.address.base_url, key)
        if self._published is not None:
            await self._load_weights(*self._published)

    async def _load_weights(self, path: str, version: int) -> None:
        call = self._client.load_weights(Path(path), version)
        await bounded(call, LOAD_TIMEOUT_S, "the policy server to load weights")

    async def _revive_policy(self) -> None:
        """Start the policy server again if it is dead; leave a living one alone."""
        from ray.exceptions import RayActorError

        policy = self._policy
        try:
            await bounded(policy.address.remote(), 60.0, "the policy server to answer")
        except RayActorError as error:
            if policy is self._policy:
                log.warning("the policy server died (%s); starting it again", one_line(error))
                try:
                    await self._start_policy(urlsplit(self.address.base_url).port or 0)
                except (RlError, RayActorError) as failure:
                    log.warning("it could not be started again: %s", one_line(failure))
        except StalledError as error:
            log.warning("%s", error)

    def _start_worker(self) -> None:
        self._generation += 1
        name = f"w{self._generation}"
        slots = self.config.rollout.episodes_per_worker
        self._workers[name] = actor(
            RolloutWorker, name=f"{self.run_id}-{name}", max_concurrency=slots + 4
        ).remote(self.config, self.run_id, name, self.address)
        self._load[name] = 0

    async def _replace_worker(self, name: str) -> None:
        """Reap what a dead worker left, then start another. Once per worker."""
        if self._workers.pop(name, None) is None:
            return
        self._load.pop(name, None)
        from envs.errors import MissingDependency
        from envs.sandbox.reaper import reap

        log.warning("rollout worker %s died; its sandboxes are removed and a new one starts", name)
        try:
            await asyncio.get_running_loop().run_in_executor(None, reap, self.run_id)
        except MissingDependency as error:
            log.warning("its sandboxes are left to the reaper: %s", error)
        self._start_worker()

    def _has_room(self) -> bool:
        return (
            bool(self._load) and min(self._load.values()) < self.config.rollout.episodes_per_worker
        )


def _publish_folder(run_id: str, folder: Path, one_machine: bool) -> Path:
    """Weights for the engine go through memory where trainer and engine share one that has room;
    on a cluster through the run folder, which every node must see."""
    memory = Path("/dev/shm")
    if not (one_machine and memory.is_dir()):
        return folder / "publication"
    for left in memory.glob("clawgym-*"):
        pid = left.name.rsplit("-", 1)[-1]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)
    if shutil.disk_usage(memory).free < MEMORY_NEEDED:
        return folder / "publication"
    return memory / f"clawgym-{run_id}"
