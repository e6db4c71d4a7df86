"""The controller: evaluates, warms up, then lets collecting and training feed each other.

    evaluate → (warm start → evaluate) → [groups → annotate → step → publish] × steps → evaluate

It alone wires the parts; none of them knows it. Every wait is bounded or reports progress. What
is done is in the store and the checkpoint, so a run that ends anywhere goes on from there.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agents.episode import Assignment
from envs.types import Task
from rl.algorithms import demonstrations
from rl.collector import Collector
from rl.console import Progress
from rl.errors import RunError
from rl.evaluation import Evaluation, evaluate
from rl.fleet import Fleet
from rl.hindsight import Hindsight
from rl.learner import Learner, first_loss
from rl.metrics import Metrics
from rl.schedule import Schedule
from rl.settings import RunConfig
from rl.store import Store
from rl.tasksets import TaskSets
from rl.types import Sample
from serving.types import Sampling

log = logging.getLogger(__name__)


class Controller:
    """One run.

    Args:
        config: of the run.
        folder: the run folder.
        fleet: the machines.
        tasks: training and held-out tasks.
        store, metrics: open, of the same folder.
        hindsight: what followed each turn, for methods that learn from it; None when rewards are
            all there is.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        fleet: Fleet,
        tasks: TaskSets,
        store: Store,
        metrics: Metrics,
        hindsight: Hindsight | None = None,
    ) -> None:
        self.config, self.fleet, self.tasks = config, fleet, tasks
        self.store, self.metrics = store, metrics
        self.hindsight = hindsight
        self.learner = Learner(config, folder, fleet, store, metrics, hindsight)

    async def run(self) -> None:
        """Play the whole run, from wherever its folder left off.

        Raises:
            RunError, StoreError, CheckpointError, NoSpaceError: with the first cause; what was
                acknowledged is kept.
        """
        freed = await self.learner.resume()
        try:
            await self._phases(freed)
        except asyncio.CancelledError:  # in whatever phase
            await asyncio.shield(self.learner.save())
            raise
        except Exception:
            await self.learner.save_if_whole()
            raise

    async def _phases(self, freed: dict[int, list[str]]) -> None:
        if self.learner.version == 0:
            await self.evaluate("start")
        if not self.learner.warmed:
            await self._warm_start()
        if self.config.warmstart.kind != "none" and self.learner.step == 0:
            await self.evaluate("warmstart")
        await self._reinforce(freed)
        await self.learner.save()
        await self.evaluate("final")

    async def evaluate(self, label: str) -> Evaluation:
        """Play the held-out tasks; what an interrupted run has played already is kept."""
        kind, settings = f"eval:{label}@{self.learner.step:06d}", self.config.evaluation
        known = {e.id for e in self.store.episodes(kind) if e.reward is not None}
        waiting = [
            assignment
            for index, task in enumerate(self.tasks.heldout)
            for sample in range(settings.samples)
            if (assignment := self._evaluation(kind, task, index, sample)).episode_id not in known
        ]
        with Progress(f"evaluation ({label})", len(waiting)) as progress:
            await self._all(
                lambda a=assignment: self._play(a, kind, progress)  # type: ignore[misc]
                for assignment in waiting
            )
        result = evaluate(self.store.episodes(kind))
        log.info("held-out success (%s): %s", label, result.interval())
        if not result.success:
            raise RunError(f"no held-out episode could be played: {first_loss(self.store, kind)}")
        values = {"success": result.rate, "tasks": len(result.success), "lost": result.lost}
        if not self.metrics.has(f"eval:{label}", self.learner.step):
            self.metrics.write(f"eval:{label}", self.learner.step, values)
        return result

    # ------------------------------------------------------------- phases

    async def _warm_start(self) -> None:
        """Imitate oracle trajectories of training tasks; reported apart from RL."""
        settings = self.config.warmstart
        schedule = Schedule(self.tasks.train, self.config.seed + 7919)
        assignments = [
            Assignment(f"demo{i:05d}", f"demo{i:05d}", schedule.task(i), Sampling(), seed=i)
            for i in range(settings.demonstrations)
        ]
        known = {e.id for e in self.store.episodes("demo") if e.reward is not None}
        waiting = [a for a in assignments if a.episode_id not in known]
        with Progress("demonstrations", len(waiting)) as progress:
            await self._all(
                lambda a=a: self._play(a, "demo", progress, demonstrate=True)  # type: ignore[misc]
                for a in waiting
            )
        played = sorted(self.store.episodes("demo"), key=lambda episode: episode.id)
        samples = demonstrations(played)
        if not samples:
            raise RunError(f"no demonstration succeeded: {first_loss(self.store, 'demo')}")
        await self._imitate(samples)
        await self.fleet.forget_moments()
        self.learner.warmed = True
        await self.learner.publish()
        await self.learner.save()

    async def _imitate(self, samples: Sequence[Sample]) -> None:
        settings = self.config.warmstart
        rng = np.random.default_rng(self.config.seed)
        batches = [
            [samples[int(i)] for i in order[start : start + settings.batch]]
            for order in (rng.permutation(len(samples)) for _ in range(settings.epochs))
            for start in range(0, len(samples), settings.batch)
        ]
        with Progress("warm start", len(batches)) as progress:
            for index, batch in enumerate(batches):
                result = await self.fleet.imitate(batch)
                self.metrics.write("warmstart", index, result.values)
                progress.advance(f"loss {result.values.get('loss', float('nan')):.3f}")

    async def _reinforce(self, freed: dict[int, list[str]]) -> None:
        curriculum = self.config.rollout.curriculum
        schedule = Schedule(self.tasks.train, self.config.seed, curriculum)
        collector = Collector(self.config, self.fleet, self.store, schedule)
        replay = [group for step in sorted(freed) for group in freed[step]]
        await collector.start(replay, self.learner.version)
        steps = self.config.optim.steps
        with Progress("reinforcement", steps, done=self.learner.step) as progress:
            try:
                while self.learner.step < steps:
                    begun = time.monotonic()
                    groups = await collector.take(self.config.rollout.groups_per_step)
                    if self.hindsight is not None:
                        found = await self.hindsight.prepare(groups)
                        self.metrics.write("hindsight", self.learner.step + 1, dict(found))
                    line = await self.learner.take_step(groups, begun)
                    await collector.learned(self.learner.version)
                    await self.learner.save_if_due()
                    progress.advance(line)
                    every = self.config.evaluation.every
                    if every and self.learner.step % every == 0 and self.learner.step < steps:
                        await self.evaluate(f"step{self.learner.step:04d}")
            finally:
                await collector.stop()

    # ------------------------------------------------------------- inside

    def _evaluation(self, kind: str, task: Task, index: int, sample: int) -> Assignment:
        settings = self.config.evaluation
        seed = 10_000_019 + index * 64 * settings.samples + sample * 64
        return Assignment(
            episode_id=f"{kind}:{task.id}:{sample}",
            group_id=f"{kind}:{task.id}",
            task=task,
            sampling=Sampling(
                max_tokens=self.config.agent.max_reply_tokens,
                temperature=settings.temperature,
                seed=seed,
            ),
            seed=seed,
        )

    async def _play(
        self, assignment: Assignment, kind: str, progress: Progress, demonstrate: bool = False
    ) -> None:
        """Play one, again after a failure of the machine; only the last attempt is stored."""
        for attempt in range(self.config.rollout.max_retries + 1):
            episode = await self.fleet.play(assignment, demonstrate=demonstrate)
            if episode.reward is not None or attempt == self.config.rollout.max_retries:
                break
            log.warning(
                "lost %s: %s (%s)", episode.id, episode.stop_reason.value, episode.error[:200]
            )
            await asyncio.sleep(self.config.rollout.retry_wait_s * 2**attempt)
        self.store.append(episode, kind)
        progress.advance(f"{episode.stop_reason.value}")

    async def _all(self, calls: Iterable[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        """Run calls with as many at once as there are slots; the first error cancels the rest."""
        free = asyncio.Semaphore(self.fleet.slots)

        async def bounded(call: Callable[[], Coroutine[Any, Any, None]]) -> None:
            async with free:
                await call()

        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(bounded(call))
