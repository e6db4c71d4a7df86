"""The bases of the environments: of all that play tasks, and of those played in a shell.

``TaskEnv`` knows tasks, which of them is played and how a verdict is asked for. ``ShellEnv`` adds
what a shell environment has in common: sandboxes, the step, when the verifier runs, what an
observation holds; its author writes three things, ``set_up``, ``verify`` and ``oracle``.
Left out: prompts and parsing (``agents``), limits on tokens and replies (``agents.episode``).
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, TypedDict, TypeVar, cast

import gymnasium
import numpy as np
from gymnasium import spaces

from envs.errors import TaskError, VerifierError
from envs.sandbox.protocol import ExecResult, Sandbox, SandboxProvider, SandboxSpec
from envs.spaces import Unicode
from envs.types import Task, Verdict

SUBMIT = "submit"
Finish = Literal["submit", "solved"]
Observation = TypeVar("Observation")


class TaskEnv(gymnasium.Env[Observation, str], Generic[Observation]):
    """Plays one of its tasks per episode by actions that are text.

    Attributes:
        idle: the action of an agent that does nothing; said again and again it ends an episode.

    Args:
        tasks: what ``reset`` draws from, and what ``options={"task": id}`` is looked up in.
        finish: ``submit`` or ``solved``; each environment says what ends it under either.
        render_mode: ``ansi`` returns the transcript.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012
    idle: ClassVar[str]

    def __init__(
        self, tasks: Sequence[Task], finish: Finish = "submit", render_mode: str | None = None
    ) -> None:
        if not tasks:
            raise TaskError("an environment needs at least one task")
        if finish not in ("submit", "solved"):
            raise ValueError(f"finish={finish!r}: choose 'submit' or 'solved'")
        self.tasks = {task.id: task for task in tasks}
        self.finish = finish
        self.render_mode = render_mode
        self._task: Task | None = None
        self._verdict: Verdict | None = None
        self._steps = 0
        self._transcript: list[str] = []

    @abstractmethod
    def oracle(self, task: Task) -> Sequence[str]:
        """Return actions that solve the task."""

    def solve(self) -> bool:
        """Have the running task's own reference solution do its work, where that is no list of
        actions; False when there is none. Called before each of ``oracle``'s actions."""
        return False

    @abstractmethod
    def grade(self) -> Verdict:
        """Return the verdict on what was done so far: for an episode ended from outside.

        Raises:
            gymnasium.error.ResetNeeded: before ``reset``.
            EnvError: the world failed.
        """

    def render(self) -> str | None:
        """Return the transcript so far under ``render_mode="ansi"``."""
        return "\n".join(self._transcript) if self.render_mode == "ansi" else None

    def _choose(self, options: Mapping[str, Any] | None) -> Task:
        wanted = (options or {}).get("task")
        if isinstance(wanted, Task):
            return wanted
        if wanted is None:
            ids = sorted(self.tasks)
            return self.tasks[ids[int(self.np_random.integers(len(ids)))]]
        if wanted not in self.tasks:
            raise TaskError(f"no task {wanted!r} among the {len(self.tasks)} of this environment")
        return self.tasks[wanted]


class ShellObservation(TypedDict):
    """What the agent sees: the task in words, and what its last command did."""

    instruction: str
    output: str
    exit_code: np.int64


