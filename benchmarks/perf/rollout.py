"""Wall-clock time of many episodes at once over what the longest of them waits for.

Policy and environment take their time and do nothing else (``agents.waits``); what is
measured is dispatch, Ray workers, episode loop and agent. verifiers plays the same episodes with
the same waits in one process.

    python -m benchmarks.perf.peers install verifiers
    python -m benchmarks.perf rollout
"""

import json

from benchmarks.perf.peers import VERIFIERS
from benchmarks.perf.process import Process
from benchmarks.perf.rows import Row

SIZES = (16, 64, 256, 1024)
GOAL = "<= 1.05"
TIMEOUT_S = 300.0


def run(quick: bool) -> list[Row]:
    """Measure all sizes; ``quick`` the first two."""
    peer = [str(VERIFIERS.folder / "bin" / "python"), "-m", "benchmarks.perf.verifiers_side"]
    rows = []
    for size in SIZES[:2] if quick else SIZES:
        with Process.module("rl.rollouts", str(size)) as process:
            ours = _stretch(process)
        theirs, name = None, VERIFIERS.remedy
        if VERIFIERS.is_installed:
            with Process([*peer, str(size)]) as process:
                theirs, name = _stretch(process), VERIFIERS.label
        case = f"{size} episodes at once"
        rows.append(Row("rollout", case, "wall / ideal", ours, theirs, name, GOAL))
    return rows


def _stretch(process: Process) -> float:
    told: dict[str, float] = json.loads(_last(process))
    return told["wall_s"] / told["ideal_s"]


def _last(process: Process) -> str:
    """Return the first line that is JSON; Ray says things of its own before."""
    while not (line := process.line(TIMEOUT_S)).startswith("{"):
        continue
    return line
