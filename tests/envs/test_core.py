"""The base of shell environments, on a sandbox that is a list of what was asked of it."""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import pytest

from envs.core import SUBMIT, ShellEnv
from envs.errors import SetupError, TaskError, VerifierError
from envs.sandbox.protocol import ExecResult, Sandbox, SandboxSpec
from envs.types import Task, TaskLimits, Verdict


class ListSandbox:
    """Keeps the commands it was given; ``goal`` among them is the solved state."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.killed_at: list[int] = []

    @property
    def id(self) -> str:
        return "list"

    def shell(
        self, command: str, *, timeout_s: float = 10.0, max_output_bytes: int = 16384
    ) -> ExecResult:
        command.encode()
        self.commands.append(command)
        return ExecResult(f"did {command}\n", 0, note="a note" if command == "odd" else "")

    def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        max_output_bytes: int = 1 << 20,
    ) -> ExecResult:
        return ExecResult("", 0)

    def kill_processes(self) -> None:
        self.killed_at.append(len(self.commands))

    def read_file(self, path: str, *, max_bytes: int = 8 << 20) -> bytes:
        return b""

    def write_file(self, path: str, data: bytes, *, mode: int = 0o644) -> None: ...

    def reset(self) -> None: ...

    def snapshot(self, tag: str) -> str:
        return tag

    def heartbeat(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> "ListSandbox":
        return self

    def __exit__(self, *_: Any) -> None: ...


class ListProvider:
    """Counts what is lent."""

    def __init__(self) -> None:
        self.made: list[ListSandbox] = []
        self.released: list[Sandbox] = []
        self.closed = 0

    def acquire(self, spec: SandboxSpec) -> Sandbox:
        self.made.append(ListSandbox())
        return self.made[-1]

    def release(self, sandbox: Sandbox) -> None:
        self.released.append(sandbox)

    def close(self) -> None:
        self.closed += 1


class GoalEnv(ShellEnv):
    """Solved once ``goal`` was said; ``data`` can make set-up or verifier fail."""

    def set_up(self, sandbox: Sandbox, task: Task) -> None:
        if task.data.get("broken") == "set_up":
            raise SetupError("no")

    def verify(self, sandbox: Sandbox, task: Task) -> Verdict:
        assert isinstance(sandbox, ListSandbox)
        clean = sandbox.killed_at[-1:] == [len(sandbox.commands)]
        if task.data.get("broken") == "verify" or ("hog" in sandbox.commands and not clean):
            raise VerifierError("no")
        return Verdict(float("goal" in sandbox.commands), detail="clean" if clean else "")

    def oracle(self, task: Task) -> Sequence[str]:
        return ("goal",)


def task(number: int = 0, **data: Any) -> Task:
    return Task(f"list/goal/{number}", "list", "goal", "train", f"Say goal ({number}).",
                limits=TaskLimits(max_steps=3), data=data)  # fmt: skip


def make(*tasks: Task, **options: Any) -> tuple[GoalEnv, ListProvider]:
    provider = ListProvider()
    return GoalEnv(tasks or (task(),), provider, **options), provider


def test_submit_terminates_with_the_verdict() -> None:
    env, _ = make()
    env.reset()
    _, reward, terminated, truncated, info = env.step("goal")
    assert (reward, terminated, truncated) == (0.0, False, False)
    _, reward, terminated, truncated, info = env.step(f" {SUBMIT}\n")
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["verdict"].detail == "clean", "the verdict that counts is given without processes"


def test_out_of_steps_truncates_and_still_pays() -> None:
    """Bug prevented: a solved task that nobody submitted counts as failed, or as terminated."""
    env, _ = make()
    env.reset()
    env.step("goal")
    env.step("x")
    _, reward, terminated, truncated, info = env.step("x")
    assert (reward, terminated, truncated) == (1.0, False, True)
    assert info["verdict"].solved


def test_solved_ends_at_once_and_only_under_finish_solved() -> None:
    env, _ = make(finish="solved")
    env.reset()
    _, reward, terminated, _, _ = env.step("x")
    assert not terminated
    _, reward, terminated, truncated, _ = env.step("goal")
    assert (reward, terminated, truncated) == (1.0, True, False)


def test_a_look_in_between_that_fails_is_not_a_lost_episode() -> None:
    """Bug prevented: an agent that fills the process table turns its episode into an error."""
    env, _ = make(finish="solved")
    env.reset()
    _, _, terminated, truncated, _ = env.step("hog")
    assert not terminated and not truncated
    *_, info = env.step(SUBMIT)
    assert info["verdict"].reward == 0.0


def test_the_last_verdict_raises_when_the_verifier_is_broken() -> None:
    """Bug prevented: a verifier's failure becomes a reward of 0."""
    env, _ = make(task(broken="verify"))
    env.reset()
    with pytest.raises(VerifierError):
        env.step(SUBMIT)


def test_a_failed_set_up_gives_the_sandbox_back() -> None:
    env, provider = make(task(0), task(1, broken="set_up"))
    with pytest.raises(SetupError):
        env.reset(options={"task": "list/goal/1"})
    assert provider.released == provider.made
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("x")


def test_step_and_grade_need_a_reset() -> None:
    env, _ = make()
    for call in (lambda: env.step("x"), env.grade):
        with pytest.raises(gymnasium.error.ResetNeeded):
            call()
    env.reset()
    env.step(SUBMIT)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("x")


def test_grade_is_the_verdict_and_ends_the_episode() -> None:
    env, _ = make()
    env.reset()
    env.step("goal")
    assert env.grade() is env.grade()
    assert env.grade().solved


def test_tasks_are_drawn_by_the_seed() -> None:
    env, _ = make(*(task(n) for n in range(20)))
    drawn = [env.reset(seed=seed)[1]["task"] for seed in (1, 1, 2, 3, 4)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 2


def test_an_unknown_task_names_the_number_of_known_ones() -> None:
    env, _ = make()
    with pytest.raises(TaskError, match="no task 'x' among the 1"):
        env.reset(options={"task": "x"})


def test_a_task_of_the_callers_own_is_played_as_it_is() -> None:
    env, _ = make()
    observation, info = env.reset(options={"task": task(7)})
    assert info["task"] == "list/goal/7"
    assert observation["instruction"] == "Say goal (7)."


def test_text_that_has_no_bytes_reaches_the_shell_as_question_marks() -> None:
    """Bug prevented: a lone surrogate from a sampler ends the run with UnicodeEncodeError."""
    env, provider = make()
    env.reset()
    env.step("a\ud800b")
    assert provider.made[-1].commands == ["a?b"]


def test_notes_of_the_sandbox_are_shown() -> None:
    env, _ = make(render_mode="ansi")
    env.reset()
    observation, *_ = env.step("odd")
    assert observation["output"] == "did odd\n[a note]"
    assert observation in env.observation_space
    assert "did odd" in (env.render() or "")


def test_close_is_idempotent_and_closes_only_what_it_owns() -> None:
    env, provider = make()
    env.reset()
    env.close()
    env.close()
    assert (provider.closed, len(provider.released)) == (0, 1)
    env.own_sandboxes()
    env.close()
    assert provider.closed == 1


def test_mistakes_in_the_constructor_are_named() -> None:
    with pytest.raises(TaskError, match="at least one task"):
        GoalEnv((), ListProvider())
    with pytest.raises(ValueError, match="'submit' or 'solved'"):
        make(finish="never")
