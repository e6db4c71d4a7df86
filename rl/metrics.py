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
        resumed_step: keep only rows up to this RL step; None keeps all.
    """

    def __init__(self, folder: Path, resumed_step: int | None = None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._path = folder / "metrics.jsonl"
        if resumed_step is not None:
            kept = [row for row in read(folder) if row["step"] <= resumed_step]
            self._path.write_text("".join(json.dumps(row) + "\n" for row in kept))
        self._file = self._path.open("a", encoding="utf-8")
        purge = None if resumed_step is None else resumed_step + 1
        self._events: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=purge)

    def write(self, phase: str, step: int, values: dict[str, Any]) -> None:
        """Write one row: ``phase`` is ``rl``, ``warmstart`` or ``eval:<label>``."""
        row = {"phase": phase, "step": step, "time": time.time(), **values}
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()
        for name, value in values.items():
            if isinstance(value, int | float):
                self._events.add_scalar(f"{phase}/{name}", value, step)

    def close(self) -> None:
        """Flush and close."""
        self._file.close()
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
