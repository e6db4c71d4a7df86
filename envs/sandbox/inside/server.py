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
from typing import Any, Callable

from . import files
from .processes import Moment, oom_kills, send_signal
from .shell import BASH, Shell
from .streams import CHUNK, Output, Pipes, close, drain
from .supervisor import STRIKE_S, NoAnswer, OwnerGone, Supervisor

HOME = "/home/agent"
SHELL_START_S = 10.0

Header = dict[str, Any]


class Server:
    """Requests in, replies out, and the persistent shell between them."""

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
        self.children = Supervisor(self.owner_in)

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
            except NoAnswer as error:
                reply, data = {"lost": str(error)}, b""
            del body
            head = json.dumps(reply).encode()
            self.send(struct.pack("!II", len(head), len(data)) + head)
            self.send(data)

    def receive(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            self.children.wait({self.owner_in: select.POLLIN, **self.idle_fds()}, 60.0)
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

    # ------------------------------------------------------------- the shell

    def drop_shell(self) -> int | None:
        """Forget the shell, which is dead; returns its exit code."""
        if self.shell is None:
            return None
        shell, self.shell = self.shell, None
        shell.close()
        return self.children.forget(shell.pid)

    def kill_all(self) -> None:
        """Kill everything, the shell too. Raises ``OSError`` when something survives."""
        self.children.kill_all()
        self.drop_shell()

    def finish_off(self, moment: Moment) -> None:
        """After a time-out: nothing the command started is left, only the shell."""
        if not self.children.kill_since(moment, self.shell.pid if self.shell is not None else 1):
            self.kill_all()

    # ------------------------------------------------------------- requests

    def do_exec(self, request: Header, body: bytes) -> tuple[Header, bytes]:
        moment, output, begun = Moment(), Output(request["max_output"]), time.monotonic()
        ooms = oom_kills()
        stdout, out_w = os.pipe()
        in_r, stdin = os.pipe() if body else (os.dup(self.null), -1)
        try:
            env = {**self.env, **request["env"]}
            cwd = request["cwd"] or self.workdir
            pid = self.children.spawn(request["argv"], cwd, env, in_r, out_w)
        except OSError as error:
            close(stdin, stdout)
            note = f"no process could be started: {error.strerror}"
            return self.result(output, 126, False, begun, note)
        finally:
            close(out_w, in_r)
        pipes = Pipes(stdin, stdout, body, output)
        deadline, strikes = begun + request["timeout"], 0
        while pid not in self.children.exits:
            if time.monotonic() >= deadline:
                self.children.strike(strikes, moment, pid, is_shell=False)
                strikes, deadline = strikes + 1, time.monotonic() + STRIKE_S
            pipes.move(self.children.wait(pipes.wanted(), deadline - time.monotonic()))
        if strikes:
            self.finish_off(moment)
        pipes.close()
        code = self.children.forget(pid)
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
        while report is None and shell.pid not in self.children.exits:
            if time.monotonic() >= deadline:
                self.children.strike(strikes, moment, shell.pid, is_shell=True)
                strikes, deadline = strikes + 1, time.monotonic() + STRIKE_S
            report = self.shell_turn(shell, output, deadline - time.monotonic())
        drain(shell.stdout, output)
        if report is not None:
            code, self.cwd = report
        else:
            code = self.drop_shell() or 0
            note = f"the shell ended and was started anew in {self.cwd}"
        if strikes:
            self.finish_off(moment)
        return self.result(output, 124 if strikes else code, strikes > 0, begun, note, ooms)

    def shell_turn(self, shell: Shell, output: Output, timeout_s: float) -> tuple[int, str] | None:
        """Move bytes to and from the shell once; returns its report when it came."""
        fds = {shell.stdout: select.POLLIN, shell.status: select.POLLIN}
        if shell.pending:
            fds[shell.stdin] = select.POLLOUT
        ready = self.children.wait(fds, timeout_s)
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
        if self.shell is not None and self.shell.pid in self.children.exits:
            self.drop_shell()
        if self.shell is not None:
            drain(self.shell.stdout, Output(0))
            return self.shell
        for cwd in dict.fromkeys((self.cwd, self.workdir)):
            self.cwd = cwd
            if (shell := self.start_shell(cwd)) is not None:
                return shell
        raise OSError(0, "bash did not become ready")

    def start_shell(self, cwd: str) -> Shell | None:
        """Start a shell, wait until it takes commands. None: it ended, say for want of ``cwd``."""
        self.shell = shell = Shell(
            lambda stdin, stdout, extra: self.children.spawn(
                BASH, cwd, self.env, stdin, stdout, extra
            )
        )
        deadline = time.monotonic() + SHELL_START_S
        while time.monotonic() < deadline and shell.pid not in self.children.exits:
            if self.shell_turn(shell, Output(0), deadline - time.monotonic()) is not None:
                return shell
        send_signal(shell.pid, signal.SIGKILL)
        self.drop_shell()
        return None

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

    def as_agent(self, work: Callable[[], bytes]) -> bytes:
        """Have a helper do this with the agent's rights. The agent could kill or stop it: when it
        does not answer, everything is ended and another one tries, with nobody beside it."""
        try:
            return self.children.as_agent(work)
        except NoAnswer:
            self.kill_all()
            return self.children.as_agent(work)

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
        return {}, self.as_agent(files.remove_ipc)

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
