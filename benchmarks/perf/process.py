"""A child process of a bench: started, read line by line, ended with its whole group.

What it says on stderr goes to a file, whose end is told when it fails.
"""

import json
import os
import queue
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

END_S = 5.0
TAIL_CHARS = 1500
POLL_S = 0.1
MANY_FILES = 16384  # a thousand streams through a gateway are two thousand sockets


class BenchError(RuntimeError):
    """A measurement that cannot be trusted: a child that failed, an error in a reply."""


class Process:
    """A child in a session of its own, on loopback, ended by its id.

    Args:
        command: program and arguments; ``python -m …`` of ours runs in this repository's folder.
        env: variables put over the present ones.
        folder: working directory.

    Raises:
        OSError: the program cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.command = list(command)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed in close)
        self._child = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **(env or {})},
            cwd=folder or Path(__file__).parents[2],
            start_new_session=True,
        )
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @classmethod
    def module(cls, name: str, *arguments: str, env: Mapping[str, str] | None = None) -> "Process":
        """Start a module of ours with this interpreter."""
        return cls([sys.executable, "-m", name, *arguments], env=env)

    def line(self, timeout_s: float = 120.0) -> str:
        """Return its next line.

        Raises:
            BenchError: it ended, or said nothing in time; the end of its stderr is in the message.
        """
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            raise self._failed(f"said nothing in {timeout_s:g} s") from None
        if line is None:
            self._lines.put(None)
            raise self._failed(f"ended with {self._child.wait(END_S)}")
        return line.decode().rstrip("\n")

    def ask(self, message: Mapping[str, Any], timeout_s: float = 120.0) -> Any:
        """Send one JSON line and return the JSON line it answers.

        Raises:
            BenchError: as ``line``.
        """
        return json.loads(self.tell(json.dumps(message).encode() + b"\n", timeout_s))

    def tell(self, line: bytes, timeout_s: float = 120.0) -> str:
        """Send one line and return the line it answers.

        Raises:
            BenchError: as ``line``.
        """
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(line)
            self._child.stdin.flush()
        except OSError as error:
            raise self._failed(f"takes no more messages: {error}") from error
        return self.line(timeout_s)

    def answers(self, url: str, timeout_s: float = 120.0) -> None:
        """Wait until a URL of it answers with 200.

        Raises:
            BenchError: it ended or did not answer in time.
        """
        ends = time.monotonic() + timeout_s
        while True:
            try:
                with urllib.request.urlopen(url, timeout=POLL_S * 20):
                    return
            except (urllib.error.URLError, OSError):
                if self._child.poll() is not None:
                    raise self._failed(f"ended with {self._child.returncode}") from None
                if time.monotonic() > ends:
                    raise self._failed(f"did not answer at {url} in {timeout_s:g} s") from None
            time.sleep(POLL_S)

    def cpu_s(self) -> float:
        """Return the processor time it has used, in seconds."""
        fields = Path(f"/proc/{self._child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End it and the children it has. Idempotent."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._child.poll() is not None:
                break
            try:
                os.killpg(self._child.pid, number)
                self._child.wait(END_S)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        self._reader.join(END_S)
        for stream in (self._child.stdin, self._child.stdout, self._log):
            if stream is not None:
                stream.close()

    def __enter__(self) -> "Process":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _failed(self, what: str) -> BenchError:
        self._log.seek(0)
        tail = self._log.read().decode(errors="replace").strip()[-TAIL_CHARS:]
        return BenchError(f"{' '.join(self.command)[:200]} {what}\n{tail}")


def allow_many_files() -> None:
    """Let this process and its children open as many sockets as the machine permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MANY_FILES if hard == resource.RLIM_INFINITY else min(MANY_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
