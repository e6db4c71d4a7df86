"""The children of the in-container server: started, awaited, killed, collected.

As pid 1 of its namespace the server inherits every orphan, and ``kill(-1)`` reaches exactly the
container's processes.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Callable, NoReturn

from .processes import Moment, all_processes, become_agent, send_signal
from .streams import CHUNK

STRIKE_S = 0.1  # between INT, TERM and KILL
LAST_STRIKE = 10  # strikes until everything is killed, the shell too


class OwnerGone(Exception):
    """Standard input has closed."""


class NoAnswer(Exception):
    """A helper process ended, or was stopped, before it said anything."""


class Supervisor:
    """Waits and children. One thread, no state beyond what is running."""

    def __init__(self, owner_in: int) -> None:
        self.owner_in = owner_in
        self.exits: dict[int, int] = {}
        self.watched: set[int] = set()
        self.wake_r, wake_w = os.pipe()
        os.set_blocking(self.wake_r, False)
        os.set_blocking(wake_w, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)

    def wait(self, fds: dict[int, int], timeout_s: float) -> dict[int, int]:
        """Poll ``fds``, reap children, notice a lost owner. Returns the events by descriptor."""
        poll = select.poll()
        for fd, events in {self.owner_in: 0, self.wake_r: select.POLLIN, **fds}.items():
            poll.register(fd, events)
        ready = dict(poll.poll(max(0.0, timeout_s) * 1000))
        if ready.pop(self.wake_r, 0):
            os.read(self.wake_r, CHUNK)
        self.reap()
        if ready.get(self.owner_in, 0) & (select.POLLHUP | select.POLLERR):
            raise OwnerGone
        return ready

    def reap(self) -> bool:
        """Collect dead children (orphans of the agent's too). False when none is left alive."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid in self.watched:
                code = os.waitstatus_to_exitcode(status)
                self.exits[pid] = code if code >= 0 else 128 - code

    def spawn(
        self,
        argv: list[str],
        cwd: str,
        env: dict[str, str],
        stdin: int,
        stdout: int,
        extra: dict[int, int] | None = None,
    ) -> int:
        """Start a program as the agent in a session of its own. Raises ``OSError`` when no
        process can be started; a bad program or directory is exit code 127 or 126."""
        pid = os.fork()
        if pid:
            self.watched.add(pid)
            return pid
        code = 126
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setsid()
            become_agent()
            for target, source in {0: stdin, 1: stdout, 2: stdout, **(extra or {})}.items():
                os.dup2(source, target)
            os.chdir(cwd)
            code = 127
            os.execvpe(argv[0], argv, {**env, "PWD": cwd})
        except BaseException as error:
            name = argv[0] if code == 127 else cwd
            os.write(2, f"{name}: {getattr(error, 'strerror', None) or error}\n".encode())
        finally:
            os._exit(code)

    def as_agent(self, work: Callable[[], bytes], timeout_s: float = 60.0) -> bytes:
        """Run ``work`` in a child with the agent's rights; return its bytes.

        Raises:
            OSError: what the child met.
            NoAnswer: the child could not be started, was killed or said nothing in time.
        """
        read_fd, write_fd = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(read_fd)
            os.close(write_fd)
            raise NoAnswer(f"no helper process could be started: {error.strerror}") from error
        if pid == 0:
            self._answer(work, write_fd)
        os.close(write_fd)
        self.watched.add(pid)
        answer, done = bytearray(), False
        deadline = time.monotonic() + timeout_s
        try:
            while time.monotonic() < deadline:
                if self.wait({read_fd: select.POLLIN}, deadline - time.monotonic()).get(read_fd):
                    chunk = os.read(read_fd, 1 << 20)
                    if not chunk:
                        done = answer[-1:] == b"."
                        break
                    answer += chunk
        finally:
            os.close(read_fd)
            send_signal(pid, signal.SIGKILL)
            self.forget(pid)
        if answer[:1] == b"+" and done:
            return bytes(memoryview(answer)[1:-1])
        if answer[:1] == b"-" and done:
            raise OSError(0, bytes(answer[1:-1]).decode("utf-8", "replace"))
        raise NoAnswer("no answer from the helper process")

    def _answer(self, work: Callable[[], bytes], fd: int) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            become_agent()
            answer = b"+" + work() + b"."
        except BaseException as error:
            text = str(getattr(error, "strerror", None) or error or repr(error))
            answer = b"-" + text.encode("utf-8", "backslashreplace") + b"."
        try:
            view = memoryview(answer)
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os._exit(0)

    def forget(self, pid: int) -> int | None:
        """Stop watching a process; returns its exit code if it has ended."""
        self.reap()
        self.watched.discard(pid)
        return self.exits.pop(pid, None)

    def kill_all(self, timeout_s: float = 10.0) -> None:
        """Kill every process of the container and see them gone. Needs no fork, so it also ends a
        fork bomb: as pid 1 of its namespace ``kill(-1)`` reaches exactly the container."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                pass
            if not self.reap() and not all_processes():
                break
            if time.monotonic() > deadline:
                raise OSError(0, f"processes survive SIGKILL: {all_processes()[:5]}")
            time.sleep(0.002)

    def kill_since(self, moment: Moment, keep: int) -> bool:
        """Kill what started since ``moment``, except ``keep``, and see it gone. False: it cannot
        be caught up with."""
        for _ in range(100):
            left = [pid for pid in moment.processes_since() if pid != keep]
            if not left:
                return True
            for pid in left:
                send_signal(pid, signal.SIGKILL)
            self.reap()
            time.sleep(0.002)
        return False

    def strike(self, count: int, moment: Moment, leader: int, is_shell: bool) -> None:
        """Hit what started since ``moment``, harder each time. A shell is only interrupted, at
        the same time as its children, because that makes bash give up the whole command list."""
        if count >= LAST_STRIKE:
            send_signal(-1, signal.SIGKILL)
            return
        number = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)[min(count, 2)]
        if count > 2 and count % 2:
            number = signal.SIGINT
        for pid in moment.processes_since():
            if pid != leader:
                send_signal(pid, number)
        send_signal(leader, signal.SIGINT if is_shell else number)
