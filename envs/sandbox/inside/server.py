"""The server inside a sandbox: a container's main process, driven over its standard input.

Stand-alone, standard library only, for the image's own ``/usr/bin/python3`` (3.9 or newer); the
image build copies this package to ``/opt/clawgym/inside``. It runs as root with SETUID,
SETGID and KILL, so the agent, uid 1000, can neither trace nor kill it.

A frame is ``!II`` header and body length, a JSON header, raw bytes. One request, one reply, in
order: ``{"op": "shell" | "exec" | "read" | "write" | "kill" | "reset" | "dump" | "ping", ...}``.
When standard input closes the owner is gone: the server ends everything and exits, also in the
middle of a command.

Left out: terminals (no command has one), and several commands at once.
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import sys
import time
from typing import Any, Callable, NoReturn

from . import files
from .processes import Moment, all_processes, become_agent, oom_kills, send_signal
from .shell import BASH, Shell
from .streams import CHUNK, Output, drain, feed

HOME = "/home/agent"
STRIKE_S = 0.1  # between INT, TERM and KILL
LAST_STRIKE = 10  # strikes until everything is killed, the shell too

Header = dict[str, Any]


class OwnerGone(Exception):
    """Standard input has closed."""


class Server:
    def __init__(self, config: Header) -> None:
        self.workdir: str = config["workdir"]
        self.places: list[str] = config["places"]
        self.env = {k: v for k, v in os.environ.items() if k not in ("HOSTNAME", "PWD", "OLDPWD")}
        self.env.update(
            HOME=HOME,
            USER="agent",
            LOGNAME="agent",
            SHELL="/bin/bash",
            TERM="dumb",
            **config["env"],
        )
        self.owner_in, self.owner_out = os.dup(0), os.dup(1)
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        self.null = null
        self.shell: Shell | None = None
        self.cwd = self.workdir
        self.exits: dict[int, int] = {}
        self.watched: set[int] = set()
        self.wake_r, wake_w = os.pipe()
        os.set_blocking(self.wake_r, False)
        os.set_blocking(wake_w, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)

    # ------------------------------------------------------------- frames and waiting

    def serve(self) -> None:
        """Answer requests until the owner is gone."""
        ops: dict[str, Callable[[Header, bytes], tuple[Header, bytes]]] = {
            "ping": lambda request, body: ({}, b""),
            "shell": self.do_shell,
            "exec": self.do_exec,
            "read": self.do_read,
            "write": self.do_write,
            "kill": self.do_kill,
            "reset": self.do_reset,
            "dump": self.do_dump,
        }
        while True:
            header_length, body_length = struct.unpack("!II", self.receive(8))
            request = json.loads(self.receive(header_length))
            body = self.receive(body_length)
            try:
                reply, data = ops[request["op"]](request, body)
            except OSError as error:
                reply, data = {"error": f"{error.strerror or error}"}, b""
            del body
            head = json.dumps(reply).encode()
            self.send(struct.pack("!II", len(head), len(data)) + head)
            self.send(data)

    def receive(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            self.wait({self.owner_in: select.POLLIN, **self.idle_fds()}, 60.0)
            if select.select([self.owner_in], [], [], 0)[0]:
                chunk = os.read(self.owner_in, min(length - len(data), 1 << 20))
                if not chunk:
                    raise OwnerGone
                data += chunk
        return bytes(data)

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.owner_out, view) :]

    def idle_fds(self) -> dict[int, int]:
        """Between commands the shell's output is read and dropped, so that nothing blocks on it."""
        shell = self.shell
        if shell is None:
            return {}
        try:
            if not os.read(shell.stdout, CHUNK):
                return {}
        except BlockingIOError:
            pass
        return {shell.stdout: select.POLLIN}

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

    # ------------------------------------------------------------- processes

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
            OSError: what the child met, or no answer in time.
        """
        read_fd, write_fd = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(read_fd)
            os.close(write_fd)
            raise
        if pid == 0:
            self._answer(work, write_fd)
        os.close(write_fd)
        self.watched.add(pid)
        answer = bytearray()
        deadline = time.monotonic() + timeout_s
        try:
            while time.monotonic() < deadline:
                if self.wait({read_fd: select.POLLIN}, deadline - time.monotonic()).get(read_fd):
                    chunk = os.read(read_fd, 1 << 20)
                    if not chunk:
                        break
                    answer += chunk
        finally:
            os.close(read_fd)
            send_signal(pid, signal.SIGKILL)
            self.forget(pid)
        if answer[:1] == b"+":
            return bytes(memoryview(answer)[1:])
        raise OSError(0, bytes(answer[1:]).decode() or "no answer from the helper process")

    def _answer(self, work: Callable[[], bytes], fd: int) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            become_agent()
            answer = b"+" + work()
        except BaseException as error:
            answer = b"-" + str(getattr(error, "strerror", None) or error or repr(error)).encode()
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
        self.drop_shell()

    def drop_shell(self) -> int | None:
        """Forget the shell, which is dead; returns its exit code."""
        if self.shell is None:
            return None
        shell, self.shell = self.shell, None
        shell.close()
        return self.forget(shell.pid)

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

    def kill_since(self, moment: Moment) -> None:
        """Kill what started since ``moment``, the shell excepted, and see it gone."""
        for _ in range(100):
            keep = self.shell.pid if self.shell is not None else 1
            left = [pid for pid in moment.processes_since() if pid != keep]
            if not left:
                return
            for pid in left:
                send_signal(pid, signal.SIGKILL)
            self.reap()
            time.sleep(0.002)
        self.kill_all()

    # ------------------------------------------------------------- requests

    def do_exec(self, request: Header, body: bytes) -> tuple[Header, bytes]:
        moment, output, begun = Moment(), Output(request["max_output"]), time.monotonic()
        ooms = oom_kills()
        stdout, out_w = os.pipe()
        in_r, stdin = os.pipe() if body else (self.null, -1)
        try:
            env = {**self.env, **request["env"]}
            pid = self.spawn(request["argv"], request["cwd"] or self.workdir, env, in_r, out_w)
        except OSError as error:
            note = f"no process could be started: {error.strerror}"
            return self.result(output, 126, False, begun, note)
        finally:
            os.close(out_w)
            if body:
                os.close(in_r)
        if body:
            os.set_blocking(stdin, False)
        deadline, strikes, left = begun + request["timeout"], 0, memoryview(body)
        while pid not in self.exits:
            if time.monotonic() >= deadline:
                self.strike(strikes, moment, pid, is_shell=False)
                strikes, deadline = strikes + 1, time.monotonic() + STRIKE_S
            fds = {stdout: select.POLLIN} if stdout >= 0 else {}
            ready = self.wait(
                {**fds, **({stdin: select.POLLOUT} if stdin >= 0 else {})},
                deadline - time.monotonic(),
            )
            if stdin in ready:
                left = feed(stdin, left)
                if not left:
                    os.close(stdin)
                    stdin = -1
            if stdout in ready:
                data = os.read(stdout, CHUNK)
                output.add(data)
                if not data:
                    os.close(stdout)
                    stdout = -1
        if strikes:
            self.kill_since(moment)
        drain(stdout, output)
        for fd in (stdin, stdout):
            if fd >= 0:
                os.close(fd)
        code = self.forget(pid)
        return self.result(output, 124 if strikes else code or 0, strikes > 0, begun, "", ooms)

    def do_shell(self, request: Header, body: bytes) -> tuple[Header, bytes]:
        begun, ooms = time.monotonic(), oom_kills()
        output, note = Output(request["max_output"]), ""
        try:
            shell = self.ready_shell()
        except OSError as error:
            self.kill_all()
            note = f"no shell could be started ({error.strerror}); all processes were ended"
            return self.result(output, 126, False, begun, note)
        moment, deadline, strikes = Moment(), begun + request["timeout"], 0
        if b"\0" in body:
            note = "NUL bytes in the command were dropped"
        shell.post(body.replace(b"\0", b""))
        report = None
        while report is None and shell.pid not in self.exits:
            if time.monotonic() >= deadline:
                self.strike(strikes, moment, shell.pid, is_shell=True)
                strikes, deadline = strikes + 1, time.monotonic() + STRIKE_S
            report = self.shell_turn(shell, output, deadline - time.monotonic())
        drain(shell.stdout, output)
        if report is not None:
            code, self.cwd = report
        else:
            code = self.drop_shell() or 0
            note = f"the shell ended and was started anew in {self.cwd}"
        if strikes:
            self.kill_since(moment)
        return self.result(output, 124 if strikes else code, strikes > 0, begun, note, ooms)

    def shell_turn(self, shell: Shell, output: Output, timeout_s: float) -> tuple[int, str] | None:
        """Move bytes to and from the shell once; returns its report when it came."""
        fds = {shell.stdout: select.POLLIN, shell.status: select.POLLIN}
        if shell.pending:
            fds[shell.stdin] = select.POLLOUT
        ready = self.wait(fds, timeout_s)
        if shell.stdin in ready:
            shell.push()
        if ready.get(shell.stdout, 0) & select.POLLIN:
            output.add(os.read(shell.stdout, CHUNK))
        if ready.get(shell.status, 0) & select.POLLIN:
            return shell.reported()
        if (ready.get(shell.stdout, 0) | ready.get(shell.status, 0)) & select.POLLHUP:
            time.sleep(0.001)  # dying, or sabotaged: its exit or the time-out is next
        return None

    def ready_shell(self) -> Shell:
        """Return the running shell, emptied of stray output, or a fresh one."""
        if self.shell is not None and self.shell.pid in self.exits:
            self.drop_shell()
        if self.shell is not None:
            drain(self.shell.stdout, Output(0))
            return self.shell
        if not os.access(self.cwd, os.F_OK):
            self.cwd = self.workdir
        self.shell = shell = Shell(
            lambda stdin, stdout, extra: self.spawn(BASH, self.cwd, self.env, stdin, stdout, extra)
        )
        deadline = time.monotonic() + 10.0
        while self.shell_turn(shell, Output(0), deadline - time.monotonic()) is None:
            if shell.pid in self.exits or time.monotonic() > deadline:
                raise OSError(0, "bash did not become ready")
        return shell

    def result(
        self,
        output: Output,
        code: int,
        timed_out: bool,
        begun: float,
        note: str,
        ooms: int | None = None,
    ) -> tuple[Header, bytes]:
        if ooms is not None and code in (137, 124) and oom_kills() > ooms:
            note = "; ".join(filter(None, (note, "a process was killed: out of memory")))
        data, head = output.result()
        header = {"code": code, "timed_out": timed_out, "head": head, "total": output.total}
        return {**header, "seconds": time.monotonic() - begun, "note": note}, data

    def do_read(self, request: Header, body: bytes) -> tuple[Header, bytes]:
        path = os.path.join(self.workdir, request["path"])
        return {}, self.as_agent(lambda: files.read(path, request["max"]))

    def do_write(self, request: Header, body: bytes) -> tuple[Header, bytes]:
        path, mode = os.path.join(self.workdir, request["path"]), request["mode"]
        return {}, self.as_agent(lambda: files.write(path, body, mode))

    def do_dump(self, request: Header, body: bytes) -> tuple[Header, bytes]:
        return {}, self.as_agent(lambda: files.dump(self.places))

    def do_kill(self, request: Header, body: bytes) -> tuple[Header, bytes]:
        self.kill_all()
        return {}, b""

    def do_reset(self, request: Header, body: bytes) -> tuple[Header, bytes]:
        self.kill_all()
        self.cwd = self.workdir
        return {}, self.as_agent(lambda: files.restore(self.places, body))


def main() -> None:
    if os.getpid() != 1:
        sys.exit("the server ends processes wholesale: it only runs as a container's main process")
    server = Server(json.loads(sys.argv[1]))
    try:
        server.serve()
    except (OwnerGone, BrokenPipeError):
        pass
    finally:
        send_signal(-1, signal.SIGKILL)


if __name__ == "__main__":
    main()
