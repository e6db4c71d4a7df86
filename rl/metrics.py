"""Metrics: one row per step into ``metrics.jsonl`` and TensorBoard events.

After a resume, rows past the resumed step are dropped, so a curve never doubles back.
"""

import errno
import json
import logging
import time
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from rl.space import writing

log = logging.getLogger(__name__)


class Metrics:
    """Writes numbers of a run. ``close`` is idempotent.

    Args:
        folder: the run folder.

    Raises:
        NoSpaceError: the disk is full; of every method that writes. TensorBoard's events are a
            convenience: what cannot be written of them is left out, with a warning.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "metrics.jsonl"
        with writing(self._path):
            self._file = self._path.open("ab", buffering=0)
        self._events: Any = None

    def rewind(self, step: int, warmed: bool) -> None:
        """Drop rows of weights that a resume has lost, so that no curve doubles back.

        Args:
            step: the RL step resumed at; later rows of RL and evaluations go.
            warmed: whether the warm start is behind; its rows go when it is not.
        """
        kept = [
            row
            for row in read(self._folder)
            if (warmed if row["phase"] == "warmstart" else row["step"] <= step)
        ]
        part = self._path.with_suffix(".part")
        with writing(self._path):
            part.write_text("".join(json.dumps(row) + "\n" for row in kept))
            self._file.close()
            part.replace(self._path)
            self._file = self._path.open("ab", buffering=0)
        self._draw({}, step, purge_step=step + 1)

    def has(self, phase: str, step: int) -> bool:
        """Return whether a row of this phase and step is written."""
        return any(row["phase"] == phase and row["step"] == step for row in read(self._folder))

    def write(self, phase: str, step: int, values: dict[str, Any]) -> None:
        """Write one row: ``phase`` is ``rl``, ``warmstart`` or ``eval:<label>``."""
        row = {"phase": phase, "step": step, "time": time.time(), **values}
        with writing(self._path):
            _append_whole(self._file, (json.dumps(row) + "\n").encode())
        numbers = {name: v for name, v in values.items() if isinstance(v, int | float)}
        self._draw({f"{phase}/{name}": value for name, value in numbers.items()}, step)

    def close(self) -> None:
        """Flush and close."""
        self._file.close()
        if self._events is not None:
            with suppress(OSError):
                self._events.close()

    def _draw(self, values: dict[str, float], step: int, purge_step: int | None = None) -> None:
        """Write numbers for TensorBoard; after a failure its file is begun anew."""
        from torch.utils.tensorboard import SummaryWriter

        try:
            if self._events is None:
                folder = str(self._folder / "tensorboard")
                self._events = SummaryWriter(folder, purge_step=purge_step)
            for name, value in values.items():
                self._events.add_scalar(name, value, step)
        except OSError as error:
            log.warning("TensorBoard events of step %d are left out: %s", step, error)
            self._events = None


def _append_whole(file: FileIO, line: bytes) -> None:
    """Write a line, or nothing of it: what is tried again must not stand there twice."""
    end = file.seek(0, 2)
    try:
        if file.write(line) < len(line):
            raise OSError(errno.ENOSPC, "No space left on device", file.name)
    except OSError:
        file.truncate(end)
        raise


def read(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a run; a torn last line (the run was killed) is left out."""
    path = folder / "metrics.jsonl"
    rows: list[dict[str, Any]] = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows
