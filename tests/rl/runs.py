"""Starting, watching and ending real runs as a user does: by command line and by signal."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TINY = [
    "model=tiny",
    "rollout.workers=1",
    "rollout.episodes_per_worker=8",
    "rollout.groups_per_step=2",
    "rollout.group_size=4",
    "rollout.min_group=2",
    "agent.max_reply_tokens=8",
    "agent.max_steps=1",
    "warmstart.demonstrations=8",
    "evaluation.tasks=4",
    "evaluation.releases=false",
    "checkpoint.every=1",
]
NEVER_SAVED = [*TINY[:-1], "checkpoint.every=1000"]  # but at the end


class Run:
    """A training process. A context manager that ends it."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.folder = folder
        self.output = folder.with_suffix(".out")
        self._file = self.output.open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rl.train", *arguments],
            cwd=ROOT,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
        )

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self._file.close()

    def wait(self, timeout_s: float = 400.0) -> int:
        """Return the exit code."""
        return self.process.wait(timeout_s)

    def text(self) -> str:
        """Return what it printed."""
        return self.output.read_text(errors="replace")

    def until(self, condition: Callable[[], bool], timeout_s: float = 240.0) -> None:
        """Wait for a condition while the run lives."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self.process.poll() is None, f"the run ended early:\n{self.text()}"
            assert time.monotonic() < deadline, f"never happened:\n{self.text()}"
            time.sleep(0.1)

    def steps(self) -> list[int]:
        """Return the RL steps written so far."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [json.loads(line) for line in lines if line.endswith("}")]
        return [row["step"] for row in rows if row["phase"] == "rl"]


def sandboxes(run: Path) -> list[str]:
    """Return the containers that belong to a run folder, by label."""
    out = subprocess.run(
        ["docker", "ps", "-a", "--filter", "label=clawgym.run",
         "--format", '{{.ID}} {{.Label "clawgym.run"}}'],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line for line in out.stdout.splitlines() if line.split()[1].startswith(run.name)]


def children(pid: int, title: str) -> list[int]:
    """Return descendants of a process whose command line starts with ``title``."""
    parents: dict[int, int] = {}
    titles: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            titles[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        parents[int(entry.name)] = int(stat[1])

    def descends(child: int) -> bool:
        while child in parents:
            child = parents[child]
            if child == pid:
                return True
        return False

    return [p for p, text in titles.items() if text.startswith(title) and descends(p)]
