# ruff: noqa: PTH, UP035, SIM105 - plain os calls: they run as the image's Python, on descriptors
"""The persistent bash of the in-container server."""

from __future__ import annotations

import os
import secrets
from typing import Callable

from .streams import CHUNK

SHELL_OUT_FD, STATUS_FD = 254, 253  # of the persistent shell; closed for what it runs
BASH = ["/bin/bash", "--norc", "--noprofile", "--noediting", "+H", "-i"]
SHELL_INIT = "PS1= PS2=; unset HISTFILE MAILCHECK PROMPT_COMMAND; set +o history\n"


class Shell:
    """The persistent bash. Commands go in on its standard input, each wrapped in an ``eval`` with
    redirections of its own; the status comes out on a pipe that no command inherits."""

    def __init__(self, start: Callable[[int, int, dict[int, int]], int]) -> None:
        in_r, self.stdin = os.pipe()
        self.stdout, out_w = os.pipe()
        self.status, status_w = os.pipe()
        try:
            self.pid = start(in_r, out_w, {SHELL_OUT_FD: out_w, STATUS_FD: status_w})
        except OSError:
            self.close()
            raise
        finally:
            for fd in (in_r, out_w, status_w):
                os.close(fd)
        for fd in (self.stdin, self.stdout, self.status):
            os.set_blocking(fd, False)
        self.reports = b""
        self.pending = b""
        self.nonce = ""
        self.post(SHELL_INIT, raw=True)

    def post(self, command: str, raw: bool = False) -> None:
        """Queue a command and the report of its status."""
        self.nonce = secrets.token_hex(12)
        quoted = "'" + command.replace("'", "'\\''") + "'"
        line = (
            command
            if raw
            else (
                f"\\builtin eval {quoted} </dev/null >&{SHELL_OUT_FD} 2>&1 "
                f"{SHELL_OUT_FD}>&- {STATUS_FD}>&-\n"
            )
        )
        report = (
            f'{{ \\builtin printf \'%s %s %s\\0\' {self.nonce} "$?" "$PWD"; }} '
            f">&{STATUS_FD} 2>/dev/null\n"
        )
        self.pending = (line + report).encode("utf-8", "surrogateescape")

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
                return int(code), cwd
        return None

    def close(self) -> None:
        for fd in (self.stdin, self.stdout, self.status):
            os.close(fd)
