"""Processes of the in-container server: who runs, since when, with whose rights."""

from __future__ import annotations

import os
import time

UID = GID = 1000
TICKS = os.sysconf("SC_CLK_TCK")


class Moment:
    """Tells the processes that started after it from those before (wrapped pids aside)."""

    def __init__(self) -> None:
        with open("/proc/loadavg") as file:
            self.last_pid = int(file.read().split()[-1])
        self.tick = int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS)

    def processes_since(self) -> list[int]:
        return [pid for pid in all_processes() if self._is_before(pid)]

    def _is_before(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                started = int(file.read().rpartition(b")")[2].split()[19])
        except (OSError, IndexError):
            return False
        return started > self.tick or (started == self.tick and pid > self.last_pid)


def all_processes() -> list[int]:
    """Return every process of the container but this one."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass


def become_agent() -> None:
    """Give up root for good. Only ever called in a forked child."""
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    os.setgroups([])
    os.setresgid(GID, GID, GID)
    os.setresuid(UID, UID, UID)
    os.umask(0o022)


def oom_kills() -> int:
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(path) as file:
                return int(dict(line.split() for line in file)["oom_kill"])
        except (OSError, KeyError, ValueError):
            pass
    return 0
