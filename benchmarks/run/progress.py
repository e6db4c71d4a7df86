"""One line for people: how far a run is, how fast, how long still, and what it found so far.

On a terminal the line is rewritten in place; in a file it is written every few seconds.
"""

import sys
import time
from typing import TextIO

from benchmarks.run.records import Record

QUIET_S = 5.0


class Progress:
    """Counts settled samples up to a total.

    Args:
        total: samples of the run.
        done: those a resumed run has already.
        stream: where to write; standard error by default.
    """

    def __init__(self, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self.total, self.done = total, done
        self._stream = stream or sys.stderr
        self._begun_at, self._started = done, time.monotonic()
        self._written = -QUIET_S
        self._scored = self._solved = self._lost = 0

    def advance(self, record: Record) -> None:
        """Count a settled sample; write a line when it is due."""
        self.done += 1
        self._lost += record.lost
        self._scored += not record.lost
        self._solved += record.solved
        now = time.monotonic()
        due = now - self._written > (0.1 if self._stream.isatty() else QUIET_S)
        if due or self.done >= self.total:
            self._written = now
            self._write(self._line(now))

    def _line(self, now: float) -> str:
        elapsed = now - self._started
        rate = (self.done - self._begun_at) / elapsed if elapsed > 0 else 0.0
        left = clock((self.total - self.done) / rate) if rate else "?"
        width = len(str(self.total))
        return (
            f"episodes {self.done:>{width}}/{self.total}  {60 * rate:.1f}/min  "
            f"{clock(elapsed)} gone, {left} left  "
            f"{self._solved} of {self._scored} solved, {self._lost} lost"
        )

    def _write(self, line: str) -> None:
        if self._stream.isatty():
            end = "\n" if self.done >= self.total else ""
            self._stream.write(f"\r\x1b[2K{line}{end}")
        else:
            self._stream.write(line + "\n")
        self._stream.flush()


def clock(seconds: float) -> str:
    """Return ``m:ss`` or ``h:mm:ss``."""
    hours, rest = divmod(int(seconds), 3600)
    minutes, second = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{second:02d}" if hours else f"{minutes}:{second:02d}"
