"""Children of benches: how they are talked to, how they end, and what a failure says."""

import json
import sys
import time
from pathlib import Path

import pytest

from benchmarks.perf.process import BenchError, Process

ECHO = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)"


def python(code: str) -> Process:
    return Process([sys.executable, "-c", code])


def test_messages_go_both_ways():
    """One line in, one line out: a load answers with what it saw."""
    with python(ECHO) as child:
        assert child.ask({"do": "it"}) == {"do": "it"}
        assert child.tell(b"[1, 2]\n") == "[1, 2]"
        assert child.cpu_s() >= 0


def test_a_child_that_ends_says_why():
    """A bench that only says "no answer" sends its reader to a log that is gone."""
    with python("import sys; sys.exit('no such model')") as child:
        for _ in range(2):
            with pytest.raises(BenchError, match="no such model"):
                child.line()


def test_a_silent_child_is_not_waited_for_for_ever():
    """A peer that hangs at its start held up the whole bench."""
    with (
        python("import time; time.sleep(60)") as child,
        pytest.raises(BenchError, match="said nothing"),
    ):
        child.line(0.2)


def test_its_own_children_end_with_it():
    """Servers start workers: those left behind burden whatever is measured next."""
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)"
    )
    with python(code) as child:
        pid = int(child.line())
    ends = time.monotonic() + 10
    while not _has_ended(pid) and time.monotonic() < ends:
        time.sleep(0.02)
    assert _has_ended(pid)
    child.close()


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_module_of_ours_runs_wherever_the_bench_was_started(tmp_path, monkeypatch):
    """``python -m benchmarks.perf`` is also run from other folders."""
    monkeypatch.chdir(tmp_path)
    with Process.module("benchmarks.perf.load") as load:
        command = {"do": "streams", "num": 1, "target": {"url": "http://127.0.0.1:1"}}
        seen = load.ask(command)
    assert seen["complete"] == 0
    assert json.dumps(seen["errors"]).count("Connect") >= 1
