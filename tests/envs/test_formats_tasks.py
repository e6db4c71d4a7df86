"""Directories of the formats as tasks: limits as stated, refusals by name."""

from pathlib import Path

import pytest

from envs.errors import TaskError
from envs.tasks.__main__ import main
from envs.tasks.loading import load, read_jsonl, write_jsonl
from envs.tasks.validation import validate_task
from envs.terminal.env import TerminalEnv
from envs.terminal.formats.playable import require_playable
from envs.types import Task
from tests.envs.test_core import ListProvider

TOML = """version = "1.0"
[metadata]
difficulty = "hard"
category = "Data Science"
[verifier]
timeout_sec = 900
[agent]
timeout_sec = 1200
[environment]
cpus = 2
memory = "4G"
storage = "20G"
"""
YAML = "instruction: Say hello.\ndifficulty: easy\nmax_test_timeout_sec: 90\n"
COMPOSE = "services:\n  client:\n    build: {dockerfile: Dockerfile}\n"


def harbor(root: Path, name: str = "one", toml: str = TOML, **files: str) -> Path:
    folder = root / name
    for path, text in {
        "task.toml": toml,
        "instruction.md": "# canary 1\n\nCount.\n",
        "environment/Dockerfile": "ARG BASE\nFROM ${BASE}\n",
        "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
        "solution/solve.sh": "true\n",
        **files,
    }.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder


def bench(root: Path, name: str = "old", yaml: str = YAML, compose: str = COMPOSE) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "task.yaml").write_text(yaml)
    (folder / "docker-compose.yaml").write_text(compose)
    (folder / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\n")
    (folder / "run-tests.sh").write_text("pytest -rA\n")
    (folder / "solution.sh").write_text("true\n")
    return folder


def gaps(folder: Path) -> str:
    (task,) = load(str(folder))
    return "; ".join(task.data["unsupported"])


def test_a_directory_of_tasks_or_one_task_is_loaded(tmp_path: Path) -> None:
    folder = harbor(tmp_path)
    bench(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "README.md").write_text("not a task")
    tasks = {task.id: task for task in load(str(tmp_path))}
    assert sorted(tasks) == [
        "terminal/harbor-data-science/one",
        "terminal/terminal-bench-software-engineering/old",
    ]
    assert load(str(folder)) == [tasks["terminal/harbor-data-science/one"]]


def test_harbor_limits_are_those_stated(tmp_path: Path) -> None:
    (task,) = load(str(harbor(tmp_path)))
    assert task.instruction == "Count.\n"
    assert task.split == "heldout"
    assert set(task.tags) == {"source:harbor", "level:hard", "canary"}
    limits = task.limits
    assert (limits.cpus, limits.memory_bytes, limits.disk_bytes) == (2, 4 << 30, 20 << 30)
    assert (limits.verifier_timeout_s, limits.step_timeout_s) == (900, 180)
    assert task.data["limits"]["agent_timeout_s"] == 1200
    assert task.data["limits"]["build_timeout_s"] == 600
    assert task.data["limits"]["agent_network"] == "public"
    assert task.data["unsupported"] == []


def test_terminal_bench_limits_are_those_stated(tmp_path: Path) -> None:
    compose = COMPOSE + "    cpus: 0.5\n    network_mode: none\n"
    (task,) = load(str(bench(tmp_path, compose=compose)))
    assert task.limits.verifier_timeout_s == 90
    assert task.limits.cpus == 0.5
    assert task.data["limits"]["agent_timeout_s"] == 360
    assert task.data["limits"]["agent_network"] == "no-network"
    assert task.data["unsupported"] == []


@pytest.mark.parametrize(
    ("toml", "reason"),
    [
        ("[environment]\nnetwork_mode = 'allowlist'", "network allow list"),
        ("[verifier.env]\nKEY = '${API_KEY}'", "variables of this machine ([verifier.env] KEY)"),
        ("[environment]\ngpus = 2", "gpus = 2"),
        ("[environment]\nos = 'windows'", "Windows"),
        ("[environment]\nskills_dir = '/s'", "skills"),
        ("[environment.tpu]\ntype = 'v4'\ntopology = '2x2x1'", "TPU"),
        ("[[environment.mcp_servers]]\nname = 'm'\nurl = 'http://m'", "MCP servers (m)"),
        ("[verifier.environment]\ncpus = 1", "container of its own"),
        ("[[verifier.collect]]\ncommand = 'x'", "collect hooks"),
        ("[[steps]]\nname = 'a'\n[steps.agent]\nnetwork_mode = 'allowlist'", "[steps.a.agent]"),
    ],
)
def test_what_cannot_run_is_listed_and_refused_by_name(
    tmp_path: Path, toml: str, reason: str
) -> None:
    """Bug prevented: a task played without its network, its steps or its GPU, and scored."""
    folder = harbor(tmp_path, toml=toml, **{"steps/a/instruction.md": "First."})
    (task,) = load(str(folder))
    assert any(reason in gap for gap in task.data["unsupported"])
    with pytest.raises(TaskError, match="is not played: it needs") as caught:
        require_playable(task)
    assert reason in str(caught.value)


def test_files_that_ask_for_more_are_named(tmp_path: Path) -> None:
    composed = harbor(tmp_path, "c", **{"environment/docker-compose.yaml": "services: {}"})
    assert "docker compose" in gaps(composed)
    imaged = harbor(tmp_path, "i", "[environment]\ndocker_image = 'a/b:1'")
    (imaged / "environment" / "Dockerfile").unlink()
    assert gaps(imaged) == ""
    (imaged / "task.toml").write_text("")
    assert "an image (no Dockerfile" in gaps(imaged)
    assert "trajectory.json" in gaps(harbor(tmp_path, "t", **{"trajectory.json": "{}"}))
    assert "(client, db)" in gaps(bench(tmp_path, "d", compose=COMPOSE + "  db: {image: x}\n"))
    limited = COMPOSE + "    deploy: {resources: {limits: {memory: 1G}}}\n    privileged: true\n"
    assert "services.client: deploy, privileged" in gaps(bench(tmp_path, "l", compose=limited))
    assert "'swebench'" in gaps(bench(tmp_path, "p", YAML + "parser_name: swebench\n"))


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        ("[environment]\ncpus = 0", "environment.cpus"),
        ("[environment]\nmemory_mb = -1", "memory_mb"),
        ("[verifier]\ntimeout_sec = 0", "verifier.timeout_sec"),
        ("[agent]\ntimeout_sec = -3", "agent.timeout_sec"),
    ],
)
def test_a_limit_that_is_not_positive_is_named(tmp_path: Path, toml: str, key: str) -> None:
    with pytest.raises(TaskError, match=rf"task\.toml: {key}"):
        load(str(harbor(tmp_path, toml=toml)))


