"""Metrics: one row per step into ``metrics.jsonl`` and TensorBoard events.

After a resume, rows past the resumed step are dropped, so a curve never doubles back.
"""

import json
import time
from pathlib import Path
from typing import Any


class Metrics:
    """Writes numbers of a run. ``close`` is idempotent.

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "metrics.jsonl"
        self._file = self._path.open("a", encoding="utf-8")
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
        part.write_text("".join(json.dumps(row) + "\n" for row in kept))
        self._file.close()
        part.replace(self._path)
        self._file = self._path.open("a", encoding="utf-8")
        if self._events is None:
            self._open_events(purge_step=step + 1)

    def has(self, phase: str, step: int) -> bool:
        """Return whether a row of this phase and step is written."""
        return any(row["phase"] == phase and row["step"] == step for row in read(self._folder))

    def _open_events(self, purge_step: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._events = SummaryWriter(str(self._folder / "tensorboard"), purge_step=purge_step)

    def write(self, phase: str, step: int, values: dict[str, Any]) -> None:
        """Write one row: ``phase`` is ``rl``, ``warmstart`` or ``eval:<label>``."""
        row = {"phase": phase, "step": step, "time": time.time(), **values}
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()
        if self._events is None:
            self._open_events(purge_step=None)
        for name, value in values.items():
            if isinstance(value, int | float):
                self._events.add_scalar(f"{phase}/{name}", value, step)

    def close(self) -> None:
        """Flush and close."""
        self._file.close()
        if self._events is not None:
            self._events.close()


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
