"""The persistent bash of the in-container server."""

from __future__ import annotations

import os
import secrets
from typing import Callable

from .streams import CHUNK

OUT_FD, STATUS_FD, SCRIPT_FD = 254, 253, 252  # of bash; its commands get the last one only
BASH = ["/bin/bash", "--norc", "--noprofile", "--noediting", "+H", "-i"]
INIT = b"PS1= PS2=; unset HISTFILE MAILCHECK PROMPT_COMMAND; set +o history"


class Shell:
    """A bash that lives from command to command.

    It reads its own input line by line: one line sources the command, which lies in a memory file
    that only the server can write, with redirections of its own; the next reports the status on a
    pipe that no command inherits. ``-i`` makes an interrupt end the command instead of the shell;
    ``source`` keeps the messages of an interactive shell out of the output.
    """

    def __init__(self, start: Callable[[int, int, dict[int, int]], int]) -> None:
        in_r, self.stdin = os.pipe()
        self.stdout, out_w = os.pipe()
        self.status, status_w = os.pipe()
        self.script = os.memfd_create("command")
        os.fchmod(self.script, 0o444)
        script_r = os.open(f"/proc/self/fd/{self.script}", os.O_RDONLY)
        extra = {OUT_FD: out_w, STATUS_FD: status_w, SCRIPT_FD: script_r}
        try:
            self.pid = start(in_r, out_w, extra)
        except OSError:
            self.close()
            raise
        finally:
            for fd in (in_r, out_w, status_w, script_r):
                os.close(fd)
        for fd in (self.stdin, self.stdout, self.status):
            os.set_blocking(fd, False)
        self.reports = self.pending = b""
        self.nonce = ""
        self.last = 0
        self.post(INIT)

    def post(self, command: bytes) -> None:
        """Queue a command and the report of its status.

        An interrupt or a syntax error discards the rest of the first line; then the empty line
        makes the parser forget what was open, and the last line reports. Outer braces keep the
        traces of ``set -x`` out of the output, the assignments the prompts. ``$?`` starts as the
        command before left it; behind ``||`` so that ``set -e`` lets it pass.
        """
        os.ftruncate(self.script, 0)
        os.pwrite(self.script, command + b"\n", 0)
        self.nonce = secrets.token_hex(12)
        source = f"\\builtin source /dev/fd/{SCRIPT_FD} </dev/null >&{OUT_FD} 2>&1"
        before = f"( \\builtin exit {self.last} ) || " if self.last else ""
        report = f'\\builtin printf \'%s %s %s\\0\' {self.nonce} "$?" "$PWD" >&{STATUS_FD}'
        self.pending = (
            f"{{ [[ -r /dev/fd/{SCRIPT_FD} ]] || \\builtin exit 125; "
            f"{before}{source} {OUT_FD}>&- {STATUS_FD}>&-; {report}; PS1= PS2= PROMPT_COMMAND=; "
            f"\\builtin set +v; }} "
            f"2>/dev/null\n\n{{ {report}; }} 2>/dev/null\n"
        ).encode()

    def push(self) -> None:
        """Write what the pipe takes of the queued command."""
        try:
            self.pending = self.pending[os.write(self.stdin, self.pending) :]
        except BlockingIOError:
            pass
        except OSError:
            self.pending = b""

    def reported(self) -> tuple[int, str] | None:
        """Return exit code and directory once the shell has reported the current command."""
        try:
            self.reports += os.read(self.status, CHUNK)
        except OSError:
            return None
        *whole, self.reports = self.reports.split(b"\0")
        for report in whole:
            nonce, _, rest = report.decode("utf-8", "surrogateescape").partition(" ")
            code, _, cwd = rest.partition(" ")
            if nonce == self.nonce and code.isdigit():
                self.last = int(code)
                return self.last, cwd
        return None

    def close(self) -> None:
        for fd in (self.stdin, self.stdout, self.status, self.script):
            os.close(fd)
