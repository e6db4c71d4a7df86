"""``python -m rl.seeds env=NAME [seeds=0,1,2] [run=FOLDER] [key=value…]``: a learning claim.

Runs ``rl.train`` once per seed under ``FOLDER/seed<N>``, one after the other, and writes the table
(seed, before, after warm start, after RL, what RL added, minutes) to ``FOLDER/table.md``. Finished
seeds are not run again; the same command with the same ``run=`` resumes an interrupted one, which
Ctrl-C saves. Real-package tasks of ``env=swe`` get a
table of their own.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rl import metrics
from rl.evaluation import Evaluation, difference, evaluate
from rl.interrupts import run_child
from rl.store import Store

LABELS = ("start", "warmstart", "final")
RELEASE = "source:release"


@dataclass(frozen=True)
class Outcome:
    """What one seed gave.

    Attributes:
        seed: of the run.
        results: evaluation by label, over the tasks of one table.
        minutes: between the first and the last measurement.
    """

    seed: int
    results: dict[str, Evaluation]
    minutes: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the worst exit code of the runs."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or "--help" in arguments or "-h" in arguments:
        sys.stdout.write((__doc__ or "").strip() + "\n")
        return 0 if arguments else 2
    settings = dict(argument.partition("=")[::2] for argument in arguments)
    try:
        seeds = [int(seed) for seed in settings.pop("seeds", "0,1,2").split(",")]
    except ValueError:
        sys.stderr.write("seeds= takes whole numbers with commas between, such as seeds=0,1,2\n")
        return 2
    stamp = time.strftime("%Y%m%d-%H%M%S")
    root = Path(settings.pop("run", f"runs/seeds-{settings.get('env', 'terminal')}-{stamp}"))
    for seed in seeds:
        code = _train(root / f"seed{seed}", seed, settings)
        if code:
            given = [f"{key}={value}" for key, value in settings.items()]
            again = " ".join([*given, f"seeds={','.join(map(str, seeds))}", f"run={root}"])
            sys.stderr.write(f"go on with: python -m rl.seeds {again}\n")
            return code
    table = render(root, seeds)
    (root / "table.md").write_text(table)
    sys.stdout.write(table)
    return 0


def render(root: Path, seeds: Sequence[int]) -> str:
    """Return the tables of finished seeds in Markdown."""
    parts = []
    for title, release in (("generated held-out tasks", False), ("real-package bugs", True)):
        outcomes = [_outcome(root / f"seed{seed}", seed, release) for seed in seeds]
        if any(outcome.results["final"].success for outcome in outcomes):
            parts.append(_table(title, outcomes))
    return "\n".join(parts)


def _train(folder: Path, seed: int, settings: dict[str, str]) -> int:
    if (folder / "report.md").exists() and (folder / "model").exists():
        return 0
    if (folder / "store.db").exists():
        arguments = [f"resume={folder}"]
    else:
        arguments = [f"run={folder}", f"seed={seed}", *(f"{k}={v}" for k, v in settings.items())]
    return run_child([sys.executable, "-m", "rl.train", *arguments])


def _outcome(folder: Path, seed: int, release: bool) -> Outcome:
    rows = metrics.read(folder)
    results = {}
    with Store(folder) as store:
        evaluations = store.evaluations()
        for label in LABELS:
            episodes = evaluations.get(label, [])
            chosen = [e for e in episodes if (RELEASE in e.meta.get("tags", ())) == release]
            results[label] = evaluate(chosen)
    return Outcome(seed, results, (rows[-1]["time"] - rows[0]["time"]) / 60 if rows else 0.0)


def _table(title: str, outcomes: Sequence[Outcome]) -> str:
    n = len(outcomes[0].results["final"].success)
    config = "seed | before | after warm start | after RL | RL added | minutes"
    lines = [f"### {title} (n = {n})", "", f"| {config} |", "|---" * 6 + "|"]
    for outcome in outcomes:
        cells = [f"{outcome.results[label].rate:.3f}" for label in LABELS]
        gain = difference(*_before_after(outcome.results))
        lines.append(f"| {outcome.seed} | {' | '.join(cells)} | {gain} | {outcome.minutes:.1f} |")
    mean = {label: _mean([outcome.results[label] for outcome in outcomes]) for label in LABELS}
    cells = [f"{mean[label].rate:.3f}" for label in LABELS]
    minutes = float(np.mean([outcome.minutes for outcome in outcomes]))
    gain = difference(*_before_after(mean))
    lines.append(f"| mean | {' | '.join(cells)} | {gain} | {minutes:.1f} |")
    return "\n".join(lines) + "\n"


def _before_after(results: dict[str, Evaluation]) -> tuple[Evaluation, Evaluation]:
    """Return what RL started from and what it led to."""
    warm = results["warmstart"]
    return (warm if warm.success else results["start"]), results["final"]


def _mean(results: Sequence[Evaluation]) -> Evaluation:
    """Average each task over seeds; tasks, not seeds, are resampled in the interval."""
    tasks = sorted({task for result in results for task in result.success})
    success = {
        task: float(np.mean([r.success[task] for r in results if task in r.success]))
        for task in tasks
    }
    return Evaluation(success, sum(result.lost for result in results))


if __name__ == "__main__":
    sys.exit(main())
