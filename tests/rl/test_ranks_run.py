"""A whole run whose trainer is two ranks: killed, resumed by one, resumed by two, left clean."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from rl import sharded
from rl.errors import CheckpointError, DivergedError, MismatchError, RunError
from rl.rankgroup import first_cause
from tests.rl.runs import TINY, Run, children

RANK = "ray::TrainerHost"
GONE_S = 120.0


def vanish(pids: list[int]) -> bool:
    """Whether all processes end by themselves."""
    deadline = time.monotonic() + GONE_S
    while time.monotonic() < deadline:
        if not any(_lives(pid) for pid in pids):
            return True
        time.sleep(0.2)
    return False


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_the_cause_is_told_not_its_echo() -> None:
    """A rank that dies closes connections; what people must read is that it died. A batch that one
    rank refused and another trained on ends the run."""
    echo = RunError("while waiting for the trainer's step: RuntimeError: Connection closed by peer")
    death = RunError("an actor died; waited for the trainer's step: ActorDiedError")
    named = DivergedError("loss nan")
    refused = MismatchError("too far")
    assert first_cause([echo, death], agreed=True) is death
    assert first_cause([echo, named], agreed=False) is named
    unwritten = CheckpointError("could not be written: connection reset by peer")
    assert first_cause([unwritten, death], agreed=True) is death
    assert first_cause([refused, refused], agreed=True) is refused
    assert "no longer agree: too far" in str(first_cause([refused], agreed=False))


@pytest.mark.ray
@pytest.mark.slow
def test_two_ranks_end_with_their_run_and_go_on_as_one_and_as_two(tmp_path: Path) -> None:
    """Ranks wait in collective calls that know no interrupt: one that outlives its driver holds a
    GPU for ever. Checkpoints of two must serve whoever goes on."""
    folder = tmp_path / "ranks"
    with Run(
        folder, "env=toolcall", f"run={folder}", "optim.steps=500", *TINY, "trainer.ranks=2"
    ) as run:
        run.until(lambda: len(run.steps()) >= 1)
        ranks = children(run.process.pid, RANK)
        assert len(ranks) == 2
        run.process.kill()
        run.wait()
        assert vanish(ranks)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert any(row["phase"] == "warmstart" and row["loss"] > 0 for row in rows)
    with Run(folder, f"resume={folder}", "trainer.ranks=1") as alone:
        alone.until(lambda: "resumed at step" in alone.text() and len(alone.steps()) > 1)
        ranks = children(alone.process.pid, RANK)
        assert len(ranks) == 1
        alone.process.send_signal(signal.SIGTERM)
        assert alone.wait(120) == 130, alone.text()
        assert "stopped and saved" in alone.text()
        assert vanish(ranks)
    steps = len(alone.steps())
    with Run(folder, f"resume={folder}", "trainer.ranks=2") as again:
        again.until(lambda: len(again.steps()) > steps)
        assert any(sharded.is_sharded(path) for path in (folder / "checkpoints").iterdir())
        ranks = children(again.process.pid, RANK)
        os.kill(ranks[1], signal.SIGKILL)
        assert again.wait(200) == 1, again.text()
        assert "error: an actor died" in again.text()
        assert vanish(ranks)