def test_the_environment_refuses_before_it_takes_a_sandbox(tmp_path: Path) -> None:
    (task,) = load(str(harbor(tmp_path, toml="[environment]\ngpus = 2")))
    provider = ListProvider()
    env = TerminalEnv([task], provider)
    with pytest.raises(TaskError, match="is not played: it needs GPUs"):
        env.reset(options={"task": task})
    assert validate_task(env, task).reason == "TaskError"
    assert provider.made == []


def test_tasks_survive_a_task_file(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    harbor(folder, "m", FULL_STEPS, **{"steps/a/instruction.md": "First."})
    bench(folder)
    tasks = load(str(folder))
    write_jsonl(tasks, tmp_path / "set.jsonl")
    written = read_jsonl(tmp_path / "set.jsonl")
    assert [Task.from_json(task.to_json()) for task in tasks] == written
    assert "First." in {task.instruction for task in tasks}


FULL_STEPS = TOML + "[[steps]]\nname = 'a'\nmin_reward = {reward = 1}\n"


def test_the_command_line_lists_a_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harbor(tmp_path)
    assert main(["list", str(tmp_path), "--ids"]) == 0
    assert capsys.readouterr().out == "terminal/harbor-data-science/one\n"
    assert main(["list", str(tmp_path)]) == 0
    assert "hard" in capsys.readouterr().out
    assert main(["list", str(tmp_path / "one" / "tests")]) == 2
    assert "holds no task" in capsys.readouterr().err
    assert main(["list", str(tmp_path / "none")]) == 2
    assert "is no directory" in capsys.readouterr().err
