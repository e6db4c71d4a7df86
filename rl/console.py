"""What a person sees: one line per step with rate and time left.

On a terminal the line of a fast phase is rewritten in place; in a file it is written every few
seconds, so that logs stay readable.
"""

import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Self, TextIO

QUIET_S = 5.0


class Progress:
    """Counts up to a total and says how fast and how long still.

    Args:
        label: what is being counted.
        total: how many there will be.
        done: how many there are already (a resumed run).
        stream: where to write; standard error by default.
    """

    def __init__(self, label: str, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self.label, self.total, self.done = label, total, done
        self._stream = stream or sys.stderr
        self._started = time.monotonic()
        self._begun_at = done
        self._written = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._stream.isatty() and self.done > self._begun_at:
            self._stream.write("\n")

    def advance(self, note: str = "") -> None:
        """Count one more; write a line when it is due."""
        self.done += 1
        now = time.monotonic()
        due = now - self._written > (0.1 if self._stream.isatty() else QUIET_S)
        if due or self.done >= self.total:
            self._written = now
            self._write(self._line(now, note))

    def _line(self, now: float, note: str) -> str:
        elapsed = now - self._started
        rate = (self.done - self._begun_at) / elapsed if elapsed > 0 else 0.0
        left = (self.total - self.done) / rate if rate > 0 else 0.0
        speed = f"{rate:.1f}/s" if rate >= 1 else f"{1 / rate:.1f} s each" if rate else ""
        width = len(str(self.total))
        head = f"{self.label} {self.done:>{width}}/{self.total}"
        return f"{head}  {speed}  {clock(elapsed)} gone, {clock(left)} left  {note}".rstrip()

    def _write(self, line: str) -> None:
        """Write a line; a terminal that is gone, or a full disk behind it, ends no run."""
        with suppress(OSError):
            self._stream.write(f"\r\x1b[2K{line}" if self._stream.isatty() else line + "\n")
            self._stream.flush()


def clock(seconds: float) -> str:
    """Return ``m:ss`` or ``h:mm:ss``."""
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, second = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{second:02d}" if hours else f"{minutes}:{second:02d}"
