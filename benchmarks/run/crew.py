"""Who plays: one player in this process, or several in Ray actors that are replaced when they die.

Thin: the work is in ``play``. A dead worker's sandboxes are reaped before another starts, its
episodes are lost and not failed; every wait is bounded.
"""

import asyncio
import logging
from collections.abc import Awaitable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar

from agents.types import StopReason
from benchmarks.run.play import Attempt, Player, Rules
from benchmarks.run.records import Record

log = logging.getLogger(__name__)
T = TypeVar("T")

START_TIMEOUT_S = 300.0
CLOSE_TIMEOUT_S = 60.0


class CrewError(Exception):
    """Ray or its workers could not be started; one line."""


class Crew(Protocol):
    """What a run needs of its players."""

    @property
    def slots(self) -> int:
        """Episodes that can run at once."""
        ...

    async def play(self, attempt: Attempt) -> Record:
        """Play an episode. Never raises for a failure of world, policy or worker."""
        ...


class InlineCrew:
    """One player in this process, without Ray. An async context manager."""

    def __init__(self, player: Player) -> None:
        self._player = player

    @property
    def slots(self) -> int:
        """Episodes that can run at once."""
        return self._player.slots

    async def play(self, attempt: Attempt) -> Record:
        """Play an episode."""
        rules = self._player.rules
        limit_s = rules.patience_s(attempt.task)
        try:
            return await asyncio.wait_for(self._player.play(attempt), limit_s)
        except TimeoutError:
            return rules.lost(attempt, StopReason.WORKER_LOST, f"no end in {limit_s:.0f} s")

    async def __aenter__(self) -> "InlineCrew":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._player.close()


class RayCrew:
    """Players in Ray actors. An async context manager.

    Args:
        rules: of the run; ``settings`` says how many workers and where Ray is.
        has_sandboxes: whether dead workers leave any.
    """

    def __init__(self, rules: Rules, has_sandboxes: bool) -> None:
        self._rules, self._has_sandboxes = rules, has_sandboxes
        self._workers: dict[str, Any] = {}
        self._load: dict[str, int] = {}
        self._slot_free = asyncio.Condition()
        self._started = 0

    @property
    def slots(self) -> int:
        """Episodes that can run at once."""
        settings = self._rules.settings
        return settings.workers * settings.episodes_per_worker

    async def play(self, attempt: Attempt) -> Record:
        """Play an episode on the least busy worker."""
        async with self._slot_free:
            await self._slot_free.wait_for(self._has_room)
            name = min(self._load, key=lambda worker: self._load[worker])
            self._load[name] += 1
        try:
            return await self._play_on(name, attempt)
        finally:
            async with self._slot_free:
                if name in self._load:
                    self._load[name] -= 1
                self._slot_free.notify_all()

    async def __aenter__(self) -> "RayCrew":
        try:
            _init_ray(self._rules.settings.ray_address)
            for _ in range(self._rules.settings.workers):
                self._start_worker()
            for worker in list(self._workers.values()):
                await _bounded(worker.ping.remote(), START_TIMEOUT_S)
        except (OSError, RuntimeError, TimeoutError, ValueError) as error:  # RayError is Runtime…
            await self._close()
            raise CrewError(f"Ray could not start the workers: {one_line(error)}") from error
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._close()

    # ------------------------------------------------------------- inside

    async def _play_on(self, name: str, attempt: Attempt) -> Record:
        from ray.exceptions import RayActorError, RayError

        limit_s = self._rules.patience_s(attempt.task)
        try:
            record: Record = await _bounded(self._workers[name].play.remote(attempt), limit_s)
            return record
        except (RayActorError, TimeoutError) as error:
            why = one_line(error) or f"no end in {limit_s:.0f} s"
            await self._replace(name, why)
            return self._rules.lost(attempt, StopReason.WORKER_LOST, why)
        except RayError as error:
            return self._rules.lost(attempt, StopReason.ENV_ERROR, one_line(error))

    async def _replace(self, name: str, why: str) -> None:
        """End a worker, reap what it left, start another. Once per worker."""
        import ray

        worker = self._workers.pop(name, None)
        if worker is None:
            return
        self._load.pop(name, None)
        log.warning("worker %s is lost (%s); another starts", name, why[:200])
        ray.kill(worker)
        await self._reap()
        self._start_worker()

    async def _reap(self) -> None:
        if not self._has_sandboxes:
            return
        from envs.errors import MissingDependency
        from envs.sandbox.reaper import reap

        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, reap, self._rules.run_id)
        except MissingDependency as error:
            log.warning("sandboxes are left to the reaper: %s", error)

    def _start_worker(self) -> None:
        import ray

        self._started += 1
        name = f"b{self._started}"
        actor = ray.remote(num_cpus=0, max_restarts=0)(Player)
        self._workers[name] = actor.options(
            max_concurrency=self._rules.settings.episodes_per_worker + 4
        ).remote(self._rules, name)
        self._load[name] = 0

    def _has_room(self) -> bool:
        most = self._rules.settings.episodes_per_worker
        return bool(self._load) and min(self._load.values()) < most

    async def _close(self) -> None:
        import ray

        for worker in self._workers.values():
            try:
                await _bounded(worker.close.remote(), CLOSE_TIMEOUT_S)
            except Exception as error:  # on the way out; the reaper covers what is left
                log.debug("closing a worker: %s", error)
        await asyncio.get_running_loop().run_in_executor(None, ray.shutdown)
        await self._reap()


def crew_of(rules: Rules, has_sandboxes: bool) -> InlineCrew | RayCrew:
    """Return the players a run asks for; ``workers=0`` needs no Ray."""
    if rules.settings.workers == 0:
        return InlineCrew(Player(rules, "b0"))
    return RayCrew(rules, has_sandboxes)


def one_line(error: BaseException) -> str:
    """Return an error's first 400 characters; "" for a bare time-out."""
    text = " ".join(str(error).split())
    if not text and isinstance(error, TimeoutError):
        return ""
    return f"{type(error).__name__}: {text[:400]}"


def _init_ray(address: str) -> None:
    import ray

    if ray.is_initialized():
        return
    if address:
        root = str(Path(__file__).resolve().parents[2])
        files = {"working_dir": root, "excludes": ["runs", ".venv", ".git"]}
        ray.init(address=address, runtime_env=files, log_to_driver=False)
    else:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)


async def _bounded(ref: Awaitable[T], timeout_s: float) -> T:
    """Await a Ray call. Raises ``TimeoutError``."""
    return await asyncio.wait_for(asyncio.ensure_future(ref), timeout_s)
