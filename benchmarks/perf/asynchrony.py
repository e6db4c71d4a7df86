"""How much faster a run is that samples while it trains, in simulated time.

``rl.simulation`` drives the real collector, learner, store and staleness rules; episodes, steps and
publications take simulated seconds. Ours: the units of a machine split between sampling and
training, the best split of those tried. Peer: the same units sample a batch, then all train on it.
The rows with equal lengths leave out the tail of long episodes: what remains of the gain comes from
sampling and training at once.
"""

import json
import logging
from typing import Any

from benchmarks.perf.process import Process
from benchmarks.perf.rows import Row

logger = logging.getLogger(__name__)
BENCH = "async"
STALENESS = ("0", "0.1", "0.3", "0.5", "1", "2", "4")
SPLITS = (3, 4, 5, 6)  # of eight units, those that train
TAIL = 1.0  # sigma of log-normal lengths
TIMEOUT_S = 300.0
PEER = "sample, then train, on all units"


def run(quick: bool) -> list[Row]:
    """Simulate all staleness bounds; ``quick`` two of them at one split."""
    bounds, splits = (("0.5", "2"), (6,)) if quick else (STALENESS, SPLITS)
    sync = simulate("sync", 0, TAIL)
    rows = [_sync_row(sync)]
    for bound in bounds:
        best = min((simulate(bound, k, TAIL) for k in splits), key=lambda s: s["seconds"])
        rows += _rows(bound, best, sync)
    if not quick:
        even = simulate("sync", 0, 0.0)
        best = min((simulate("2", k, 0.0) for k in splits), key=lambda s: s["seconds"])
        case = "staleness 2, all episodes of one length"
        rows.append(Row(BENCH, case, "s", best["seconds"], even["seconds"], PEER))
    return rows


def simulate(staleness: str, training: int, tail: float) -> dict[str, Any]:
    """Return what a run of one setting took; see ``rl.simulation``."""
    with Process.module("rl.simulation", staleness, str(training), str(tail)) as process:
        result: dict[str, Any] = json.loads(process.line(TIMEOUT_S))
    logger.info("staleness %s, %d units train: %.0f s", staleness, training, result["seconds"])
    return {**result, "training": training}


def _sync_row(sync: dict[str, Any]) -> Row:
    case = "sample, then train: share of the sampling capacity in use"
    return Row(BENCH, case, "", sync["sampling_share"])


def _rows(bound: str, best: dict[str, Any], sync: dict[str, Any]) -> list[Row]:
    split = f"{8 - best['training']} units sample, {best['training']} train"
    goal = ">= 2.5x" if bound == "2" else ""
    case = f"staleness {bound}"
    return [
        Row(BENCH, f"{case}, {split}", "s", best["seconds"], sync["seconds"], PEER, goal),
        Row(BENCH, f"{case}, samples past the bound", "", best["past_bound"], goal="0"),
        Row(BENCH, f"{case}, tokens masked as too old", "share", best["masked_share"]),
        Row(BENCH, f"{case}, training units busy", "share", best["training_share"]),
    ]
