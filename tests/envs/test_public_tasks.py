"""Public tasks are played as they are shipped: oracle 1, nothing 0, a broken verifier no reward."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from envs.errors import EnvError, MissingDependency, TaskError
from envs.sandbox.pool import SandboxPool
from envs.tasks.loading import load
from envs.tasks.validation import validate_task
from envs.terminal.env import TerminalEnv
from envs.terminal.formats.images import bases, substituted, tag_of
from envs.terminal.formats.rewards import (
    BootstrapFailed,
    RewardEmpty,
    RewardMissing,
    RewardUnreadable,
)
from envs.types import Task

DATA = Path(__file__).parent.parent / "data" / "tasks"


@pytest.fixture(scope="module")
def base() -> str:
    from envs.images import ensure

    try:
        return ensure("swe")
    except MissingDependency as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(run_id="test-public") as sandboxes:
        yield sandboxes


def one(name: str, base: str) -> Task:
    (task,) = load(str(DATA / name), base=base)
    return task


@pytest.mark.parametrize(
    "name", ["harbor/greeting", "harbor/service", "harbor/two-steps", "terminal_bench/word-count"]
)
def test_the_oracle_earns_1_and_nothing_earns_0(name: str, base: str, pool: SandboxPool) -> None:
    """Bugs prevented: agents' services ended before the verifier looks; steps that are not set up;
    variables, users and working directories that are not the task's."""
    task = one(name, base)
    assert f"base:{base}" in task.tags
    finding = validate_task(TerminalEnv([task], pool), task, times=1)
    assert finding.reason == "", finding.detail


def test_steps_follow_each_other_and_a_missed_threshold_ends(base: str, pool: SandboxPool) -> None:
    task = one("harbor/two-steps", base)
    env = TerminalEnv([task], pool)
    env.reset(options={"task": task})
    env.step("sort in/* > all")
    observation, reward, terminated, _, _ = env.step("submit")
    assert "number of lines" in observation["output"] and (reward, terminated) == (0.0, False)
    assert env.step("id -un; ls")[0]["output"] == "nobody\nall\nin\nmore\nsetup.sh\n"
    _, reward, terminated, _, info = env.step("submit")
    assert (reward, terminated) == (0.5, True) and info["verdict"].reward == 0.5
    env.reset(options={"task": task})
    _, reward, terminated, _, _ = env.step("submit")
    assert (reward, terminated) == (0.0, True)
    env.reset(options={"task": task})
    env.step("sort in/* > all")
    env.step("submit")
    assert env.grade().reward == 0.5
    env.close()


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("missing", RewardMissing),
        ("empty", RewardEmpty),
        ("nan", RewardUnreadable),
        ("text", RewardUnreadable),
        ("bootstrap", BootstrapFailed),
    ],
)
def test_a_verifier_that_fails_is_no_reward(
    kind: str, error: type[EnvError], base: str, pool: SandboxPool
) -> None:
    task = one("broken/no-reward", base)
    env = TerminalEnv([task], pool)
    env.reset(options={"task": task})
    env.step(f"echo {kind} > /kind")
    with pytest.raises(error):
        env.step("submit")
    env.close()


def test_an_image_that_cannot_be_had_is_named(tmp_path: Path, base: str) -> None:
    folder = tmp_path / "task"
    (folder / "environment").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "tests" / "test.sh").write_text("true")
    (folder / "task.toml").write_text("")
    (folder / "instruction.md").write_text("Do.")
    (folder / "environment" / "Dockerfile").write_text("FROM clawgym/none-such:1\n")
    (task,) = load(str(folder))
    with SandboxPool(run_id="test-public-none") as pool:
        env = TerminalEnv([task], pool)
        with pytest.raises(TaskError, match="FROM clawgym/none-such:1: neither here nor"):
            env.reset(options={"task": task})


def test_only_what_cannot_be_had_is_replaced() -> None:
    text = "ARG V=24.04\nFROM --platform=linux/amd64 ubuntu:$V AS a\nFROM a\nFROM x:1 as b\nRUN b\n"
    assert bases(text) == ["ubuntu:24.04", "x:1"]
    assert substituted(text, {"ubuntu:24.04": "own"}) == text.replace("ubuntu:$V", "own")
    with pytest.raises(TaskError, match="no value"):
        bases("ARG BASE\nFROM ${BASE}\n")


def test_the_tag_is_of_the_files(tmp_path: Path) -> None:
    """Bug prevented: a changed task played in its old image."""
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("FROM x\n")
    tags = [tag_of(tmp_path, dockerfile), tag_of(tmp_path, dockerfile, "own")]
    (tmp_path / "more").write_text("1")
    tags.append(tag_of(tmp_path, dockerfile))
    (tmp_path / "more").chmod(0o755)
    tags.append(tag_of(tmp_path, dockerfile))
    assert len(set(tags)) == 4
