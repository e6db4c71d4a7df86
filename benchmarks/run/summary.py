"""A run in numbers: pass@k with intervals, tables by category and by ending, and its cost.

Episodes the machine lost are counted and named, and are in no denominator. JSON values only; NaN is
written as null.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.run import statistics
from benchmarks.run.folder import Run
from benchmarks.run.records import Record
from benchmarks.run.statistics import Interval

KS = (1, 2, 4, 5, 8, 10, 16, 32, 64, 100)

CATEGORIES: Mapping[str, Callable[[Record], str]] = {
    "env": lambda record: record.env,
    "level": lambda record: record.level,
    "held-out kind": lambda record: record.kind or "-",
    "family": lambda record: record.family,
}


def summarise(run: Run) -> dict[str, Any]:
    """Return everything a report says of one run."""
    records = list(run.episodes.values())
    scored = [record for record in records if not record.lost]
    lost = [record for record in records if record.lost]
    k = int(run.facts["settings"]["k"])
    return {
        "run": {"name": run.name, **run.facts},
        "counts": {
            "tasks": run.facts["tasks"],
            "samples": run.planned,
            "scored": len(scored),
            "lost": len(lost),
            "not_played": run.planned - len(records),
            "tries": run.tries,
        },
        "success": success(scored),
        "pass_at_k": [row for n in KS + (k,) * (k not in KS) if (row := at_k(scored, n))],
        "mean_reward": as_json(_per_task_bootstrap(scored, lambda r: float(r.reward or 0.0))),
        "categories": {
            name: rows for name, of in CATEGORIES.items() if len(rows := _table(records, of)) > 1
        },
        "stop_reasons": _stop_reasons(scored),
        "lost": _lost(lost),
        "cost": _cost(scored),
    }


def shares(records: Iterable[Record]) -> dict[str, float]:
    """Return per task the share of its scored episodes that were solved: pass@1."""
    return {task: solved / count for task, (count, solved) in tallies(records).items()}


def tallies(records: Iterable[Record]) -> dict[str, tuple[int, int]]:
    """Return per task its scored episodes and how many of them were solved."""
    found: dict[str, tuple[int, int]] = {}
    for record in records:
        if not record.lost:
            count, solved = found.get(record.task_id, (0, 0))
            found[record.task_id] = count + 1, solved + record.solved
    return dict(sorted(found.items()))


def families(records: Iterable[Record]) -> dict[str, str]:
    """Return each task's family."""
    return {record.task_id: f"{record.env}/{record.family}" for record in records}


def success(scored: Sequence[Record]) -> dict[str, Any]:
    """Return pass@1 with its intervals."""
    share, family = shares(scored), families(scored)
    values = list(share.values())
    rate = float(np.mean(values)) if values else math.nan
    return {
        "tasks": len(share),
        "families": len(set(family.values())),
        "episodes": len(scored),
        "solved": sum(record.solved for record in scored),
        "wilson": as_json(statistics.wilson(rate, len(share))),
        "by_task": as_json(statistics.bootstrap(values)),
        "by_family": as_json(statistics.bootstrap(values, [family[t] for t in share])),
    }


def at_k(scored: Sequence[Record], k: int) -> dict[str, Any] | None:
    """Return pass@k over the tasks with at least k scored samples; None without any."""
    values, names = [], []
    for task, (count, solved) in tallies(scored).items():
        if count >= k:
            values.append(statistics.pass_at_k(count, solved, k))
            names.append(task)
    if not values:
        return None
    family = families(scored)
    return {
        "k": k,
        "tasks": len(values),
        "by_task": as_json(statistics.bootstrap(values)),
        "by_family": as_json(statistics.bootstrap(values, [family[n] for n in names])),
    }


def _table(records: Sequence[Record], of: Callable[[Record], str]) -> list[dict[str, Any]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(of(record), []).append(record)
    order = {name: place for place, name in enumerate(("trivial", "easy", "medium", "hard"))}
    rows = []
    for name in sorted(groups, key=lambda name: (order.get(name, len(order)), name)):
        scored = [record for record in groups[name] if not record.lost]
        share = list(shares(scored).values())
        rate = float(np.mean(share)) if share else math.nan
        rows.append(
            {
                "name": name,
                "tasks": len(share),
                "episodes": len(scored),
                "lost": len(groups[name]) - len(scored),
                "wilson": as_json(statistics.wilson(rate, len(share))),
            }
        )
    return rows


def _stop_reasons(scored: Sequence[Record]) -> list[dict[str, Any]]:
    counts = Counter(record.stop_reason for record in scored)
    rows = []
    for reason, count in counts.most_common():
        these = [record for record in scored if record.stop_reason == reason]
        rows.append(
            {
                "reason": str(reason),
                "episodes": count,
                "share": count / len(scored),
                "mean_reward": float(np.mean([record.reward or 0.0 for record in these])),
                "mean_turns": float(np.mean([len(record.turns) for record in these])),
            }
        )
    return rows


def _lost(lost: Sequence[Record]) -> list[dict[str, Any]]:
    causes: dict[tuple[str, str], list[Record]] = {}
    for record in lost:
        kind = record.error.partition(":")[0]
        causes.setdefault((str(record.stop_reason), kind), []).append(record)
    return [
        {"reason": reason, "cause": kind, "episodes": len(these), "example": these[0].error[:300]}
        for (reason, kind), these in sorted(causes.items(), key=lambda item: -len(item[1]))
    ]


def _cost(scored: Sequence[Record]) -> dict[str, Any]:
    """Return tokens, turns and seconds per scored episode."""
    columns: dict[str, list[float]] = {
        "turns": [len(record.turns) for record in scored],
        "prompt_tokens": [record.prompt_tokens for record in scored],
        "reply_tokens": [record.reply_tokens for record in scored],
        "seconds": [record.duration_s for record in scored],
    }
    if not scored:
        return {}
    return {
        name: {
            "mean": float(np.mean(values)),
            "median": float(np.median(values)),
            "p90": float(np.quantile(values, 0.9)),
            "total": float(np.sum(values)),
        }
        for name, values in columns.items()
    }


def _per_task_bootstrap(scored: Sequence[Record], of: Callable[[Record], float]) -> Interval:
    found: dict[str, list[float]] = {}
    for record in scored:
        found.setdefault(record.task_id, []).append(of(record))
    return statistics.bootstrap([float(np.mean(v)) for _, v in sorted(found.items())])


def as_json(interval: Interval) -> dict[str, float | None]:
    parts = {"value": interval.value, "low": interval.low, "high": interval.high}
    return {name: None if math.isnan(part) else part for name, part in parts.items()}
