"""From finished groups to new weights that are served: what every kind of run shares.

    annotate → guard → step → consume → publish → write down

The controller hands it groups of episodes, live chat groups of one turn; it does not know which.
Weights, store and version always tell the same story: a step that has begun is finished.
"""

import asyncio
import inspect
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rl import checkpoint, staleness
from rl.advantages import Baselines
from rl.algorithms import (
    GroupOutcome,
    SignalSource,
    annotate_group,
    group_metrics,
    require_signals,
)
from rl.errors import BatchRefused, GuardBreach, NoSpaceError, RlError, RunError
from rl.fleet import Fleet
from rl.guards import breaches
from rl.metrics import Metrics
from rl.recovery import Recovery
from rl.settings import RunConfig
from rl.store import Store
from rl.types import Sample, StepMetrics

log = logging.getLogger(__name__)


class Learner:
    """The learning half of one run.

    Args:
        config: of the run.
        folder: the run folder.
        fleet: the machines.
        store, metrics: open, of the same folder.
        signals: what judges and teachers say about turns; None when rewards are all there is.
        patience: waits while a disk is full; None: a full disk ends the run.

    Attributes:
        step: optimiser steps taken.
        version: of the weights that are served.
        warmed: whether the warm start is behind.

    Raises:
        MissingSignalError: the method needs a signal that nothing gives.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        fleet: Fleet,
        store: Store,
        metrics: Metrics,
        signals: SignalSource | None = None,
        patience: Callable[[NoSpaceError], Awaitable[None]] | None = None,
    ) -> None:
        require_signals(config.algorithm, signals)
        self._patience = patience
        self.config, self.folder, self.fleet = config, folder, fleet
        self.store, self.metrics, self.signals = store, metrics, signals
        self.baselines = Baselines()
        self.recovery = Recovery(config.guards)
        self.step = 0
        self.version = 0
        self.warmed = config.warmstart.kind == "none"
        self._saved: tuple[int, int] | None = None
        self._stepping = False

    async def resume(self) -> dict[int, list[str]]:
        """Load the last whole checkpoint and free what was consumed after it.

        Returns:
            optimiser step → its groups, of the steps whose weights are lost.
        """
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

    async def take_step(self, groups: Sequence[str], begun: float) -> str:
        """Learn from a batch; a step that has begun is finished even when the run is interrupted,
        so that weights, store and version always tell the same story.

        Args:
            groups: to be consumed.
            begun: monotonic time at which waiting for them began.

        Returns:
            a line for people.

        Raises:
            RunError, StoreError: with the first cause.
        """
        self._stepping = True
        step = asyncio.create_task(self._learn(groups, time.monotonic() - begun, begun))
        try:
            line = await asyncio.shield(step)
        except asyncio.CancelledError:
            log.info("finishing the step that has begun")
            self._patience = None  # nobody waits for space any more
            await step
            self._stepping = False
            raise
        self._stepping = False
        return line

    async def save_if_due(self) -> None:
        """Save every ``checkpoint.every`` steps, unless batches are being refused."""
        if self.step % self.config.checkpoint.every == 0 and not self.recovery.refused:
            await self.save()

    async def written(self, write: Callable[[], Any]) -> Any:
        """Write, again and again while the disk is full if the run has that patience.

        Raises:
            NoSpaceError: it has not.
        """
        while True:
            try:
                done = write()
                return await done if inspect.isawaitable(done) else done
            except NoSpaceError as error:
                if self._patience is None:
                    raise
                await self._patience(error)

    async def _learn(self, groups: Sequence[str], waited_s: float, begun: float) -> str:
        """Annotate, step, consume, publish, write down; return a line for people."""
        outcomes = {group: self._annotate(group) for group in groups}
        if not any(outcome.rewards for outcome in outcomes.values()):
            raise RunError(f"every episode of a batch was lost; {first_loss(self.store, 'train')}")
        samples = [sample for o in outcomes.values() for sample in o.samples]
        summary = group_metrics(outcomes.values())
        result, refusal = await self._try_step(samples, summary)
        named = {
            group: refusal.outcome if refusal and o.samples else o.outcome
            for group, o in outcomes.items()
        }
        state = self._learner_state()
        await self.written(lambda: self.store.consume(self.step + 1, named, state))
        self.step += 1
        published = {} if refusal or not samples else await self.written(self.publish)
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
        await self.written(lambda: self.metrics.write("rl", self.step, values))
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
        published: dict[str, float] = await self.written(self.publish)
        self.recovery.rolled_back(self.version)
        await self.written(lambda: self.store.remember(self.step, self._learner_state()))
        log.warning(
            "rolled back to the weights of version %d (step %d), now version %d; what newer ones "
            "sampled is left out", meta.version, meta.step, self.version,
        )  # fmt: skip
        await self.written(self.save)
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
        bound = self.version - math.ceil(rollout.max_staleness)
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

    async def publish(self) -> dict[str, float]:
        timings = await self.fleet.publish(self.version + 1)
        self.version += 1
        return timings

    async def save(self) -> None:
        if self._saved != (self.step, self.version) and self.version > 0:
            await self.fleet.save(self.step, self.version, self.warmed)
            self._saved = (self.step, self.version)

    async def save_if_whole(self) -> None:
        """Save on the way out of an error, unless it struck in the middle of a step: then the last
        checkpoint is the truth. The error itself is what the run reports."""
        if self._stepping:
            return
        try:
            await self.save()
        except RlError as error:
            log.warning("not saved: %s", error)


def first_loss(store: Store, kind: str) -> str:
    """Return the first cause of the first episode of a kind that the machine failed."""
    lost = store.losses(kind)
    return f"{lost[0][1]}: {lost[0][2]}" if lost else "there were none to play"
