"""Warm sandboxes: what was released is reset and handed out again for an equal spec.

A reset costs milliseconds, a fresh container about half a second. A sandbox that cannot be reset
is closed; one that does not answer is replaced before anybody sees it.

Example:
    >>> with SandboxPool(run_id="demo") as pool:  # doctest: +SKIP
    ...     sandbox = pool.acquire(SandboxSpec(image="terminal"))
    ...     sandbox.shell("echo hi").output
    ...     pool.release(sandbox)
    'hi\\n'
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from envs.errors import (
    MissingDependency,
    MissingEngine,
    MissingImage,
    SandboxError,
    SandboxStartError,
)
from envs.sandbox.docker import DockerSandbox
from envs.sandbox.machine import MachineSandbox
from envs.sandbox.protocol import Sandbox, SandboxSpec

log = logging.getLogger(__name__)

MAX_AGE_S = 12 * 3600.0
START_WAITS_S = (1.0, 3.0)

Pooled = DockerSandbox | MachineSandbox
Factory = Callable[[SandboxSpec], Pooled]


class SandboxPool:
    """A ``SandboxProvider`` of Docker sandboxes. Thread-safe; a context manager.

    Args:
        run_id: label of every sandbox, by which a run's sandboxes are listed and reaped.
        worker: label of the worker inside the run.
        max_idle: most sandboxes kept warm, over all specs; the longest idle one goes first.
        heartbeat_s: how often the leases of all sandboxes, idle or lent, are renewed.
        start_waits_s: a start that fails is tried again after each of these.
        factory: makes a sandbox; a back end of your own goes here.
    """

    def __init__(
        self,
        run_id: str = "adhoc",
        worker: str = "0",
        *,
        max_idle: int = 8,
        heartbeat_s: float = 30.0,
        start_waits_s: Sequence[float] = START_WAITS_S,
        factory: Factory | None = None,
    ) -> None:
        self._factory = factory or (lambda spec: _make(spec, run_id, worker))
        self._max_idle = max_idle
        self._heartbeat_s = heartbeat_s
        self._start_waits_s = tuple(start_waits_s)
        self._lock = threading.Lock()
        self._idle: list[tuple[str, Pooled]] = []
        self._lent: dict[str, Pooled] = {}
        self._closing = threading.Event()
        self._beat: threading.Thread | None = None

    def acquire(self, spec: SandboxSpec) -> Sandbox:
        """See ``SandboxProvider.acquire``."""
        while (sandbox := self._take(spec)) is not None:
            if _is_well(sandbox):
                break
            sandbox.close()
        else:
            sandbox = self._start(spec)
        with self._lock:
            closed = self._closing.is_set()
            if not closed:
                self._lent[sandbox.id] = sandbox
                self._start_heartbeat()
        if closed:
            sandbox.close()
            raise SandboxStartError("this pool is closed")
        sandbox.heartbeat()
        return sandbox

    def release(self, sandbox: Sandbox) -> None:
        """Reset a sandbox and keep it warm, or close it. Unknown or repeated ones are ignored."""
        with self._lock:
            ours = self._lent.pop(sandbox.id, None)
        if ours is None:
            return
        if ours.spec.machine:
            ours.close()
            return
        try:
            ours.reset()
        except SandboxError as error:
            log.warning("sandbox %s is not reused: %s", ours.id, error)
            ours.close()
            return
        self._keep(ours)

    def prefetch(self, spec: SandboxSpec, n: int) -> None:
        """Have ``n`` warm sandboxes of a spec (bounded by ``max_idle``), started side by side.

        Raises:
            SandboxStartError: one could not be started; the others stay.
            MissingImage: no such image; names the remedy.
        """
        key = _key(spec)
        with self._lock:
            missing = min(n, self._max_idle) - sum(1 for k, _ in self._idle if k == key)
        if missing <= 0:
            return
        with ThreadPoolExecutor(max_workers=min(missing, 4)) as workers:
            starts: list[Future[None]] = [
                workers.submit(lambda: self._keep(self._start(spec))) for _ in range(missing)
            ]
        for start in starts:
            start.result()

    def close(self) -> None:
        """See ``SandboxProvider.close``. Lent sandboxes are closed too."""
        self._closing.set()
        with self._lock:
            doomed = [sandbox for _, sandbox in self._idle] + list(self._lent.values())
            self._idle.clear()
            self._lent.clear()
            beat, self._beat = self._beat, None
        if doomed:
            with ThreadPoolExecutor(max_workers=min(len(doomed), 8)) as workers:
                list(workers.map(lambda sandbox: sandbox.close(), doomed))
        if beat is not None:
            beat.join(timeout=10.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    # ------------------------------------------------------------- inside

    def _take(self, spec: SandboxSpec) -> Pooled | None:
        key = _key(spec)
        with self._lock:
            for place, (idle_key, sandbox) in enumerate(self._idle):
                if idle_key == key:
                    del self._idle[place]
                    return sandbox
        return None

    def _keep(self, sandbox: Pooled) -> None:
        """Put a clean sandbox among the idle ones; close what is too much or too old."""
        surplus: list[Pooled] = []
        with self._lock:
            if self._closing.is_set() or time.monotonic() - sandbox.created > MAX_AGE_S:
                surplus.append(sandbox)
            else:
                self._idle.append((_key(sandbox.spec), sandbox))
                self._start_heartbeat()
            while len(self._idle) > self._max_idle:
                surplus.append(self._idle.pop(0)[1])
        for extra in surplus:
            extra.close()

    def _start(self, spec: SandboxSpec) -> Pooled:
        """Start one, trying again: an engine that restarts is away for some seconds."""
        for wait_s in (*self._start_waits_s, None):
            try:
                return self._factory(spec)
            except MissingImage:
                raise  # waiting makes no image
            except (SandboxStartError, MissingDependency) as error:
                failure = error
            if wait_s is None or isinstance(failure, MissingEngine):
                break
            log.warning("a sandbox did not start, trying again in %.0f s: %s", wait_s, failure)
            if self._closing.wait(wait_s):
                raise SandboxStartError("this pool is closed")
        if isinstance(failure, MissingDependency):
            raise SandboxStartError(str(failure)) from None
        raise failure

    def _start_heartbeat(self) -> None:
        if self._beat is None:
            self._beat = threading.Thread(
                target=self._renew, name="clawgym-sandbox-heartbeat", daemon=True
            )
            self._beat.start()

    def _renew(self) -> None:
        while not self._closing.wait(self._heartbeat_s):
            with self._lock:
                alive = [sandbox for _, sandbox in self._idle] + list(self._lent.values())
            for sandbox in alive:
                sandbox.heartbeat()


def _make(spec: SandboxSpec, run_id: str, worker: str) -> Pooled:
    kind = MachineSandbox if spec.machine else DockerSandbox
    return kind(spec, run_id=run_id, worker=worker)


def _is_well(sandbox: Pooled) -> bool:
    if time.monotonic() - sandbox.created > MAX_AGE_S:
        return False
    try:
        sandbox.ping()
    except SandboxError as error:
        log.warning("sandbox %s is replaced: %s", sandbox.id, error)
        return False
    return True


def _key(spec: SandboxSpec) -> str:
    """Return text equal for equal specs (mappings are not hashable)."""
    mappings = (sorted(spec.env.items()), sorted(spec.labels.items()))
    return f"{spec.image, spec.workdir, spec.memory_bytes, spec.pids, spec.disk_bytes, spec.cpus}" \
        f"{spec.network, spec.lease_s, spec.machine, spec.user, mappings}"  # fmt: skip
