"""The live run: follow the gateway's journal, judge what has got its next state, learn, publish.

What is judged is in the store before it counts, and a turn is one group, so ``kill -9`` at any
moment loses no acknowledged turn and trains none twice: after a restart the journal is read again
and what the store knows is passed over; batches whose weights were lost are formed again.

A judge that is away delays its turns, which is logged; it never becomes a score.
"""

import asyncio
import json
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agents.types import Episode
from rl import hints
from rl.errors import RunError
from rl.fleet import Fleet
from rl.judge.asking import Asker
from rl.judge.feedback import SOURCE as FEEDBACK
from rl.judge.pipeline import Pipeline
from rl.judge.types import Exchange
from rl.learner import Learner
from rl.live import records
from rl.live.assembly import Assembly
from rl.live.backlog import Backlog
from rl.live.patience import Patience
from rl.live.teacher import ChatTeacher
from rl.metrics import Metrics
from rl.settings import RunConfig
from rl.store import Store
from rl.types import TurnSignal
from serving.journal import Reader
from serving.turns import Turn

log = logging.getLogger(__name__)

STATUS = "live.json"  # in the run folder
POLL_S = 0.25
HEAL_S = 5.0
STANDING_TASKS = 2  # the follower and the one that keeps serving
MOST_READ = 500


