"""Collecting groups: bounded staleness, retries of the machine's failures, resume of what is there.

New groups start only while accepted + running < (η + version + 1) · batch (AReaL, arXiv 2505.24298,
eq. 3). Consumed groups are version · batch, and a batch that is being learned is not published yet,
so in groups: ready + running + learning < (η + 1) · groups_per_step.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Sequence

from agents.episode import Assignment
from agents.types import Episode
from envs.types import Task
from rl.errors import StalledError
from rl.fleet import Fleet
from rl.schedule import Schedule, group_id, member_id, member_of
from rl.settings import RunConfig
from rl.store import Store
from serving.types import Sampling

log = logging.getLogger(__name__)


class Collector:
    """Keeps groups coming while the trainer works. ``start`` and ``stop`` bracket its life.

    Args:
        config: of the run.
        fleet: plays the episodes.
        store: keeps them; what it holds already is not played again.
        schedule: which task is whose.
    """

    def __init__(self, config: RunConfig, fleet: Fleet, store: Store, schedule: Schedule) -> None:
        self.config, self.fleet, self.store, self.schedule = config, fleet, store, schedule
        self.ready: deque[str] = deque()
        self.running: dict[str, asyncio.Task[None]] = {}
        self.last_progress = time.monotonic()
        self.version = 0  # of the weights that new episodes are sampled from
        self._born: dict[str, int] = {}  # version at which a group was started
        self._learning: list[str] = []  # taken, not yet published
        self._next = 0
        self._tasks: dict[str, Task] = {}
        self._changed = asyncio.Condition()
        self._producer: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    async def start(self, replay: Sequence[str] = (), version: int = 0) -> None:
        """Begin collecting.

        Args:
            replay: groups freed by a rewind, in the order in which they were consumed before.
            version: of the weights that are being served.
        """
        self.version = version
        for group, task_id in self.store.admitted().items():
            if (task := self.schedule.known(task_id)) is not None:
                self._tasks[group] = task
        consumed = self.store.consumed()
        self.ready.extend(replay)
        for group in self.store.group_ids():
            if self._missing(group):
                continue
            self._observe(group)
            if group not in consumed and group not in self.ready:
                self.ready.append(group)
        self._producer = asyncio.create_task(self._produce())

    async def take(self, count: int) -> list[str]:
        """Wait for ``count`` finished groups and take them, in order of completion.

        Under ``rollout.staleness=wait`` also for every running group that a step would make too
        old, and the oldest are taken first. They count as being learned until ``learned``.

        Raises:
            StalledError: no episode ended within ``rollout.stall_timeout_s``.
        """
        limit = self.config.rollout.stall_timeout_s
        self.last_progress = time.monotonic()
        async with self._changed:
            while len(self.ready) < count or self._overtakes():
                if self._failure is not None:
                    raise self._failure
                try:
                    await asyncio.wait_for(self._changed.wait(), 5.0)
                except TimeoutError:
                    idle = time.monotonic() - self.last_progress
                    if idle > limit:
                        raise StalledError(self._stall(idle)) from None
            if self.config.rollout.staleness == "wait":
                self.ready = deque(sorted(self.ready, key=lambda g: self._born.get(g, -1)))
            groups = [self.ready.popleft() for _ in range(count)]
            self._learning = groups
        return groups

    async def learned(self, version: int) -> None:
        """The batch taken last is published (or taught nothing): new groups may start.

        Args:
            version: of the weights that are served now.
        """
        async with self._changed:
            self.version = version
            for group in self._learning:
                self._born.pop(group, None)
            self._learning = []
            self._changed.notify_all()

    async def stop(self) -> None:
        """Cancel what runs; finished episodes are in the store."""
        tasks = [t for t in (self._producer, *self.running.values()) if t is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------- inside

    async def _produce(self) -> None:
        try:
            while True:
                async with self._changed:
                    await self._changed.wait_for(self._admits)
                    group = self._next_group()
                    self._born[group] = self.version
                    self.running[group] = asyncio.create_task(self._collect(group))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await self._fail(error)

    def _overtakes(self) -> bool:
        """Whether a step taken now would leave a running group behind the staleness bound."""
        if self.config.rollout.staleness != "wait":
            return False
        oldest = self.version + 1 - math.ceil(self.config.rollout.max_staleness)
        return any(self._born.get(group, oldest) < oldest for group in self.running)

    def _admits(self) -> bool:
        rollout = self.config.rollout
        bound = int((rollout.max_staleness + 1) * rollout.groups_per_step)
        return len(self.ready) + len(self.running) + len(self._learning) < bound

    def _next_group(self) -> str:
        """Return the first group of the schedule that is neither done nor under way."""
        busy = {*self.ready, *self.running, *self._learning}
        known = self.store.consumed().keys() | busy
        while group_id(self._next) in known:
            self._next += 1
        self._next += 1
        return group_id(self._next - 1)

    async def _collect(self, group: str) -> None:
        try:
            async with asyncio.TaskGroup() as members:
                for member in self._missing(group):
                    members.create_task(self._member(group, member))
            self._observe(group)
            async with self._changed:
                self.ready.append(group)
                del self.running[group]
                self._changed.notify_all()
        except* Exception as group_error:
            await self._fail(_first(group_error))

    async def _member(self, group: str, member: int) -> None:
        """Play one member until it has a reward or the attempts are used up."""
        for attempt in range(self._attempts(group, member), self.config.rollout.max_retries + 1):
            episode = await self.fleet.play(self.assignment(group, member, attempt))
            self.store.append(episode)
            if episode.reward is not None:
                self.last_progress = time.monotonic()
                return
            log.warning(
                "lost %s: %s (%s)", episode.id, episode.stop_reason.value, episode.error[:200]
            )
            await asyncio.sleep(self.config.rollout.retry_wait_s * 2**attempt)

    def assignment(self, group: str, member: int, attempt: int) -> Assignment:
        """Return what is to be played: a function of the names, the task and the run's seed."""
        number = int(group[1:])
        seed = (self.config.seed * 1_000_003 + number) * 4096 + member * 64
        return Assignment(
            episode_id=member_id(group, member, attempt),
            group_id=group,
            task=self._task(group),
            sampling=Sampling(
                max_tokens=self.config.agent.max_reply_tokens,
                temperature=self.config.rollout.temperature,
                top_p=self.config.rollout.top_p,
                seed=seed,
            ),
            seed=seed,
        )

    def _task(self, group: str) -> Task:
        """Return a group's task; chosen and written down the first time it is asked for."""
        if group not in self._tasks:
            self._tasks[group] = self.schedule.task(int(group[1:]))
            self.store.admit(group, self._tasks[group].id)
        return self._tasks[group]

    def _observe(self, group: str) -> None:
        """Tell the schedule how a group went."""
        played = [e for e in self.store.group(group) if e.reward is not None]
        if played:
            solved = sum(episode.solved for episode in played)
            self.schedule.observe(played[0].family, solved, len(played))

    def _missing(self, group: str) -> list[int]:
        """Return members without a reward that still have attempts."""
        played = self.store.group(group)
        done = {member_of(e.id) for e in played if e.reward is not None}
        return [
            m
            for m in range(self.config.rollout.group_size)
            if m not in done and self._used(played, m) <= self.config.rollout.max_retries
        ]

    def _attempts(self, group: str, member: int) -> int:
        return self._used(self.store.group(group), member)

    @staticmethod
    def _used(played: Sequence[Episode], member: int) -> int:
        return sum(member_of(episode.id) == member for episode in played)

    async def _fail(self, error: Exception) -> None:
        async with self._changed:
            self._failure = error
            self._changed.notify_all()

    def _stall(self, idle_s: float) -> str:
        endings = dict(self.store.endings())
        return (
            f"no episode ended for {idle_s:.0f} s; waiting for groups {sorted(self.running)[:5]}; "
            f"so far: {endings or 'none'}"
        )


def _first(group: BaseExceptionGroup[BaseException]) -> Exception:
    """Return the first leaf: the first cause."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else RuntimeError(repr(error))
