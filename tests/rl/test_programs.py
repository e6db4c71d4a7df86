"""Programs a newcomer starts: help is help, a mistake is one line and exit 2, a lack is named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rl.doctor import DOCKER, advice
from rl.train import owned
from tests.rl.runs import ROOT

PROGRAMS = (
    "rl.train", "rl.watch", "rl.export", "rl.doctor", "rl.report", "rl.configdoc", "rl.forget",
    "rl.seeds", "envs.check", "envs.tasks", "envs.swe", "envs.images", "envs.sandbox", "serving",
    "benchmarks.run", "benchmarks.view", "benchmarks.perf",
)  # fmt: skip


def call(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_is_given_on_standard_output(program: str) -> None:
    done = call(program, "--help")
    assert done.returncode == 0 and done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("rl.watch", "docs"), "no run at docs"),
        (("rl.export", "run=docs"), "no run there"),
        (("serving", "model=tiny", "sessions=/proc/x"), "sessions=/proc/x"),
        (("rl.train", "env=terminal", "env=swe"), "twice"),
        (("benchmarks.run", "suite=chat", "suite=swe"), "twice"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(arguments: tuple[str, ...], says: str) -> None:
    done = call(*arguments)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr and len(done.stderr.splitlines()) == 1


def test_without_docker_a_measurement_prints_no_table(tmp_path: Path) -> None:
    """An empty table looks like a result."""
    done = call("benchmarks.perf", "sandbox", "--quick", DOCKER_HOST=f"unix://{tmp_path}/none")
    assert done.returncode == 3 and done.stdout == ""
    assert "no Docker engine answers" in done.stderr and "Connection aborted" not in done.stderr


def test_doctor_names_what_needs_no_docker() -> None:
    """A machine without Docker can still learn from talking, and from tool calls."""
    said = "\n".join(advice({DOCKER}))
    assert "rl.train env=chat" in said and "rl.train env=toolcall" in said
    assert "without Docker there is no env=terminal" in said
    assert "rl.train env=chat" not in "\n".join(advice({DOCKER, "torch"}))


def test_failed_start_leaves_no_folder(tmp_path: Path) -> None:
    """Ten mistakes must not leave ten folders that hold a lock; one with a run in it stays."""
    with pytest.raises(ZeroDivisionError), owned(tmp_path / "a", fresh=True):
        raise ZeroDivisionError
    assert not (tmp_path / "a").exists()
    with pytest.raises(ZeroDivisionError), owned(tmp_path / "b", fresh=True):
        (tmp_path / "b" / "config.json").write_text("{}")
        raise ZeroDivisionError
    assert (tmp_path / "b" / "config.json").exists()


def test_damaged_model_is_said_before_a_run_begins(tmp_path: Path) -> None:
    """Not after a page on what is about to be served."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{")
    done = call("rl.train", "env=chat", f"model={tmp_path / 'model'}", f"run={tmp_path / 'run'}")
    assert done.returncode == 3
    assert done.stderr.startswith("error:") and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()
