"""The environment of software-engineering tasks."""

import shlex
from collections.abc import Sequence

from envs.core import ShellEnv
from envs.errors import SandboxFileError, SandboxLimitError, SetupError
from envs.sandbox.protocol import Sandbox
from envs.swe.call_grading import run_calls
from envs.swe.corpus import Check
from envs.types import Task, Verdict

_MOST_SOURCE_BYTES = 256 << 10


class SWEEnv(ShellEnv):
    """Mend a bug in a source tree.

    The shell starts in the tree. There is no history and there are no tests to find: they come when
    the work is judged, against the agent's source files only, put over a clean tree.

    Action space: one bash command, or ``submit``.
    Observation space: ``Dict(instruction, output, exit_code)``.
    Reward: 1 when every test that failed passes and every test that passed still does, else 0.
    An unchanged source is 0 without a run: task sets hold only tasks whose no-op was seen to fail.
    Endings: ``terminated`` on ``submit``, and under ``finish="solved"`` once solved; ``truncated``
    at the task's ``max_steps``.

    A source that does not compile, hangs, ends the process or is gone is the agent's doing and
    earns 0. An interpreter or test runner that does not start is a ``VerifierError``.

    Judging never reads what a program printed for people. See ``call_grading`` for generated tasks
    and what an agent can still try there, ``pytest_grading`` for release tasks.
    """

    def set_up(self, sandbox: Sandbox, task: Task) -> None:
        """Place the tree and start the shell in it. Raises ``SetupError``."""
        folder = task.data["folder"]
        try:
            sandbox.write_file(f"{folder}/{task.data['file']}", task.data["source"].encode())
        except (SandboxFileError, SandboxLimitError) as error:
            raise SetupError(f"{task.id}: {error}") from error
        self._enter(sandbox, task, folder)

    def _enter(self, sandbox: Sandbox, task: Task, folder: str) -> None:
        entered = sandbox.shell(f"cd {shlex.quote(folder)}")
        if entered.exit_code != 0:
            raise SetupError(f"{task.id}: no folder {folder}: {entered.output[-200:]}")

    def verify(self, sandbox: Sandbox, task: Task) -> Verdict:
        """Judge the agent's source. Raises ``VerifierError`` when no test could start."""
        checks = [Check(call, expected) for call, expected in task.data["checks"]]
        names = [checks[i].call for i in task.data["fail_to_pass"]]
        path = f"{task.data['folder']}/{task.data['file']}"
        try:
            source = sandbox.read_file(path, max_bytes=_MOST_SOURCE_BYTES).decode("utf-8")
        except (SandboxFileError, SandboxLimitError, UnicodeDecodeError) as error:
            return Verdict(0.0, failed=tuple(names), detail=f"no usable source: {error}")
        if source == task.data["source"]:
            return Verdict(0.0, failed=tuple(names), detail="the source is unchanged")
        answers = run_calls(
            sandbox, task.data["file"], source, checks, task.limits.verifier_timeout_s
        )
        pairs = list(zip(checks, answers, strict=True))
        passed = tuple(check.call for check, answer in pairs if answer.meets(check))
        failed = [(check, answer) for check, answer in pairs if not answer.meets(check)]
        detail = "; ".join(f"{check.call} {answer}"[:120] for check, answer in failed[:2])
        return Verdict(
            0.0 if failed else 1.0, passed, tuple(check.call for check, _ in failed), detail
        )

    def oracle(self, task: Task) -> Sequence[str]:
        """Return the commands that mend the bug."""
        return list(task.data["oracle"])
