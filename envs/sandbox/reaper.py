"""Removing sandboxes whose owner is gone: by label only, verified, at start, at stop, on a timer.

A container ends by itself when its owner's socket closes. The reaper covers the rest: an owner
that hangs, a container caught between creation and start, an engine that was down at the time.

A container is removed when its owner's process is dead, or past the hard deadline on its label.
Whether an owner lives is not always to be seen from here (another namespace, another user): then an
expired lease removes its container, and without a lease file it is left alone until that deadline.
A lease alone never ends what a living process owns: a full disk or a set clock can expire it.
"""

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from envs.sandbox.container import LABEL, remove_container
from envs.sandbox.engine import connect
from envs.sandbox.lease import drop_lease, owner_alive, read_lease, state_folder

if TYPE_CHECKING:
    from docker import APIClient

log = logging.getLogger(__name__)

Reason = Literal["owner dead", "lease expired", "past its deadline", "forced", ""]
STALE_LEASE_S = 3600.0


@dataclass(frozen=True)
class Found:
    """A labelled container.

    Attributes:
        name: of the container, which is the sandbox's id.
        run_id, worker: whose it is.
        state: the engine's word: ``running``, ``created``, ``exited``, …
        reason: why it may be removed, or "" when it may not.
    """

    name: str
    run_id: str
    worker: str
    state: str
    reason: Reason


@dataclass(frozen=True)
class Reaped:
    """What a ``reap`` did: names removed and seen gone, and names that could not be removed."""

    removed: tuple[str, ...]
    stuck: tuple[str, ...]


def survey(run_id: str | None = None) -> tuple[Found, ...]:
    """Return all labelled containers, of one run if given.

    Raises:
        MissingDependency: no engine answers.
    """
    api = connect()
    try:
        return _survey(api, run_id)
    finally:
        api.close()


def reap(run_id: str | None = None, *, force: bool = False) -> Reaped:
    """Remove orphaned and expired sandboxes, with their volumes, and see them gone.

    Args:
        run_id: only of this run.
        force: also what is alive and owned; needs ``run_id``, so that nobody ends another's run.

    Raises:
        ValueError: ``force`` without ``run_id``.
        MissingDependency: no engine answers.
    """
    if force and run_id is None:
        raise ValueError("reap(force=True) needs run_id: it ends sandboxes that are in use")
    removed: list[str] = []
    stuck: list[str] = []
    api = connect()
    try:
        for found in _survey(api, run_id):
            if not found.reason and not force:
                continue
            gone = remove_container(api, found.name)
            if gone:
                drop_lease(found.name)
            (removed if gone else stuck).append(found.name)
            log.info("sandbox %s %s: %s", found.name, "removed" if gone else "is stuck",
                     found.reason or "forced")  # fmt: skip
        _remove_volumes(api, run_id, force)
    finally:
        api.close()
    if run_id is None:
        _drop_stale_leases()
    return Reaped(tuple(removed), tuple(stuck))


class Reaper:
    """Reaps when it starts, every ``period_s`` and when it closes. A context manager.

    Its thread never ends by an error: whatever it meets is logged and tried again next time.
    """

    def __init__(self, period_s: float = 30.0, run_id: str | None = None) -> None:
        self._period_s = period_s
        self._run_id = run_id
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="clawgym-reaper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, after one last reap. Idempotent; never raises."""
        if not self._closing.is_set():
            self._closing.set()
            self._thread.join(timeout=60.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def _loop(self) -> None:
        self._once()
        while not self._closing.wait(self._period_s):
            self._once()
        self._once()

    def _once(self) -> None:
        try:
            reap(self._run_id)
        except Exception as error:  # the thread's last line: an engine can answer anything
            log.warning("the reaper could not look: %s: %s", type(error).__name__, error)


def _survey(api: "APIClient", run_id: str | None) -> tuple[Found, ...]:
    found = []
    for row in api.containers(all=True, filters={"label": _filter(run_id)}):
        labels = row.get("Labels") or {}
        if not row.get("Names"):
            continue  # its removal is under way
        name = row["Names"][0].lstrip("/")
        found.append(
            Found(
                name=name,
                run_id=labels.get(f"{LABEL}.run", ""),
                worker=labels.get(f"{LABEL}.worker", ""),
                state=row.get("State", ""),
                reason=_reason(name, labels),
            )
        )
    return tuple(found)


def _filter(run_id: str | None) -> list[str]:
    return [LABEL] if run_id is None else [LABEL, f"{LABEL}.run={run_id}"]


def _reason(name: str, labels: Mapping[str, str]) -> Reason:
    now = time.time()
    lease = read_lease(name)
    owner = lease.owner if lease is not None else labels.get(f"{LABEL}.owner", "")
    alive = owner_alive(owner)
    if alive is False:
        return "owner dead"
    if alive is None and lease is not None and now > lease.deadline:
        return "lease expired"
    with suppress(ValueError):
        if now > float(labels.get(f"{LABEL}.deadline", "")):
            return "past its deadline"
    return ""


def _remove_volumes(api: "APIClient", run_id: str | None, force: bool) -> None:
    """Remove labelled volumes that no container uses and whose owner is gone."""
    import docker.errors

    answer = api.volumes(filters={"label": _filter(run_id), "dangling": True})
    found = answer.get("Volumes") or []
    for volume in found:
        if force or _reason(volume["Name"], volume.get("Labels") or {}):
            with suppress(docker.errors.APIError):
                api.remove_volume(volume["Name"])


def _drop_stale_leases() -> None:
    """Remove lease files long expired: their containers are gone, or unknown to this engine."""
    for path in (state_folder() / "leases").glob("*.json"):
        lease = read_lease(path.stem)
        if lease is None or owner_alive(lease.owner):
            continue
        if time.time() > lease.deadline + STALE_LEASE_S:
            drop_lease(path.stem)
