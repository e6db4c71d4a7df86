"""Who owns a sandbox and until when: a label that never changes, and a lease file that does.

The owner is a process: boot id, pid namespace, pid and start time, so a recycled pid is not taken
for it. A lease is one small file per container in the state folder. The file names the owner, and
its modification time is the deadline: renewing it needs no space, so a full disk expires nothing.

Example:
    >>> owner_alive(owner_label())
    True
"""

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


def state_folder() -> Path:
    """Return where leases and snapshots live: ``CLAWGYM_STATE``, else the user's cache."""
    given = os.environ.get("CLAWGYM_STATE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clawgym"


def owner_label() -> str:
    """Return the identity of this process as a label value."""
    return f"{_place()}/{os.getpid()}/{_start_ticks(os.getpid())}"


def owner_alive(label: str) -> bool | None:
    """Tell whether the process of a label lives. None: that cannot be seen from here (another
    machine or namespace; a ``/proc`` that hides other users' processes)."""
    place, _, rest = label.rpartition("/")
    place, _, pid = place.rpartition("/")
    if place != _place() or not pid.isdigit():
        return None
    ticks = _start_ticks(int(pid))
    return None if ticks is None else ticks == rest


@dataclass(frozen=True)
class Lease:
    """A lease as it stands in its file.

    Attributes:
        owner: see ``owner_label``.
        deadline: seconds since the epoch after which the sandbox may be removed.
    """

    owner: str
    deadline: float


def lease_path(container: str) -> Path:
    """Return the file of a container's lease."""
    return state_folder() / "leases" / f"{container}.json"


def write_lease(container: str, lease_s: float, owner: str | None = None) -> None:
    """Create or replace a lease, this process's by default, atomically. Raises ``OSError``."""
    path = lease_path(container)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps({"owner": owner_label() if owner is None else owner}))
    _set_deadline(draft, lease_s)
    draft.replace(path)


def renew_lease(container: str, lease_s: float) -> None:
    """Move a lease's deadline; makes the lease when there is none. Raises ``OSError``."""
    try:
        _set_deadline(lease_path(container), lease_s)
    except FileNotFoundError:
        write_lease(container, lease_s)


def _set_deadline(path: Path, lease_s: float) -> None:
    deadline = time.time() + lease_s
    os.utime(path, (deadline, deadline))


def read_lease(container: str) -> Lease | None:
    """Return a container's lease, None when there is none to read."""
    try:
        path = lease_path(container)
        row = json.loads(path.read_text())
        return Lease(owner=str(row["owner"]), deadline=path.stat().st_mtime)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def drop_lease(container: str) -> None:
    """Remove a lease. Never raises."""
    with suppress(OSError):
        lease_path(container).unlink()


def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink().name}"
    except OSError:
        return f"{os.uname().nodename}/0"


def _start_ticks(pid: int) -> str | None:
    """Return when a process started; "" for a dead one, None for one that is hidden."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None if _exists(pid) else ""
    fields = stat.rpartition(b")")[2].split()
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()


def _exists(pid: int) -> bool:
    """Tell whether there is such a process, also where ``/proc`` does not show it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