class ShellEnv(TaskEnv[ShellObservation]):
    """A task in a sandbox, played by shell commands.

    Action space: ``Unicode``: one command for the sandbox's persistent bash, or ``submit``.
    Observation space: ``Dict(instruction, output, exit_code)``.
    Reward: 0 until the end, then the verifier's, in [0, 1].
    Endings: ``terminated`` on ``submit``, and under ``finish="solved"`` as soon as the verifier
    finds the goal state; ``truncated`` at the task's ``max_steps``. The verifier runs at either.

    Args:
        tasks: what ``reset`` draws from, and what ``options={"task": id}`` is looked up in.
        sandboxes: where sandboxes come from; not closed, unless ``own_sandboxes`` was called.
        finish: ``submit`` (the agent must say so) or ``solved`` (checked after every command).
        render_mode: ``ansi`` returns the transcript.
    """

    idle = SUBMIT

    def __init__(
        self,
        tasks: Sequence[Task],
        sandboxes: SandboxProvider,
        finish: Finish = "submit",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(tasks, finish, render_mode)
        self.action_space = Unicode(
            max_length=1 << 16, samples=("true", "ls", "pwd", "cat nothing")
        )
        parts = {
            "instruction": Unicode(),
            "output": Unicode(),
            "exit_code": spaces.Discrete(512, start=-1),
        }
        self.observation_space = cast("spaces.Space[ShellObservation]", spaces.Dict(parts))
        self._sandboxes = sandboxes
        self._owned: SandboxProvider | None = None
        self._sandbox: Sandbox | None = None

    # ------------------------------------------------------------- what a task author writes

    @abstractmethod
    def set_up(self, sandbox: Sandbox, task: Task) -> None:
        """Bring a clean sandbox to the task's start. Raises ``SetupError``, ``TaskError``."""

    @abstractmethod
    def verify(self, sandbox: Sandbox, task: Task) -> Verdict:
        """Inspect the state. Nothing of the agent's runs beside it. Raises ``VerifierError``."""

    def observe_processes(self, sandbox: Sandbox, task: Task) -> None:
        """Note what ``verify`` must know about live processes: they end before it runs.

        Called just before; the agent's processes run beside it, so trust nothing else here.
        """

    @abstractmethod
    def oracle(self, task: Task) -> Sequence[str]:
        """Return commands that solve the task."""

    def sandbox_spec(self, task: Task) -> SandboxSpec:
        """Return the sandbox this task needs."""
        limits = task.limits
        return SandboxSpec(
            image=task.image,
            memory_bytes=limits.memory_bytes,
            pids=limits.pids,
            disk_bytes=limits.disk_bytes,
            cpus=limits.cpus,
        )

    # ------------------------------------------------------------- Gymnasium

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ShellObservation, dict[str, Any]]:
        """Start a task: ``options={"task": Task | id}``, else one drawn with ``seed``.

        Raises:
            TaskError: an unknown id.
            EnvError: sandbox or set-up failed.
        """
        super().reset(seed=seed)
        task = self._choose(options)
        self._release()
        self._sandbox = sandbox = self._sandboxes.acquire(self.sandbox_spec(task))
        try:
            self.set_up(sandbox, task)
        except BaseException:
            self._release()
            raise
        self._task = task
        self._steps, self._verdict, self._transcript = 0, None, [f"# {task.instruction}"]
        return self._observe(ExecResult("", 0)), {"task": task.id}

    def step(self, action: str) -> tuple[ShellObservation, float, bool, bool, dict[str, Any]]:
        """Run one command, or end with ``submit``.

        Raises:
            gymnasium.error.ResetNeeded: before ``reset`` or after the end.
            EnvError: the world failed; the episode has no reward.
        """
        if self._sandbox is None or self._task is None or self._verdict is not None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        task, sandbox = self._task, self._sandbox
        self._steps += 1
        sandbox.heartbeat()
        submitted = action.strip() == SUBMIT
        result = ExecResult("", 0)
        if not submitted:
            result = self._act(sandbox, task, action)
        out_of_steps = self._steps >= task.limits.max_steps
        verdict: Verdict | None = None
        if submitted or out_of_steps or self.finish == "solved":
            verdict = self._judge(sandbox, task, last=submitted or out_of_steps)
        solved = verdict is not None and verdict.solved and self.finish == "solved"
        terminated = submitted or solved
        truncated = out_of_steps and not terminated
        info: dict[str, Any] = {"timed_out": result.timed_out, "output_bytes": result.output_bytes}
        reward = 0.0
        if verdict is not None and (terminated or truncated):
            self._verdict = verdict
            reward = verdict.reward
            info["verdict"] = verdict
        self._transcript.append(f"$ {action}\n{result.output}")
        return self._observe(result), reward, terminated, truncated, info

    def execute(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> ExecResult:
        """Run a program in the task's sandbox, beside the shell and uncounted: for agents that are
        programs of their own. Same limits as a command.

        Raises:
            gymnasium.error.ResetNeeded: before ``reset``.
            SandboxLost: the sandbox is gone.
        """
        if self._sandbox is None or self._task is None:
            raise gymnasium.error.ResetNeeded("call reset() before execute()")
        limits = self._task.limits
        self._sandbox.heartbeat()
        return self._sandbox.exec(
            argv, timeout_s=limits.step_timeout_s, cwd=cwd, env=env, stdin=stdin,
            max_output_bytes=limits.output_bytes,
        )  # fmt: skip

    def grade(self) -> Verdict:
        """Run the verifier now: for an episode that a limit outside the environment ended.

        Raises:
            gymnasium.error.ResetNeeded: before ``reset``.
            EnvError: the world failed.
        """
        if self._sandbox is None or self._task is None:
            raise gymnasium.error.ResetNeeded("call reset() before grade()")
        if self._verdict is None:
            self._verdict = self._judge(self._sandbox, self._task, last=True)
        return self._verdict

    def own_sandboxes(self) -> None:
        """Close the provider with the environment: for one that has it to itself."""
        self._owned = self._sandboxes

    def close(self) -> None:
        """Give the sandbox back. Idempotent."""
        self._release()
        if self._owned is not None:
            self._owned.close()

    # ------------------------------------------------------------- inside

    def _act(self, sandbox: Sandbox, task: Task, action: str) -> ExecResult:
        """Do what an action says: run it as a command of the persistent shell."""
        return sandbox.shell(
            action.encode("utf-8", "replace").decode(),  # a lone surrogate has no bytes
            timeout_s=task.limits.step_timeout_s,
            max_output_bytes=task.limits.output_bytes,
        )

    def _judge(self, sandbox: Sandbox, task: Task, *, last: bool) -> Verdict:
        """Verify. A verdict that counts is given with nothing of the agent's alive beside it.

        A look in between may fail by what the agent left running (no process id free, a verifier
        killed): that is "not solved yet"; the last verdict raises.
        """
        self.observe_processes(sandbox, task)
        if not last:
            try:
                verdict = self.verify(sandbox, task)
            except VerifierError as error:
                return Verdict(0.0, detail=str(error))
            if not verdict.solved:
                return verdict
        sandbox.kill_processes()
        return self.verify(sandbox, task)

    def _observe(self, result: ExecResult) -> ShellObservation:
        assert self._task is not None
        output = result.output
        if result.note:
            output = f"{output.rstrip()}\n[{result.note}]".lstrip()
        return ShellObservation(
            instruction=self._task.instruction,
            output=output,
            exit_code=np.int64(min(max(result.exit_code, -1), 510)),
        )

    def _release(self) -> None:
        if self._sandbox is not None:
            self._sandboxes.release(self._sandbox)
        self._sandbox = self._task = None
