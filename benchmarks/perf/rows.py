"""The row every speed measurement ends in, its table and the machine it was measured on.

Example:
    >>> row = Row(bench="sandbox", case="step", unit="ms", ours=1.0, peer=20.0,
    ...           peer_name="docker exec", goal="<= 10 ms", better="lower")
    >>> row.ratio
    20.0
"""

import math
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

MIN_ROUNDS = 3


@dataclass(frozen=True)
class Row:
    """One case.

    Attributes:
        bench, case: what was measured.
        unit: of ``ours`` and ``peer``.
        ours, peer: measured values; None when it was not measured here.
        peer_name: what ``peer`` is; for a peer that is not installed, the command that installs it.
        goal: in words, or "".
        better: whether lower or higher values are better.
    """

    bench: str
    case: str
    unit: str
    ours: float | None
    peer: float | None = None
    peer_name: str = ""
    goal: str = ""
    better: Literal["lower", "higher"] = "lower"

    @property
    def ratio(self) -> float | None:
        """How many times better ours is than the peer; above 1 is better."""
        if not self.ours or not self.peer:
            return None
        return self.peer / self.ours if self.better == "lower" else self.ours / self.peer

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        return {
            "bench": self.bench,
            "case": self.case,
            "unit": self.unit,
            "ours": _rounded(self.ours),
            "peer": _rounded(self.peer),
            "peer_name": self.peer_name,
            "ratio": _rounded(self.ratio),
            "goal": self.goal,
        }


def medians_ms(
    actions: Mapping[str, Callable[[], object]],
    rounds: int,
    before: Callable[[], object] = lambda: None,
    budget_s: float = math.inf,
) -> dict[str, float]:
    """Return the median wall-clock milliseconds of each action.

    They are taken in turn, after one warm-up round, so a busy machine burdens all alike. Each is
    preceded by ``before``, which is not measured. After ``budget_s`` no further round begins,
    once three have counted.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    ends = perf_counter() + budget_s
    for turn in range(rounds + 1):
        if turn > MIN_ROUNDS and perf_counter() > ends:
            break
        for name, action in actions.items():
            before()
            begun = perf_counter()
            action()
            if turn:
                times[name].append(perf_counter() - begun)
    return {name: sorted(values)[len(values) // 2] * 1e3 for name, values in times.items()}


def machine_facts() -> str:
    """Return the machine in one line: figures without it compare nothing."""
    cpu = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                cpu = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{cpu}, {cores} cores, load {os.getloadavg()[0]:.1f}, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def table(rows: Sequence[Row]) -> str:
    """Return rows as an aligned table."""
    head = ("bench", "case", "ours", "peer", "unit", "ratio", "goal", "peer is")
    cells = [head] + [
        (
            row.bench,
            row.case,
            _shown(row.ours),
            _shown(row.peer),
            row.unit,
            f"{row.ratio:.1f}x" if row.ratio else "-",
            row.goal or "-",
            row.peer_name or "-",
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
