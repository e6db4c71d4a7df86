"""The environment of code as a tool: a problem, a Python interpreter, an answer."""

import re
from collections.abc import Sequence
from typing import Any, TypedDict, cast

import gymnasium
import numpy as np
from gymnasium import spaces

from envs.core import Finish, TaskEnv
from envs.errors import TaskError
from envs.sandbox.protocol import Sandbox, SandboxProvider, SandboxSpec
from envs.spaces import Unicode
from envs.text import printable
from envs.toolcall.code.answers import FORMS, BadAnswer, equal
from envs.toolcall.code.interpreter import CellResult, Interpreter
from envs.types import Task, Verdict

ANSWER = re.compile(r"\A\s*answer:[ \t]*([^\n]*)\s*\Z", re.IGNORECASE)
MEMORY_SHARE = 0.75  # of the sandbox's memory, for the address space of a cell


class CodeObservation(TypedDict):
    """What the agent sees: the problem, what its last cell printed, and 1 if that cell failed."""

    instruction: str
    output: str
    exit_code: np.int64


class CodeEnv(TaskEnv[CodeObservation]):
    """A problem in mathematics, and a Python interpreter that keeps its state between cells.

    Action space: ``Unicode``: a cell of Python, or one line ``answer: TEXT``, which ends it.
    Observation space: ``Dict(instruction, output, exit_code)``; the output is cut to the task's
    ``output_bytes`` and tells when a cell was interrupted or killed and what became of the state.
    Reward: 1 when the answer means what is wanted, exactly, else 0.
    Endings: ``terminated`` by an answer; ``truncated`` at the task's ``max_steps``. ``finish``
    changes nothing: there is one answer.
    Info of a step: ``cell`` (status), ``state`` (kept, before, lost), ``num_cells`` (status → how
    many in the episode); at the end ``verdict``.
    Task data: ``answer``, ``form``, ``names``, ``cell`` (the solution's), see ``answers``.

    The answer is compared outside the sandbox; nothing inside tells it.

    Args:
        tasks, finish, render_mode: see ``TaskEnv``.
        sandboxes: where sandboxes come from; not closed, unless ``own_sandboxes`` was called.

    Version history: v0.
    """

    idle = "answer:"

    def __init__(
        self,
        tasks: Sequence[Task],
        sandboxes: SandboxProvider,
        finish: Finish = "submit",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(tasks, finish, render_mode)
        self.action_space = Unicode(
            max_length=1 << 16, samples=("1 + 1", "print(2)", "x = 3", "answer: 4")
        )
        parts = {
            "instruction": Unicode(),
            "output": Unicode(),
            "exit_code": spaces.Discrete(2),
        }
        self.observation_space = cast("spaces.Space[CodeObservation]", spaces.Dict(parts))
        self._sandboxes = sandboxes
        self._owned: SandboxProvider | None = None
        self._sandbox: Sandbox | None = None
        self._interpreter: Interpreter | None = None
        self._num_cells: dict[str, int] = {}
        self._ended = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[CodeObservation, dict[str, Any]]:
        """Start a task: ``options={"task": Task | id}``, else one drawn with ``seed``.

        Raises:
            TaskError: an unknown id, or a form of answer that is none.
            EnvError: no sandbox or no interpreter could be had.
        """
        super().reset(seed=seed)
        task = self._choose(options)
        self._release()
        if task.data.get("form", "number") not in FORMS:
            raise TaskError(f"{task.id}: form={task.data['form']!r}: one of {', '.join(FORMS)}")
        limits = task.limits
        spec = SandboxSpec(
            image=task.image,
            memory_bytes=limits.memory_bytes,
            pids=limits.pids,
            disk_bytes=limits.disk_bytes,
            cpus=limits.cpus,
            env={"OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
        )
        self._sandbox = self._sandboxes.acquire(spec)
        try:
            self._interpreter = Interpreter(
                self._sandbox,
                int(limits.memory_bytes * MEMORY_SHARE),
                limits.step_timeout_s,
                limits.output_bytes,
            )
        except BaseException:
            self._release()
            raise
        self._task, self._steps, self._ended = task, 0, False
        self._verdict, self._num_cells = None, {}
        self._transcript = [f"# {task.instruction}"]
        return self._observe(CellResult("ok")), {"task": task.id}

    def step(self, action: str) -> tuple[CodeObservation, float, bool, bool, dict[str, Any]]:
        """Run a cell, or answer.

        Raises:
            gymnasium.error.ResetNeeded: before ``reset`` or after the end.
            EnvError: the world failed; the episode has no reward.
        """
        if self._interpreter is None or self._sandbox is None or self._task is None or self._ended:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        self._steps += 1
        self._sandbox.heartbeat()
        answer = ANSWER.match(action)
        result = CellResult("ok")
        info: dict[str, Any] = {}
        if answer is None:
            result = self._interpreter.run(action)
            self._num_cells[result.status] = self._num_cells.get(result.status, 0) + 1
            info = {"cell": result.status, "state": result.state}
        terminated = answer is not None
        truncated = not terminated and self._steps >= self._task.limits.max_steps
        self._ended = terminated or truncated
        if answer is not None:
            self._verdict = judged(self._task, answer[1])
        verdict = self.grade()
        info["num_cells"] = dict(self._num_cells)
        if self._ended:
            info["verdict"] = verdict
        self._transcript.append(f">>> {action}\n{result.shown}")
        reward = verdict.reward if self._ended else 0.0
        return self._observe(result), reward, terminated, truncated, info

    def grade(self) -> Verdict:
        """Return the verdict so far: 0 until there is an answer.

        Raises:
            gymnasium.error.ResetNeeded: before ``reset``.
        """
        if self._task is None:
            raise gymnasium.error.ResetNeeded("call reset() before grade()")
        return self._verdict or judged(self._task, "")

    def oracle(self, task: Task) -> Sequence[str]:
        """Return the solution's cell and its answer."""
        return (task.data["cell"], f"answer: {task.data['answer']}")

    def own_sandboxes(self) -> None:
        """Close the provider with the environment: for one that has it to itself."""
        self._owned = self._sandboxes

    def close(self) -> None:
        """Give the sandbox back. Idempotent."""
        self._release()
        if self._owned is not None:
            self._owned.close()

    def _observe(self, result: CellResult) -> CodeObservation:
        assert self._task is not None
        return CodeObservation(
            instruction=self._task.instruction,
            output=printable(result.shown),
            exit_code=np.int64(result.status != "ok"),
        )

    def _release(self) -> None:
        if self._sandbox is not None:
            self._sandboxes.release(self._sandbox)
        self._sandbox = self._interpreter = self._task = None


def judged(task: Task, answer: str) -> Verdict:
    """Return the verdict on an answer. Raises ``TaskError``: the task's own answer is none."""
    data = task.data
    try:
        right = equal(answer, data["answer"], data.get("form", "number"), data.get("names", ()))
    except BadAnswer as error:
        return Verdict(0.0, failed=("answer",), detail=str(error))
    if right:
        return Verdict(1.0, passed=("answer",))
    return Verdict(0.0, failed=("answer",), detail=f"answered {answer[:60]!r}")
