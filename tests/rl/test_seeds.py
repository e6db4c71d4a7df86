"""One run per seed: what interrupts the program stops the run it has started, which saves."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rl import seeds
from rl.interrupts import run_child
from tests.rl.runs import NEVER_SAVED, ROOT

CHILD = """
import signal, sys, time
heard = []
def hear(number, frame):
    heard.append(number)
    print("heard", len(heard), flush=True)
    time.sleep(0.3)
    sys.exit(40 + len(heard))
signal.signal(signal.SIGINT, hear)
signal.signal(signal.SIGTERM, hear)
print("ready", flush=True)
time.sleep(60)
"""
PARENT = f"""
import sys
from rl.interrupts import run_child
sys.exit(run_child([sys.executable, "-c", {CHILD!r}]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("to_group", [False, True])
def test_a_child_hears_a_signal_once_and_its_code_is_returned(
    number: signal.Signals, to_group: bool
) -> None:
    """Bug prevented: Ctrl-C that killed the run outright after a quarter of a second, or reached it
    twice, which means to stop without saving; a supervisor's SIGTERM that left it running."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    if to_group:
        os.killpg(parent.pid, number)
    else:
        parent.send_signal(number)
    assert parent.wait(30) == 41
    assert parent.stdout.read() == "heard 1\n"


def test_handlers_are_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    assert run_child([sys.executable, "-c", "raise SystemExit(7)"]) == 7
    assert signal.getsignal(signal.SIGINT) is before


def test_no_settings_and_bad_seeds_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert seeds.main([]) == 2
    assert seeds.main(["env=terminal", "seeds=a"]) == 2
    assert "seeds=0,1,2" in capsys.readouterr().err


@pytest.mark.docker
@pytest.mark.ray
@pytest.mark.slow
def test_interrupted_seeds_go_on_and_end_with_a_table(tmp_path: Path) -> None:
    """Bug prevented: an interrupted claim that begins again, or a table before all is done."""
    settings = [item for item in NEVER_SAVED if not item.startswith("checkpoint")]
    command = [sys.executable, "-m", "rl.seeds", "env=terminal", "seeds=3", f"run={tmp_path}",
               "optim.steps=1", *settings]  # fmt: skip
    first = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 240
    while not list((tmp_path / "seed3").glob("store.db")):
        assert first.poll() is None and time.monotonic() < deadline
        time.sleep(0.2)
    time.sleep(2)
    first.send_signal(signal.SIGTERM)
    _, said = first.communicate(timeout=120)
    assert first.returncode == 130
    assert f"run={tmp_path}" in said.splitlines()[-1]
    assert not (tmp_path / "table.md").exists()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    rows = [line for line in (tmp_path / "table.md").read_text().splitlines() if "| 0.0" in line]
    assert [row.split("|")[1].strip() for row in rows] == ["3", "mean"]
