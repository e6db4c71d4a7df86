"""Who owns a sandbox and until when: a label that never changes, and a lease file that does.

The owner is a process: boot id, pid namespace, pid and start time, so a recycled pid is not taken
for it. A lease is one small file per container in the state folder, renewed by rewriting it.

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
    """Tell whether the process of a label lives. None: not visible from here (another machine)."""
    place, _, rest = label.rpartition("/")
    place, _, pid = place.rpartition("/")
    if place != _place() or not pid.isdigit():
        return None
    return _start_ticks(int(pid)) == rest


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


def write_lease(container: str, lease_s: float) -> None:
    """Create or renew a lease of this process, atomically. Raises ``OSError``."""
    path = lease_path(container)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps({"owner": owner_label(), "deadline": time.time() + lease_s}))
    draft.replace(path)


def read_lease(container: str) -> Lease | None:
    """Return a container's lease, None when there is none to read."""
    try:
        row = json.loads(lease_path(container).read_text())
        return Lease(owner=str(row["owner"]), deadline=float(row["deadline"]))
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


def _start_ticks(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    fields = stat.rpartition(b")")[2].split()
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
