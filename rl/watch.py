"""``python -m rl.watch [RUN]``: follow a run from another terminal; the newest one by default.

Reads ``metrics.jsonl`` only; nothing of the run is touched. Ends with the run; ``--once`` prints
what is there and ends at once.
"""

import fcntl
import sys
import time
from pathlib import Path
from typing import Any

from rl import metrics
from rl.console import clock

POLL_S = 2.0


def newest(root: Path = Path("runs")) -> Path | None:
    """Return the run folder whose metrics changed last."""
    found = sorted(root.glob("*/metrics.jsonl"), key=lambda path: path.stat().st_mtime)
    return found[-1].parent if found else None


def running(folder: Path) -> bool:
    """Return whether a process holds the run."""
    try:
        with (folder / "lock").open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def line(row: dict[str, Any], begun: float) -> str:
    """Return one row of metrics in words."""
    at = clock(row["time"] - begun)
    if row["phase"].startswith("eval:"):
        label = row["phase"].removeprefix("eval:")
        return f"{at}  held-out {label}: {row['success']:.3f} of {row['tasks']} tasks"
    if row["phase"] == "warmstart":
        return f"{at}  warm start {row['step']}: loss {row.get('loss', float('nan')):.3f}"
    return (
        f"{at}  step {row['step']}: reward {row.get('reward', float('nan')):.3f}  "
        f"entropy {row.get('entropy', float('nan')):.2f}  "
        f"tokens {row.get('trained_tokens', 0):.0f}  {row.get('step_s', 0):.0f} s"
    )


def main() -> int:
    """Run the command line."""
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    if any(a in ("-h", "--help") for a in sys.argv[1:]):
        sys.stdout.write("usage: python -m rl.watch [RUN] [--once]\n")
        return 0
    folder = Path(names[0]) if names else newest()
    if folder is None or not (folder / "config.json").is_file():
        sys.stderr.write(f"no run at {folder or 'runs/'}; start one with python -m rl.train\n")
        return 2
    sys.stdout.write(f"{folder}\n")
    shown = 0
    while True:
        rows = metrics.read(folder)
        for row in rows[shown:]:
            sys.stdout.write(line(row, rows[0]["time"]) + "\n")
        sys.stdout.flush()
        shown = len(rows)
        if "--once" in sys.argv or not running(folder):
            return 0
        time.sleep(POLL_S)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
