"""The environment of software-engineering tasks."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import gymnasium

from envs.core import ShellEnv
from envs.errors import SandboxFileError, SandboxLimitError, SetupError, TaskError, VerifierError
from envs.sandbox.protocol import Sandbox, SandboxSpec
from envs.swe.call_grading import run_calls
from envs.swe.corpus import Check
from envs.swe.formats.rows import parse_row
from envs.swe.handout import given_archive, given_tree, gold_patch, must_hold
from envs.swe.patches import unified
from envs.swe.pytest_grading import Suite, SuiteResult, harvest, run_suite
from envs.swe.release_tasks import read_blob
from envs.swe.trees import source_files, unpack
from envs.types import Task, Verdict

if TYPE_CHECKING:
    from envs.sandbox.machine import MachineSandbox

_MOST_SOURCE_BYTES = 256 << 10
_MOST_DETAILS = 2
_KEYS = {
    "calls": ("folder", "file", "source", "checks", "fail_to_pass", "oracle"),
    "tests": (
        *("folder", "import_root", "sources", "tests", "fail_to_pass", "facts"),
        *("source", "tests_tar", "gold"),
    ),
    "mutant": (
        *("folder", "import_root", "sources", "tests", "fail_to_pass", "facts"),
        *("source", "tests_tar", "mutation"),
    ),
    "row": ("row",),
}


class SWEEnv(ShellEnv):
    """Mend a bug in a source tree.

    The shell starts in the tree. There is no history and nothing of the hidden tests to find: they
    come when the work is judged, against the agent's source files only, put over a clean tree.

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

    Rows of SWE-bench and its kin (``docs/task-formats.md``) are played on a machine of their own
    image, at ``/testbed``; the agent's patch is judged in a fresh one, by ``swebench`` itself, on
    ``submit`` or at a limit, whatever ``finish`` says.

    Arguments: see ``ShellEnv``. Version history: v0.
    """

    def sandbox_spec(self, task: Task) -> SandboxSpec:
        """Return the sandbox this task needs; a row's image is pulled or built if it is missing.

        Raises:
            TaskError: a row without image or recipe.
            SetupError: its image cannot be built.
        """
        spec = super().sandbox_spec(task)
        if task.data.get("kind") != "row":
            return spec
        from envs.swe.formats.images import have_image
        from envs.swe.formats.recipes import PLACE

        return replace(spec, image=have_image(parse_row(task.data["row"], task.id)), workdir=PLACE,
                       machine=True)  # fmt: skip

    def set_up(self, sandbox: Sandbox, task: Task) -> None:
        """Place the tree and start the shell in it. Raises ``SetupError``, ``TaskError``."""
        _require_data(task)
        if task.data["kind"] == "row":
            from envs.swe.formats.trial import prepare

            self._base = prepare(_machine(sandbox), parse_row(task.data["row"], task.id))
            return
        folder, data = task.data["folder"], task.data
        enter = f"cd {shlex.quote(folder)}"
        try:
            if data["kind"] == "calls":
                sandbox.write_file(f"{folder}/{data['file']}", data["source"].encode())
            else:
                sandbox.write_file(f"{folder}/.source.tar.gz", given_archive(data))
                enter += " && tar -xzf .source.tar.gz && rm .source.tar.gz"
                enter += f" && export PYTHONPATH={shlex.quote(folder + '/' + data['import_root'])}"
            entered = sandbox.shell(enter, timeout_s=60.0)
        except (SandboxFileError, SandboxLimitError, TaskError) as error:
            raise SetupError(f"{task.id}: {error}") from error
        if entered.exit_code != 0:
            raise SetupError(f"{task.id}: {folder} is not ready: {entered.output[-200:]}")

    def verify(self, sandbox: Sandbox, task: Task) -> Verdict:
        """Judge the agent's source. Raises ``VerifierError`` when no test could start."""
        if task.data["kind"] == "calls":
            return _verify_calls(sandbox, task)
        if task.data["kind"] == "row":
            return self._verify_row(sandbox, task)
        return _verify_tests(sandbox, task)

    def _judge(self, sandbox: Sandbox, task: Task, *, last: bool) -> Verdict:
        """See ``ShellEnv``; a row is judged once: that takes a container and minutes."""
        if task.data["kind"] == "row" and not last:
            return Verdict(0.0)
        return super()._judge(sandbox, task, last=last)

    def _verify_row(self, sandbox: Sandbox, task: Task) -> Verdict:
        from envs.swe.formats.trial import agent_patch, grade

        machine = _machine(sandbox)

        @contextmanager
        def fresh() -> Iterator["MachineSandbox"]:
            other = self._sandboxes.acquire(machine.spec)
            try:
                yield _machine(other)
            finally:
                self._sandboxes.release(other)

        row = parse_row(task.data["row"], task.id)
        patch = agent_patch(machine, self._base)
        return grade(row, patch, fresh, task.limits.verifier_timeout_s)[0]

    def oracle(self, task: Task) -> Sequence[str]:
        """Return the commands that mend the bug. Raises ``TaskError`` for a task without them."""
        _require_data(task)
        if task.data["kind"] == "calls":
            return list(task.data["oracle"])
        if task.data["kind"] == "row":
            row = parse_row(task.data["row"], task.id)
            how = "git apply -R" if row.reversed else "git apply"
            return [f"{how} <<'END_OF_PATCH'\n{row.patch}\nEND_OF_PATCH"]
        return [f"patch -s -p1 <<'END_OF_PATCH'\n{gold_patch(task.data)}END_OF_PATCH"]

    def patch(self) -> str:
        """Return what the agent changed in the source files, as a patch on the task's tree.

        Only what is judged is in it: no tests, settings or files beside the source. Ask before
        ``close``; after the end nothing of the agent's runs beside it.

        Raises:
            gymnasium.error.ResetNeeded: before ``reset`` or after ``close``.
            VerifierError: the source cannot be read.
            SandboxLost: the sandbox is gone.
        """
        if self._sandbox is None or self._task is None:
            raise gymnasium.error.ResetNeeded("call reset() before patch()")
        sandbox, task = self._sandbox, self._task
        if task.data["kind"] == "row":
            from envs.swe.formats.trial import agent_patch

            return agent_patch(_machine(sandbox), self._base)
        try:
            if task.data["kind"] == "calls":
                name = task.data["file"]
                source = sandbox.read_file(
                    f"{task.data['folder']}/{name}", max_bytes=_MOST_SOURCE_BYTES
                )
                return unified({name: task.data["source"].encode()}, {name: source})
            sources, tests = tuple(task.data["sources"]), tuple(task.data["tests"])
            given = given_tree(task.data)
        except (SandboxFileError, SandboxLimitError, TaskError, ValueError) as error:
            raise VerifierError(f"{task.id}: no patch: {error}") from error
        tree = harvest(sandbox, task.data["folder"], sources)
        if tree is None:
            raise VerifierError(f"{task.id}: no patch: the source cannot be read")
        return unified(source_files(given, sources, tests), source_files(tree, sources, tests))


