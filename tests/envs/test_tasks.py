"""Loading, selecting and validating task sets."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envs.errors import TaskError
from envs.tasks.__main__ import main
from envs.tasks.loading import level, load, read_jsonl, write_jsonl
from envs.tasks.validation import summary, validate
from envs.types import Task
from tests.envs.test_core import GoalEnv, ListProvider, task


def test_filters_select_what_they_say() -> None:
    tasks = load("terminal", split="train", levels=["trivial", "easy"])
    assert {level(t) for t in tasks} == {"trivial", "easy"}
    assert {t.split for t in tasks} == {"train"}
    some = load("terminal", split="heldout", families=["count_lines", "lines_without"])
    assert {t.family for t in some} == {"count_lines", "lines_without"}


def test_a_limit_spreads_over_families_and_the_seed_orders() -> None:
    """Bug prevented: the first 32 tasks are all of one template."""
    tasks = load("terminal", split="train", limit=32)
    assert len({t.family for t in tasks}) == 32
    assert tasks == load("terminal", split="train", limit=32)
    assert tasks != load("terminal", split="train", limit=32, seed=1)
    everything = load("terminal", split="train")
    assert everything[:32] == tasks
    assert len({t.id for t in everything}) == len(everything)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"env": "terminl"}, "did you mean 'terminal'"),
        ({"env": "terminal", "split": "tain"}, "did you mean 'train'"),
        ({"env": "terminal", "levels": ["esy"]}, "did you mean 'easy'"),
        ({"env": "terminal", "families": ["count_line"]}, "did you mean 'count_lines'"),
        ({"env": "terminal", "split": "train", "families": ["lines_without"]}, "no task of"),
        ({"env": "/nowhere/x.jsonl"}, "cannot be read"),
    ],
)
def test_mistakes_name_the_nearest(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        load(**options)


def test_a_file_round_trips(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    tasks = load("terminal", limit=20)
    write_jsonl(tasks, path)
    assert read_jsonl(path) == tasks
    assert {t.id for t in load(str(path))} == {t.id for t in tasks}
    assert len(load(str(path), limit=3)) == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 3: not a task"),
        ("[]", "line 3: not a task"),
        ('{"id": "x"}', "line 3: not a task"),
        (json.dumps(task(1).to_json() | {"colour": 1}), "line 3: not a task.*colour"),
        (json.dumps(task(1).to_json() | {"split": "test"}), "line 3: split='test'"),
        (json.dumps(task(1).to_json() | {"limits": {"pids": "9"}}), "line 3.*limits.pids='9'"),
        (json.dumps(task(1).to_json() | {"limits": {"max_steps": 0}}), "line 3.*max_steps=0"),
        (json.dumps(task(1).to_json() | {"limits": {"cpus": True}}), "line 3.*cpus=True"),
        (json.dumps(task(1).to_json() | {"data": []}), "line 3.*data="),
        (json.dumps(task(1).to_json() | {"id": 5}), "line 3.*id=5"),
        (json.dumps(task(0).to_json()), "line 3: id 'list/goal/0' is there twice"),
    ],
)
def test_a_bad_row_names_its_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(f"{json.dumps(task(0).to_json())}\n\n{line}\n")
    with pytest.raises(TaskError, match=message):
        read_jsonl(path)


def test_an_empty_set_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "set.jsonl").write_text("\n")
    with pytest.raises(TaskError, match="empty"):
        read_jsonl(tmp_path / "set.jsonl")


class FlawedEnv(GoalEnv):
    """Tasks whose oracle fails, whose no-op passes, or which behave differently each time."""

    count = 0

    def oracle(self, task: Task) -> Sequence[str]:
        return {"weak": ("wrong",), "none": ()}.get(task.data.get("flaw", ""), ("goal",))

    def verify(self, sandbox: Any, task: Task) -> Any:
        verdict = super().verify(sandbox, task)
        flaw = task.data.get("flaw")
        self.count += 1
        if flaw == "free" or (flaw == "moody" and self.count % 2):
            return replace(verdict, reward=1.0)
        return verdict


def test_validation_finds_every_flaw() -> None:
    flaws = ["", "weak", "free", "none", "moody", ""]
    tasks = [task(i, flaw=flaw) for i, flaw in enumerate(flaws)]
    tasks.append(task(9, broken="set_up"))
    seen: list[str] = []
    findings = validate(
        tasks,
        lambda: FlawedEnv(tasks, ListProvider()),
        workers=1,
        report=lambda progress: seen.append(str(progress)),
    )
    assert [finding.reason for finding in findings] == [
        "",
        "oracle fails",
        "no-op solves it",
        "no oracle",
        "differs between runs",
        "",
        "SetupError",
    ]
    assert "7/7 tasks, 5 failed" in seen[-1]
    assert list(summary(findings))[-1].startswith("7 tasks: 2 fair")


def test_the_list_command_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "terminal", "split=heldout", "level=easy"]) == 0
    out = capsys.readouterr().out
    assert "parameters" in out and "template" in out and "train " not in out
    assert main(["list", "terminal", "families=count_lines", "--ids"]) == 0
    assert "terminal/count_lines/0000\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["list", "terminel"], "did you mean 'terminal'"),
        (["list", "terminal", "lvl=easy"], "did you mean 'level'"),
        (["validate", "terminal", "limit=many"], "whole number"),
        (["wipe"], "python -m envs.tasks"),
    ],
)
def test_a_mistake_exits_2(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def unfair(tmp_path: Path) -> Path:
    """A set with one fair task, one that is solved at the start and one whose oracle fails."""
    fair = load("terminal", families=["make_folder"], limit=1)[0]
    made = {**fair.data, "setup": f"mkdir {fair.data['checks'][0]['path']}"}
    solved = replace(fair, id="terminal/x/1", data=made)
    weak = replace(fair, id="terminal/x/2", data={**fair.data, "oracle": ["true"]})
    write_jsonl([fair, solved, weak], tmp_path / "set.jsonl")
    return tmp_path / "set.jsonl"


@pytest.mark.docker
@pytest.mark.parametrize("data", [{}, {"checks": []}, {"checks": ["x"]}, {"checks": [{}]}])
def test_a_row_without_checks_is_a_finding(
    tmp_path: Path, data: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Bug prevented: one bad row of a file ended the validation of all others in a KeyError."""
    row = replace(load("terminal", limit=1)[0], data={**data, "oracle": ["true"]})
    write_jsonl([row], tmp_path / "set.jsonl")
    assert main(["validate", str(tmp_path / "set.jsonl")]) == 1
    assert f"{row.id}: TaskError" in capsys.readouterr().out


@pytest.mark.docker
def test_the_validate_command_finds_unfair_tasks(
    unfair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", str(unfair)]) == 1
    captured = capsys.readouterr()
    assert "terminal/x/1: no-op solves it" in captured.out
    assert "terminal/x/2: oracle fails" in captured.out
    assert "3 tasks: 1 fair" in captured.out
    assert "3/3 tasks, 2 failed" in captured.err
