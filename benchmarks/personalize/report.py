"""The tables and the picture of an experiment, from its folder alone."""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

BOOTSTRAPS = 10_000
WINDOW = 5  # sessions a curve is smoothed over


def read(out: Path) -> list[dict[str, Any]]:
    """Return the results of finished cells."""
    path = out / "results.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def write(out: Path) -> str:
    """Write ``table.md`` and ``scores.png``; return the table."""
    text = table(read(out))
    (out / "table.md").write_text(text + "\n")
    draw(out)
    return text


def table(results: Sequence[dict[str, Any]]) -> str:
    """Return one row per persona and method: means over seeds, 95% bootstrap intervals.

    A run that has not converged counts with its cap, and is counted apart.
    """
    groups: dict[tuple[str, str], list[tuple[dict[str, Any], str]]] = defaultdict(list)
    for result in results:
        for persona in result["cell"]["personas"]:
            groups[persona, result["cell"]["method"]].append((result, persona))
    lines = [
        "| persona | method | runs | sessions to converge | not converged | score, first 5 | "
        "score, last 5 | skill before → after | minutes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (persona, method), rows in sorted(groups.items()):
        ends = [r["converged"][p] or r["cell"]["cap"] for r, p in rows]
        never = sum(r["converged"][p] is None for r, p in rows)
        scores = [[s["score"] for s in r["sessions"] if s["persona"] == p] for r, p in rows]
        skills = [
            f"{r['skill_before']:.2f} → {r['skill_after']:.2f}"
            for r, _ in rows
            if r["skill_before"] is not None and r["skill_after"] is not None
        ]
        lines.append(
            f"| {persona} | {method} | {len(rows)} | {_interval(ends)} | {never} | "
            f"{_interval([np.mean(s[:5]) for s in scores])} | "
            f"{_interval([np.mean(s[-5:]) for s in scores])} | {'; '.join(skills) or '-'} | "
            f"{np.mean([r['minutes'] for r, _ in rows]):.1f} |"
        )
    return "\n".join(lines)


def draw(out: Path) -> None:
    """Draw the score of first replies by session, one panel per persona."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    curves: dict[str, dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    for result in read(out):
        for persona in result["cell"]["personas"]:
            scores = [s["score"] for s in result["sessions"] if s["persona"] == persona]
            curves[persona][result["cell"]["method"]].append(scores)
    if not curves:
        return
    figure, axes = plt.subplots(
        1, len(curves), figsize=(5 * len(curves), 3.6), squeeze=False, constrained_layout=True
    )
    for axis, (persona, methods) in zip(axes[0], sorted(curves.items()), strict=True):
        for method, runs in sorted(methods.items()):
            longest = max(map(len, runs))
            mean = [float(np.mean([r[i] for r in runs if i < len(r)])) for i in range(longest)]
            smooth = [float(np.mean(mean[max(0, i + 1 - WINDOW) : i + 1])) for i in range(longest)]
            axis.plot(range(1, longest + 1), smooth, label=method)
        axis.set(title=persona, xlabel="session", ylim=(-0.02, 1.02))
        axis.set_ylabel(f"score of first replies, mean of {WINDOW}")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.savefig(out / "scores.png", dpi=110)
    plt.close(figure)


def _interval(values: Sequence[Any]) -> str:
    """Return the mean with its bootstrap interval; of one value, the value."""
    numbers = np.asarray(values, np.float64)
    if len(numbers) < 2:
        return f"{numbers.mean():.2f}"
    draws = np.random.default_rng(0).integers(len(numbers), size=(BOOTSTRAPS, len(numbers)))
    low, high = np.quantile(numbers[draws].mean(axis=1), [0.025, 0.975])
    return f"{numbers.mean():.2f} [{low:.2f}, {high:.2f}]"