def _machine(sandbox: Sandbox) -> "MachineSandbox":
    from envs.sandbox.machine import MachineSandbox

    if not isinstance(sandbox, MachineSandbox):
        raise SetupError(f"rows need a machine, not {type(sandbox).__name__}")
    return sandbox


def _require_data(task: Task) -> None:
    kind = task.data.get("kind")
    if kind not in _KEYS:
        raise TaskError(f"{task.id}: data.kind={kind!r}: choose one of {', '.join(_KEYS)}")
    missing = [key for key in _KEYS[kind] if key not in task.data]
    if missing:
        raise TaskError(f"{task.id}: data lacks {', '.join(missing)}")


def _verify_calls(sandbox: Sandbox, task: Task) -> Verdict:
    checks = [Check(call, expected) for call, expected in task.data["checks"]]
    names = tuple(checks[i].call for i in task.data["fail_to_pass"])
    path = f"{task.data['folder']}/{task.data['file']}"
    try:
        source = sandbox.read_file(path, max_bytes=_MOST_SOURCE_BYTES).decode("utf-8")
    except (SandboxFileError, SandboxLimitError, UnicodeDecodeError) as error:
        return Verdict(0.0, failed=names, detail=f"no usable source: {error}")
    if source == task.data["source"]:
        return Verdict(0.0, failed=names, detail="the source is unchanged")
    answers = run_calls(sandbox, task.data["file"], source, checks, task.limits.verifier_timeout_s)
    pairs = list(zip(checks, answers, strict=True))
    passed = tuple(check.call for check, answer in pairs if answer.meets(check))
    failed = [(check, answer) for check, answer in pairs if not answer.meets(check)]
    detail = "; ".join(f"{check.call} {answer}"[:120] for check, answer in failed[:_MOST_DETAILS])
    return Verdict(0.0 if failed else 1.0, passed, tuple(c.call for c, _ in failed), detail)


def _verify_tests(sandbox: Sandbox, task: Task) -> Verdict:
    """Run the tests that must turn, then, when they did, those that must hold."""
    data = task.data
    must_turn = tuple(data["fail_to_pass"])
    sources, tests = tuple(data["sources"]), tuple(data["tests"])
    try:
        given = source_files(given_tree(data), sources, tests)
        support = unpack(read_blob(data["tests_tar"]))
        to_hold = must_hold(data)
    except (TaskError, ValueError) as error:
        raise VerifierError(f"{task.id}: {error}") from error
    tree = harvest(sandbox, data["folder"], sources)
    if tree is None:
        return Verdict(0.0, failed=must_turn, detail="the source cannot be read")
    mine = source_files(tree, sources, tests)
    if mine == given:
        return Verdict(0.0, failed=must_turn, detail="the source is unchanged")
    suite = Suite(support, tests, data["import_root"])
    passed: tuple[str, ...] = ()
    for names in (must_turn, to_hold):
        result = run_suite(
            sandbox, suite, mine, timeout_s=task.limits.verifier_timeout_s, select=names
        )
        failed = tuple(name for name in names if not result.passed(name))
        passed += tuple(name for name in names if result.passed(name))
        if failed:
            return Verdict(0.0, passed, failed, _why(failed, result))
    return Verdict(1.0, passed)


def _why(failed: Sequence[str], result: SuiteResult) -> str:
    if result.problem:
        return result.problem[-300:]
    reasons = [f"{name}: {result.messages.get(name, 'did not run')}" for name in failed]
    return "; ".join(reason[:150] for reason in reasons[:_MOST_DETAILS])
