"""Ctrl-C and SIGTERM mean the same, at whatever moment: state saved, exit 130, no noise."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.rl.runs import NEVER_SAVED, ROOT, TINY, Run

WAITING = """
import asyncio, os, signal, sys
from rl.interrupts import Interrupts
heard = Interrupts()
heard.listen()
heard.way_on = "go on with: X"
async def work():
    with heard.cancels():
        print("working", flush=True)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            print("saving", flush=True)
            {closing}
asyncio.run(work())
heard.finish()
print("finished", flush=True)
{ending}
sys.exit(130)
"""


def started(closing: str = "pass", ending: str = "pass") -> "subprocess.Popen[str]":
    code = WAITING.format(closing=closing, ending=ending)
    child = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert child.stdout is not None and child.stdout.readline() == "working\n"
    return child


def test_second_signal_ends_a_save_that_takes_long() -> None:
    """With one line and nothing unwound: no traceback, no task that nobody awaited."""
    with started(closing="await asyncio.sleep(60)") as child:
        child.send_signal(signal.SIGTERM)
        assert child.stdout is not None and child.stdout.readline() == "saving\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 130
        assert child.stderr is not None
        assert child.stderr.read().splitlines() == [
            "interrupted: saving; again to stop at once",
            "stopped at once; go on with: X",
        ]


def test_signal_on_the_way_out_does_not_change_the_exit_code() -> None:
    """A supervisor that asks twice must not read a failure off a run that saved."""
    with started(ending="import time; time.sleep(2)") as child:
        child.send_signal(signal.SIGTERM)
        assert child.stdout is not None
        assert [child.stdout.readline() for _ in range(2)] == ["saving\n", "finished\n"]
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 130


def test_ray_does_not_take_the_signals_of_the_process() -> None:
    """``ray.init`` handles SIGTERM by ending the process, in Python and in native code: a run that
    was told to stop while Ray started, or later, died without saving."""
    code = """
import asyncio, os, signal, time
from rl import cluster
num_heard = num_sent = 0
def hear(*_):
    global num_heard
    num_heard += 1
async def start():
    global num_sent
    started = asyncio.create_task(cluster.connect(None))
    while not started.done():
        os.kill(os.getpid(), signal.SIGTERM)
        num_sent += 1
        await asyncio.sleep(0.002)
    await started
    os.kill(os.getpid(), signal.SIGTERM)
    num_sent += 1
    await asyncio.sleep(0.1)
    import ray
    assert ray.get(ray.remote(lambda: 7).remote()) == 7
    ray.shutdown()
signal.signal(signal.SIGTERM, hear)
asyncio.run(start())
print(num_sent > 50, num_sent - num_heard)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "True 0\n"), done.stderr
    assert "SIGTERM" not in done.stderr


@pytest.mark.docker
@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.3, 1.5, 3.0, 7.0])
def test_sigterm_of_a_run_that_starts_up(tmp_path: Path, moment: float) -> None:
    """Before, while and after Ray starts, and in the first evaluation: 130, a word on how to go on
    once there is a run, no trace of the inside."""
    folder = tmp_path / "early"
    with Run(folder, "env=terminal", f"run={folder}", "optim.steps=500", *TINY) as run:
        time.sleep(moment)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait(120) == 130, run.text()
        for noise in ("Traceback", "SIGTERM", "never", "Unclosed"):
            assert noise not in run.text()
        assert (f"resume={folder}" in run.text()) == (folder / "config.json").exists()
        assert "saved" not in run.text()


@pytest.mark.docker
@pytest.mark.ray
@pytest.mark.slow
def test_sigterm_in_training_saves_and_two_more_signals_stop_at_once(tmp_path: Path) -> None:
    """The same run, stopped by SIGTERM, resumed, and stopped by an impatient hand."""
    folder = tmp_path / "late"
    with Run(folder, "env=terminal", f"run={folder}", "optim.steps=500", *NEVER_SAVED) as run:
        run.until(lambda: len(run.steps()) >= 1)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait(120) == 130, run.text()
        assert "stopped and saved" in run.text()
    assert list((folder / "checkpoints").glob("*/meta.json"))
    steps = len(run.steps())
    with Run(folder, f"resume={folder}") as again:
        again.until(lambda: len(again.steps()) > steps)
        for _ in range(3):
            again.process.send_signal(signal.SIGINT)
            time.sleep(0.02)
        assert again.wait(20) == 130
        last = again.text().splitlines()[-2:]
        assert last[0].startswith("interrupted") and last[1].startswith("stopped at once")
