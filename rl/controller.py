"""The controller: evaluates, warms up, then lets collecting and training feed each other.

    evaluate → (warm start → evaluate) → [groups → annotate → step → publish] × steps → evaluate

It alone wires the parts; none of them knows it. Every wait is bounded or reports progress. What
is done is in the store and the checkpoint, so a run that ends anywhere goes on from there.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from agents.episode import Assignment
from envs.types import Task
from rl import checkpoint, staleness
from rl.advantages import Baselines
from rl.algorithms import (
    GroupOutcome,
    SignalSource,
    annotate_group,
    demonstrations,
    group_metrics,
    require_signals,
)
from rl.collector import Collector
from rl.console import Progress
from rl.errors import BatchRefused, GuardBreach, RlError, RunError
from rl.evaluation import Evaluation, evaluate
from rl.fleet import Fleet
from rl.guards import breaches
from rl.metrics import Metrics
from rl.recovery import Recovery
from rl.schedule import Schedule
from rl.settings import RunConfig
from rl.store import Store
from rl.tasksets import TaskSets
from rl.types import Sample, StepMetrics
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
        signals: what judges and teachers say about turns; None when rewards are all there is.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        fleet: Fleet,
        tasks: TaskSets,
        store: Store,
        metrics: Metrics,
        signals: SignalSource | None = None,
    ) -> None:
        self.config, self.folder, self.fleet = config, folder, fleet
        self.tasks, self.store, self.metrics = tasks, store, metrics
        self.signals = signals
        self.baselines = Baselines()
        self.recovery = Recovery(config.guards)
        self.step = 0
        self.version = 0
        self.warmed = config.warmstart.kind == "none"
        self._saved: tuple[int, int] | None = None
        self._stepping = False

    async def run(self) -> None:
        """Play the whole run, from wherever its folder left off.

        Raises:
            RunError, StoreError, CheckpointError: with the first cause; what was acknowledged is
                kept.
        """
        require_signals(self.config.algorithm, self.signals)
        freed = await self._resume()
        if self.version == 0:
            await self.evaluate("start")
        if not self.warmed:
            await self._warm_start()
        if self.config.warmstart.kind != "none" and self.step == 0:
            await self.evaluate("warmstart")
        try:
            await self._reinforce(freed)
        except asyncio.CancelledError:
            await asyncio.shield(self._save())
            raise
        except Exception:
            await self._save_if_whole()
            raise
        await self._save()
        await self.evaluate("final")

    async def evaluate(self, label: str) -> Evaluation:
        """Play the held-out tasks; what an interrupted run has played already is kept."""
        kind, settings = f"eval:{label}@{self.step:06d}", self.config.evaluation
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
            raise RunError(f"no held-out episode could be played: {self._first_loss(kind)}")
        values = {"success": result.rate, "tasks": len(result.success), "lost": result.lost}
        if not self.metrics.has(f"eval:{label}", self.step):
            self.metrics.write(f"eval:{label}", self.step, values)
        return result

    # ------------------------------------------------------------- phases

    async def _resume(self) -> dict[int, list[str]]:
        """Load the last whole checkpoint and free what was consumed after it."""
        for meta, path in checkpoint.candidates(self.folder / "checkpoints"):
            try:
                await self.fleet.load(str(path))
            except RunError as error:
                log.warning("%s is not used: %s", path, error)
                continue
            self.step, self.version, self.warmed = meta.step, meta.version, meta.warmed
            self._saved = (meta.step, meta.version)
            await self.fleet.publish(self.version)
            log.info("resumed at step %d, policy version %d", self.step, self.version)
            break
        self.metrics.rewind(self.step, self.warmed)
        if forgiven := self.store.forgive():
            log.info("%d episodes that the machine failed will be played again", forgiven)
        freed = self.store.rewind(self.step)
        state = self.store.learner_state()
        self.baselines.values = dict(state.get("baselines", {}))
        self.recovery.load_state(state.get("recovery", {"proven": self.version}))
        return freed

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
            raise RunError(f"no demonstration succeeded: {self._first_loss('demo')}")
        await self._imitate(samples)
        await self.fleet.forget_moments()
        self.warmed = True
        await self._publish()
        await self._save()

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
        await collector.start(replay, self.version)
        steps = self.config.optim.steps
        with Progress("reinforcement", steps, done=self.step) as progress:
            try:
                while self.step < steps:
                    begun = time.monotonic()
                    groups = await collector.take(self.config.rollout.groups_per_step)
                    progress.advance(await self._whole_step(collector, groups, begun))
                    every = self.config.evaluation.every
                    if every and self.step % every == 0 and self.step < steps:
                        await self.evaluate(f"step{self.step:04d}")
            finally:
                await collector.stop()

    async def _whole_step(self, collector: Collector, groups: list[str], begun: float) -> str:
        """Learn from a batch; a step that has begun is finished even when the run is interrupted,
        so that weights, store and version always tell the same story."""
        self._stepping = True
        step = asyncio.create_task(self._learn(groups, time.monotonic() - begun, begun))
        try:
            line = await asyncio.shield(step)
        except asyncio.CancelledError:
            log.info("finishing the step that has begun")
            await step
            self._stepping = False
            raise
        self._stepping = False
        await collector.learned(self.version)
        if self.step % self.config.checkpoint.every == 0 and not self.recovery.refused:
            await self._save()
        return line

    async def _learn(self, groups: list[str], waited_s: float, begun: float) -> str:
        """Annotate, step, consume, publish, write down; return a line for people."""
        outcomes = {group: self._annotate(group) for group in groups}
        if not any(outcome.rewards for outcome in outcomes.values()):
            raise RunError(f"every episode of a batch was lost; {self._first_loss('train')}")
        samples = [sample for o in outcomes.values() for sample in o.samples]
        summary = group_metrics(outcomes.values())
        result, refusal = await self._try_step(samples, summary)
        named = {
            group: refusal.outcome if refusal and o.samples else o.outcome
            for group, o in outcomes.items()
        }
        self.store.consume(self.step + 1, named, self._learner_state())
        self.step += 1
        published = {} if refusal or not samples else await self._publish()
        if refusal and self.recovery.due:
            published = await self._roll_back()
        values: dict[str, Any] = {
            **result.values,
            **published,
            **summary,
            **({"refused": 1, "reason": str(refusal)} if refusal else {}),
            "wait_s": waited_s,
            "step_s": time.monotonic() - begun,
            "version": self.version,
        }
        self.metrics.write("rl", self.step, values)
        if refusal:
            return f"reward {values['reward']:.2f}  skipped: {refusal}"
        gap = values.get("logprob_gap_mean", 0.0)
        return (
            f"reward {values['reward']:.2f}  informative {values['groups_trained']}/{len(groups)}  "
            f"tokens {int(values.get('trained_tokens', 0))}  log-prob gap {gap:.1e}"
        )

    async def _try_step(
        self, samples: Sequence[Sample], summary: dict[str, Any]
    ) -> tuple[StepMetrics, BatchRefused | None]:
        """Take the step, or count why it was refused."""
        try:
            if out := list(breaches(summary, self.config.guards)):
                raise GuardBreach("; ".join(out))
            result = await self.fleet.step(samples, self.version)
        except BatchRefused as error:
            self.recovery.refuse(error)
            return StepMetrics(), error
        if samples:
            self.recovery.accept(samples)
        return result, None

    async def _roll_back(self) -> dict[str, float]:
        """Serve and train the last good weights again, under a version of their own."""
        found = checkpoint.candidates(self.folder / "checkpoints")
        meta, path = self.recovery.choose(found)
        await self.fleet.load(str(path))
        published = await self._publish()
        self.recovery.rolled_back(self.version)
        self.store.remember(self.step, self._learner_state())
        log.warning(
            "rolled back to the weights of version %d (step %d), now version %d; what newer ones "
            "sampled is left out", meta.version, meta.step, self.version,
        )  # fmt: skip
        await self._save()
        return {**published, "rolled_back_to": float(meta.version)}

    def _learner_state(self) -> dict[str, Any]:
        return {"baselines": self.baselines.values, "recovery": self.recovery.state()}

    def _annotate(self, group: str) -> GroupOutcome:
        """Annotate a group; one that became too stale is dropped or masked, with that reason."""
        episodes = [e for e in self.store.group(group) if e.reward is not None]
        oldest = min((v for e in episodes if (v := e.oldest_version) is not None), default=None)
        rewards = [float(e.reward) for e in episodes if e.reward is not None]
        if oldest is not None and oldest < self.recovery.floor:
            return GroupOutcome([], "rolled_back", rewards)
        rollout = self.config.rollout
        bound = self.version - rollout.max_staleness
        stale = oldest is not None and oldest < bound
        if stale and rollout.staleness != "mask":
            return GroupOutcome([], "stale", rewards)
        outcome = annotate_group(
            episodes, self.config.algorithm, rollout, self.signals, self.baselines
        )
        if not stale:
            return outcome
        samples, masked = staleness.mask(outcome.samples, bound)
        outcome.skipped["stale_tokens"] += masked
        return replace(outcome, samples=samples, outcome=outcome.outcome if samples else "stale")

    async def _publish(self) -> dict[str, float]:
        timings = await self.fleet.publish(self.version + 1)
        self.version += 1
        return timings

    async def _save(self) -> None:
        if self._saved != (self.step, self.version) and self.version > 0:
            await self.fleet.save(self.step, self.version, self.warmed)
            self._saved = (self.step, self.version)

    async def _save_if_whole(self) -> None:
        """Save on the way out of an error, unless it struck in the middle of a step: then the last
        checkpoint is the truth. The error itself is what the run reports."""
        if self._stepping:
            return
        try:
            await self._save()
        except RlError as error:
            log.warning("not saved: %s", error)

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

    def _first_loss(self, kind: str) -> str:
        lost = self.store.losses(kind)
        return f"{lost[0][1]}: {lost[0][2]}" if lost else "there were none to play"
