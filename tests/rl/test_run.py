"""Whole runs with real Ray and real Docker: finished, interrupted, killed, resumed.

The tiny random model keeps them short; ``test_real_model_learns_to_act`` uses the 135M model.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.rl.runs import NEVER_SAVED, ROOT, TINY, Run, children, sandboxes

pytestmark = [pytest.mark.docker, pytest.mark.ray, pytest.mark.slow]


def consumed(folder: Path) -> list[int]:
    with sqlite3.connect(folder / "store.db") as db:
        return [step for (step,) in db.execute("SELECT step FROM batches ORDER BY step")]


def kept_nothing(run: Path, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while sandboxes(run) and time.monotonic() < deadline:
        time.sleep(0.5)
    return not sandboxes(run)


def test_killed_driver_leaves_no_container_and_resume_goes_on(tmp_path: Path) -> None:
    """kill -9 in mid-run: sandboxes vanish, nothing acknowledged is lost, no step is repeated."""
    folder = tmp_path / "killed"
    with Run(folder, "env=terminal", f"run={folder}", "optim.steps=200", *TINY) as run:
        run.until(lambda: len(run.steps()) >= 2)
        run.process.kill()
        run.wait()
        before = sum(1 for _ in (folder / "log.jsonl").open())
        assert kept_nothing(folder, 60.0)
    with sqlite3.connect(folder / "store.db") as db:
        ids = [name for (name,) in db.execute("SELECT id FROM episodes")]
    assert len(ids) == len(set(ids)) >= before
    with Run(folder, f"resume={folder}", "optim.steps=4") as resumed:
        assert resumed.wait() == 0, resumed.text()
        assert "resumed at step" in resumed.text()
        assert resumed.steps() == [1, 2, 3, 4] or resumed.steps() == sorted(set(resumed.steps()))
    steps = consumed(folder)
    assert all(steps.count(step) == 2 for step in set(steps))
    assert (folder / "report.md").exists()
    assert kept_nothing(folder, 5.0)


def test_interrupt_saves_and_names_the_way_on(tmp_path: Path) -> None:
    """Ctrl-C: exit 130, a checkpoint, a report, no container, and the command to continue."""
    folder = tmp_path / "interrupted"
    with Run(folder, "env=terminal", f"run={folder}", "optim.steps=500", *NEVER_SAVED) as run:
        run.until(lambda: len(run.steps()) >= 1)
        run.process.send_signal(signal.SIGINT)
        assert run.wait(120) == 130, run.text()
        assert f"resume={folder}" in run.text()
    assert list((folder / "checkpoints").glob("*/meta.json"))
    assert (folder / "report.md").exists()
    assert kept_nothing(folder, 5.0)


def test_killed_worker_and_killed_container_do_not_end_the_run(tmp_path: Path) -> None:
    """What dies is replaced and counted; a second run beside it is left alone."""
    folder, other = tmp_path / "robust", tmp_path / "beside"
    with (
        Run(folder, "env=terminal", f"run={folder}", "optim.steps=12", *TINY) as run,
        Run(other, "env=terminal", f"run={other}", "optim.steps=2", *TINY) as beside,
    ):
        run.until(lambda: len(run.steps()) >= 1)
        subprocess.run(
            ["docker", "kill", *(line.split()[0] for line in sandboxes(folder)[:2])],
            capture_output=True,
        )
        for pid in children(run.process.pid, "ray::RolloutWorker"):
            os.kill(pid, signal.SIGKILL)
        assert run.wait() == 0, run.text()
        assert "died; its sandboxes are removed" in run.text()
        assert beside.wait() == 0, beside.text()
    report = (folder / "report.md").read_text()
    assert "worker_lost" in report
    assert kept_nothing(folder, 5.0)


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (["env=terminal"], {"DOCKER_HOST": "unix:///nowhere/docker.sock"}, "scripts/engine"),
        (["env=terminal", "model=smolm2-135m"], {}, "smollm2-135m"),
        (["env=terminal", "model=/nowhere"], {}, "/nowhere"),
    ],
)
def test_what_is_missing_is_one_line_and_exit_3(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], says: str
) -> None:
    """No engine, no model: the remedy, not a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "rl.train", *arguments, f"run={tmp_path / 'r'}"],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, **environment}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert says in errors[0]
    assert "Traceback" not in done.stderr


@pytest.mark.model
def test_smoke_recipe_with_the_real_model(tmp_path: Path) -> None:
    """The whole loop as a newcomer first sees it, for both environments' plumbing."""
    folder = tmp_path / "smoke"
    with Run(folder, "env=swe", "recipe=smoke", f"run={folder}") as run:
        assert run.wait(500) == 0, run.text()
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert {"eval:start", "warmstart", "eval:warmstart", "rl", "eval:final"} == {
        row["phase"] for row in rows
    }
    gaps = [row["logprob_gap_mean"] for row in rows if row.get("logprob_gap_mean") is not None]
    assert all(gap < 0.05 for gap in gaps)
    assert (folder / "model" / "config.json").exists()
    assert (folder / "learning_curve.png").exists()
    assert kept_nothing(folder, 5.0)