class LiveLoop:
    """Learns from live conversations until it is cancelled, or ``optim.steps`` are done.

    Args:
        config: of the run.
        folder: the run folder.
        fleet: policy server and trainer.
        store, metrics: open, of the same folder.
        journal: folder of the gateway's turns.
        judge: looks at exchanges.
        teacher: scores hints.
        ready: called once the latest weights are served and all is caught up with.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        fleet: Fleet,
        store: Store,
        metrics: Metrics,
        journal: Path,
        judge: Pipeline,
        teacher: ChatTeacher,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.config, self.folder, self.fleet, self.store = config, folder, fleet, store
        self.patience = Patience(folder)
        self.learner = Learner(
            config, folder, fleet, store, metrics, self._signals_of, self.patience
        )
        self.assembly = Assembly(config.chat.idle_s, config.chat.feedback_grace_s)
        self.counts: Counter[str] = Counter()
        self._judge, self._teacher, self._ready = Asker(judge, self.counts), teacher, ready
        self._reader = Reader(journal)
        self._cursors = {"turns": 0, "feedback": 0, "forgotten": 0}
        self.backlog = Backlog(config)
        self._taught: dict[str, TurnSignal] = {}
        self._exchanges: dict[str, Exchange] = {}  # of waiting turns, for late feedback
        self._replay: deque[list[str]] = deque()
        self._judged_now: set[str] = set()  # episode ids
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy = False
        self._stopped = ""  # why learning is over, while the conversation goes on
        self._shown = ""

    async def run(self) -> None:
        """Go on from wherever the folder left off.

        Raises:
            RunError, StoreError, CheckpointError: with the first cause; nothing acknowledged is
                lost.
        """
        freed = await self.learner.resume()
        self._replay.extend(freed[step] for step in sorted(freed))
        await self._catch_up()
        await self.fleet.release()
        try:
            async with asyncio.TaskGroup() as group:
                self._spawn(group, self._follow(group))
                self._spawn(group, self._keep_serving())
                for name in self.backlog:
                    if self.assembly.num_feedback(records.turn_id(name)):
                        self._spawn(group, self._reconsider(records.turn_id(name)))
                self._ready()
                await self._learn()
                for task in self._tasks:
                    task.cancel()
        except asyncio.CancelledError:
            await asyncio.shield(self.learner.save())
            raise
        except BaseException:
            await self.learner.save_if_whole()
            raise
        finally:
            self._reader.close()
        await self.learner.save()

    def _spawn(self, group: asyncio.TaskGroup, call: Coroutine[Any, Any, None]) -> None:
        task = group.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------- what was said

    async def _catch_up(self) -> None:
        """Read the journal from its beginning; what is in the store is judged already."""
        known, consumed = self.store.ids(), self.store.consumed()
        while rows := await self._read("turns"):
            for turn in rows:
                self.assembly.turn(turn, judged=records.episode_id(turn.id) in known)
        while rows := await self._read("feedback"):
            for feedback in rows:
                self.assembly.feedback(feedback)
        await self._forget()
        now = time.monotonic()
        replayed = {name for batch in self._replay for name in batch}
        for name in self.store.group_ids():
            signal = self.store.signals(name).get(0)
            if signal is not None and name not in consumed and name not in replayed:
                self.backlog.add(signal, self._turn(name), now)
        if known:
            log.info(
                "%d judged turns on record, %d of them not yet learned from, %d wait for what "
                "comes next", len(known), len(self.backlog), self.assembly.num_waiting,
            )  # fmt: skip

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        while True:
            for turn in await self._read("turns"):
                self.assembly.turn(turn)
            for feedback in await self._read("feedback"):
                if not self.assembly.feedback(feedback):
                    self._spawn(group, self._reconsider(feedback.turn))
            await self._forget()
            for exchange in self.assembly.due():
                self._spawn(group, self._consider(exchange))
            self._show()
            await asyncio.sleep(POLL_S)

    def status(self) -> dict[str, Any]:
        """Return where the run stands, for people and programs that wait for it."""
        return {
            "step": self.learner.step,
            "version": self.learner.version,
            "awaiting_next_state": self.assembly.num_waiting,
            "being_judged": len(self._tasks) - STANDING_TASKS,
            "ready_to_learn": self.backlog.num_useful,
            "batch": self.config.chat.batch,
            "learning": self._busy,
            "stopped_learning": self._stopped,
            "waiting_for_space": self.patience.reason,
            **self.counts,
            "not_learned_from": dict(self.assembly.skipped),
        }

    def _show(self) -> None:
        """Keep ``STATUS`` in the run folder up to date."""
        status = json.dumps(self.status())
        if status == self._shown:
            return
        part = self.folder / f"{STATUS}.part"
        try:
            part.write_text(status + "\n")
            part.replace(self.folder / STATUS)
        except OSError as error:  # a full disk: the store will say so where it matters
            log.debug("%s: %s", STATUS, error)
        self._shown = status

    async def _keep_serving(self) -> None:
        """Have a policy server that died started again, with its weights and conversations."""
        while True:
            await asyncio.sleep(HEAL_S)
            self.patience.look()
            await self.fleet.heal()

    async def _read(self, table: str) -> list[Any]:
        """Return the journal's new rows of a table."""
        read = getattr(self._reader, f"{table}_after")
        rows = await asyncio.to_thread(read, self._cursors[table], MOST_READ)
        if rows:
            self._cursors[table] = rows[-1][0]
        return [row for _, row in rows]

    async def _forget(self) -> None:
        """Remove what its user had removed, here too."""
        while gone := await self._read("forgotten"):
            names = [records.episode_id(turn_id) for turn_id in gone]
            await self.learner.written(partial(self.store.remove, names))
            for turn_id, name in zip(gone, names, strict=True):
                self.assembly.remove(turn_id)
                self.backlog.pop(name)
                self._exchanges.pop(name, None)

    # ------------------------------------------------------------- what it was worth

    async def _consider(self, exchange: Exchange) -> None:
        """Judge a turn and keep what was found."""
        name = records.episode_id(exchange.id)
        self._judged_now.add(name)
        try:
            signal = await self._judged(exchange)
        finally:
            self._judged_now.discard(name)
        if signal is None:
            return
        async with self._changed:
            self.backlog.add(signal, self._turn(name), time.monotonic())
            self._exchanges[name] = exchange
            self._changed.notify_all()
        if self.assembly.num_feedback(exchange.id) > len(exchange.feedback):
            await self._reconsider(exchange.id)

    async def _reconsider(self, turn_id: str) -> None:
        """Feedback came after a turn was judged: it overrides, unless the turn is learned from."""
        name = records.episode_id(turn_id)
        if name in self._judged_now:
            return  # seen once its judgement is there
        exchange = self.assembly.exchange(turn_id, self._exchanges.get(name))
        if exchange is None or name not in self.backlog:
            self.counts["late_feedback"] += 1
            log.info("feedback on a turn that was learned from already, or is not known: not used")
            return
        signal = await self._judged(exchange, again=True)
        if signal is None:
            return
        async with self._changed:
            self.backlog.change(signal)
            self._changed.notify_all()

    async def _judged(self, exchange: Exchange, *, again: bool = False) -> TurnSignal | None:
        """Return what is kept of a turn; None when it was removed meanwhile, or when feedback that
        came late says nothing of how good it was."""
        judgement = await self._judge(exchange)
        hint = hints.make_hint(exchange, judgement)
        turn = self.assembly.get(exchange.id)
        if turn is None or (again and judgement.source != FEEDBACK):
            return None
        signal = records.signal_of(turn, exchange, judgement, hint)
        if again:
            await self._kept(self.store.say, [signal])
        else:
            episode = records.episode_of(turn, exchange, judgement)
            await self._kept(self.store.append, episode, "train", [signal])
            if self.assembly.get(exchange.id) is None:  # removed while it was written
                await self._kept(self.store.remove, [episode.id])
                return None
        self.counts[f"judged_{judgement.score:+d}"] += 1
        log.info(
            "judged %+d by %s%s (version %s)", judgement.score, judgement.source,
            ", with a hint" if hint else "", turn.versions_T[-1] if turn.versions_T else "?",
        )  # fmt: skip
        return signal

    async def _kept(self, write: Callable[..., Any], *what: Any) -> None:
        """Write to the store, in another thread, once there is space."""
        await self.learner.written(partial(asyncio.to_thread, write, *what))

    # ------------------------------------------------------------- what is learned

    async def _learn(self) -> None:
        while self.learner.step < self.config.optim.steps:
            begun = time.monotonic()
            batch = await self._take()
            self._busy = True
            signals = {name: self._known(name) for name in batch}
            asked = {
                name: (turn, self.assembly.history(turn.id), signal)
                for name, signal in signals.items()
                if signal is not None and (turn := self._turn(name)) is not None
            }
            taught = await self._teacher(asked)
            batch = [name for name in batch if self.store.group(name)]  # not removed meanwhile
            if not batch:
                self._busy = False
                continue
            self._taught = taught.signals
            try:
                line = await self.learner.take_step(batch, begun)
            except RunError as error:
                await self._serve_on(error)
            for name in batch:
                self.backlog.pop(name)
                self._exchanges.pop(name, None)
            self._busy = False
            unused = "".join(f", {n} {reason}" for reason, n in taught.refused.items())
            log.info("step %d: %d turns, %s%s", self.learner.step, len(batch), line, unused)
            await self.learner.written(self.learner.save_if_due)
            await self._show_quality(asked)

    async def _serve_on(self, error: RunError) -> None:
        """Learning is over, talking is not: nobody is cut off because of training."""
        log.error("learning has stopped, the conversation goes on: %s", error)
        self._stopped, self._busy = str(error), False
        await asyncio.Event().wait()

    async def _show_quality(self, asked: Mapping[str, tuple[Turn, Any, TurnSignal]]) -> None:
        """Tell how the replies of each version were judged."""
        scores: dict[int, list[int]] = {}
        for turn, _, signal in asked.values():
            if signal.score and turn.versions_T:
                scores.setdefault(turn.versions_T[-1], []).append(signal.score)
        for version, given in sorted(scores.items()):
            await self.fleet.push_quality(version, sum(given) / len(given), len(given))

    async def _take(self) -> list[str]:
        """Wait until a batch is due, and return it with the turns that teach nothing any more."""
        while self._replay:
            if kept := [name for name in self._replay.popleft() if self.store.group(name)]:
                return kept
        async with self._changed:
            while not (batch := self.backlog.due(time.monotonic(), self.learner.version)):
                try:
                    await asyncio.wait_for(self._changed.wait(), 1.0)
                except TimeoutError:
                    continue
        return batch

    def _known(self, name: str) -> TurnSignal | None:
        return self.backlog.signal(name) or self.store.signals(name).get(0)

    def _turn(self, name: str) -> Turn | None:
        return self.assembly.get(records.turn_id(name))

    def _signals_of(self, episode: Episode) -> Mapping[int, TurnSignal]:
        signal = self._taught.get(episode.id)
        return {} if signal is None else {0: signal}


def summary(counts: Counter[str], skipped: Counter[str]) -> Sequence[str]:
    """Return lines for people on what became of all turns."""
    return [f"{number} {name}" for name, number in [*counts.items(), *skipped.items()]]
