"""Ctrl-C and SIGTERM, heard from the first line of a program to its last: the first saves and
stops, the second stops at once. Both signals mean the same.

``listen`` takes them; what is running decides what the first one does: before and after the
asynchronous part it raises ``KeyboardInterrupt``, within it the task that is ``cancels`` is
cancelled. The second ends the process on the spot, with nothing unwound: what was acknowledged is
on the disk by then, and what the process leaves is removed by the next start.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = 130  # exit code


class Interrupts:
    """The signals of one program.

    Attributes:
        way_on: what a person can do after the program was stopped; "": nothing was begun.
    """

    def __init__(self) -> None:
        self.way_on = ""
        self._heard = False
        self._over = False
        self._inside: tuple[asyncio.AbstractEventLoop, asyncio.Task[object]] | None = None

    def listen(self) -> None:
        """Take both signals, for as long as the process lives. Main thread only."""
        for number in SIGNALS:
            signal.signal(number, self._hear)

    def finish(self) -> None:
        """From here on only the exit code is left to give: signals change nothing any more."""
        self._over = True

    @contextmanager
    def cancels(self) -> Iterator[None]:
        """Within it the first signal cancels the task that is running now."""
        task = asyncio.current_task()
        assert task is not None
        self._inside = (asyncio.get_running_loop(), task)
        try:
            yield
        finally:
            self._inside = None

    def last_words(self, what: str) -> str:
        """Return the line that ends an interrupted program."""
        return f"{what}; {self.way_on}" if self.way_on else f"{what} before anything was begun"

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._over:
            return
        if self._heard:
            _say(self.last_words("stopped at once"))
            os._exit(INTERRUPTED)
        self._heard = True
        if self._inside is None:
            raise KeyboardInterrupt
        _say("interrupted: saving; again to stop at once")
        loop, task = self._inside
        loop.call_soon_threadsafe(task.cancel)


def run_child(command: Sequence[str]) -> int:
    """Run a program in the foreground and return its exit code; it hears every signal once.

    A terminal sends Ctrl-C to a whole group of processes, a supervisor SIGTERM to one. The child is
    in a session of its own, so both come here and are passed on. Main thread only.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    for number in SIGNALS:
        signal.signal(number, pass_on)
    try:
        child = subprocess.Popen(command, start_new_session=True)
        for heard in early:
            child.send_signal(heard)
        return child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(line: str) -> None:
    """Write past the buffers: a signal may have come in the middle of one."""
    with suppress(OSError):  # nobody reads, or no space for it: no reason to stop otherwise
        os.write(2, f"{line}\n".encode())
