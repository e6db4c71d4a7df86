"""The report of a run: ``report.md`` and ``learning_curve.png``, from its folder alone.

``python -m rl.report runs/NAME`` writes it again. Held-out success is given before, after the warm
start and after RL, with intervals, by slice; every lost episode has its reason.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from agents.types import Episode
from rl import metrics
from rl.console import clock
from rl.evaluation import Evaluation, difference, evaluate
from rl.store import Store

NUM_HINTS = 8  # shown
LABELS = (("start", "before"), ("warmstart", "after warm start"), ("final", "after RL"))


@dataclass(frozen=True)
class Slice:
    """A part of the held-out tasks that is reported by itself."""

    name: str
    task_ids: tuple[str, ...]


def write(folder: Path) -> Path:
    """Write ``report.md`` (and the picture when there are RL steps); return its path."""
    rows = metrics.read(folder)
    config = json.loads((folder / "config.json").read_text())
    with Store(folder) as store:
        evaluations = store.evaluations()
        played = {label: evaluations.get(label, []) for label, _ in LABELS}
        endings, lost = store.endings(), store.losses()
        heard = _next_states(rows, store)
    lines = [f"# Run {folder.name}", ""]
    lines += _summary(config, rows)
    lines += _success_table(played)
    if draw(folder, rows):
        lines += ["", "![learning curve](learning_curve.png)"]
    lines += _training(rows) + heard
    lines += ["", "## Episodes", ""]
    ended = ", ".join(f"{count} {name}" for name, count in endings.most_common())
    lines.append(f"{sum(endings.values())} training episodes, {len(lost)} lost: {ended or 'none'}.")
    lines += [f"- {name}: {stop}: {error}" for name, stop, error in lost[:50]]
    path = folder / "report.md"
    path.write_text("\n".join(lines) + "\n")
    return path


def slices(episodes: Sequence[Episode]) -> list[Slice]:
    """Return all tasks, then those of each held-out kind, source and level."""
    tags: dict[str, set[str]] = {}
    everything: dict[str, None] = {}
    for episode in episodes:
        everything.setdefault(episode.task_id)
        for tag in episode.meta.get("tags", ()):
            if tag.split(":")[0] in ("heldout", "source", "level"):
                tags.setdefault(tag, set()).add(episode.task_id)
    parts = [Slice("all held-out tasks", tuple(everything))]
    return parts + [Slice(tag, tuple(sorted(ids))) for tag, ids in sorted(tags.items())]


def draw(folder: Path, rows: Sequence[dict[str, Any]]) -> bool:
    """Draw reward, entropy, gap and time per step; False when there is nothing to draw."""
    steps = [row for row in rows if row["phase"] == "rl"]
    if not steps:
        return False
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(10, 7), constrained_layout=True)
    at = [row["step"] for row in steps]
    _reward_panel(axes[0][0], at, steps, rows)
    panels: list[tuple[Any, str, str]] = [
        (axes[0][1], "entropy", "entropy (nats per token)"),
        (axes[1][0], "logprob_gap_mean", "mean |Δ log-prob|, engine vs trainer"),
        (axes[1][1], "step_s", "seconds per step"),
    ]
    for axis, key, title in panels:
        axis.plot(at, [row.get(key, float("nan")) for row in steps], color="tab:blue")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("optimiser step")
        axis.grid(alpha=0.3)
    figure.savefig(folder / "learning_curve.png", dpi=110)
    plt.close(figure)
    return True


def _reward_panel(
    axis: Any, at: list[int], steps: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]
) -> None:
    rewards = [row.get("reward", float("nan")) for row in steps]
    smooth = [sum(rewards[max(0, i - 4) : i + 1]) / (i + 1 - max(0, i - 4)) for i in range(len(at))]
    axis.plot(at, rewards, color="tab:blue", alpha=0.3, label="training reward")
    axis.plot(at, smooth, color="tab:blue", label="mean of the last 5")
    held = [(row["step"], row["success"]) for row in rows if row["phase"].startswith("eval:")]
    if held:
        axis.plot(*zip(*held, strict=True), "o", color="tab:red", label="held-out success")
    axis.set_ylim(-0.02, 1.02)
    axis.set_title("reward", fontsize=10)
    axis.set_xlabel("optimiser step")
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)


def _summary(config: dict[str, Any], rows: Sequence[dict[str, Any]]) -> list[str]:
    seconds = rows[-1]["time"] - rows[0]["time"] if rows else 0.0
    sampled = f"`env={config['env']}`, `model={config['model']}`, seed {config['seed']}"
    method = (
        f"`algorithm={config['algorithm']['name']}`, warm start `{config['warmstart']['kind']}`"
    )
    return [f"{sampled}, {method}, {clock(seconds)} between first and last measurement.", ""]


def _success_table(played: dict[str, list[Episode]]) -> list[str]:
    """Return held-out success by slice and phase, and what RL and the whole run added."""
    present = [(label, title) for label, title in LABELS if played[label]]
    if not present:
        return ["No evaluation was finished."]
    results = {label: evaluate(played[label]) for label, _ in present}
    lines = [
        "## Held-out success (95% intervals)",
        "",
        "| tasks | n | " + " | ".join(title for _, title in present) + " | RL added | in all |",
        "|---|---|" + "---|" * (len(present) + 2),
    ]
    for part in slices(played[present[0][0]]):
        lines.append(_success_row(part, results, [label for label, _ in present]))
    lost = {label: result.lost for label, result in results.items() if result.lost}
    if lost:
        lines += ["", f"Episodes lost to the machine, in no denominator: {lost}."]
    return lines


def _success_row(part: Slice, results: dict[str, Evaluation], labels: Sequence[str]) -> str:
    cut = {label: results[label].only(part.task_ids) for label in labels}
    cells = [str(cut[label].interval()) for label in labels]
    before_rl = "warmstart" if "warmstart" in cut else "start"
    gain: Callable[[str], str] = lambda a: (  # noqa: E731
        str(difference(cut[a], cut["final"])) if "final" in cut and a in cut else "–"
    )
    n = len(cut[labels[0]].success)
    return f"| {part.name} | {n} | " + " | ".join([*cells, gain(before_rl), gain("start")]) + " |"


def _training(rows: Sequence[dict[str, Any]]) -> list[str]:
    steps = [row for row in rows if row["phase"] == "rl"]
    if not steps:
        return []
    keys = ("reward", "groups_trained", "trained_tokens", "sharing", "entropy", "step_s")
    lines = ["", "## Steps", "", "| step | " + " | ".join(keys) + " |", "|---" * 7 + "|"]
    for row in steps:
        cells = [f"{row.get(key, float('nan')):.3g}" for key in keys]
        lines.append(f"| {row['step']} | " + " | ".join(cells) + " |")
    return lines


def _next_states(rows: Sequence[dict[str, Any]], store: Store) -> list[str]:
    """Return how the turns of a run with ``rl.hindsight`` were judged, and its latest hints."""
    counts: Counter[str] = Counter()
    for row in rows:
        if row["phase"] == "hindsight":
            counts.update({k: n for k, n in row.items() if k not in ("phase", "step", "time")})
    if not counts:
        return []
    told = ", ".join(f"{number} {name}" for name, number in counts.most_common())
    lines = ["", "## What followed the turns", "", f"Turns and hints: {told}.", ""]
    latest = (
        f"- `{' '.join(episode.turns[index].text.split())[:80]}` → {signal.hints[0].text}"
        for group in reversed(store.group_ids())
        for episode in store.group(group)
        for index, signal in store.signals(episode.id).items()
        if signal.hints
    )
    return lines + list(islice(latest, NUM_HINTS))


def main() -> int:
    """Run the command line."""
    if {*sys.argv[1:]} & {"-h", "--help"}:
        sys.stdout.write(f"{(__doc__ or '').strip()}\n")
        return 0
    folders = [Path(argument) for argument in sys.argv[1:] if not argument.startswith("-")]
    if len(folders) != 1 or not (folders[0] / "config.json").is_file():
        sys.stderr.write("usage: python -m rl.report RUN   (a folder with config.json)\n")
        return 2
    sys.stdout.write(f"{write(folders[0])}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
