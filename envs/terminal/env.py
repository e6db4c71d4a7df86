"""The environment of terminal tasks."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from envs.core import SUBMIT, ShellEnv, ShellObservation
from envs.errors import SetupError, TaskError, VerifierError
from envs.sandbox.protocol import ExecResult, Sandbox, SandboxSpec
from envs.terminal import checks
from envs.terminal.formats.playable import is_public, require_playable
from envs.terminal.inspector import KINDS, Mismatch, same
from envs.terminal.tmux import TerminalEnded, Tmux, cut, parse_keystrokes
from envs.types import Task, Verdict

if TYPE_CHECKING:
    from envs.terminal.formats.trial import Trial

SETUP_TIMEOUT_S = 30.0
RUN_TIMEOUT_S = 5.0
GRACE_S = 2.0


class TerminalEnv(ShellEnv):
    """Small problems in a shell, from making a folder to writing a program.

    Action space, observation space, rewards and endings are those of ``ShellEnv``. An action
    ``{"keystrokes": "ls\\n", "duration": 1.0}``, or a reply in the form of Terminal-Bench's agent,
    is typed into a terminal instead (``envs.terminal.tmux``).

    Reward: 1 when every check of the task holds, else 0. With ``data["partial"]`` true it is the
    share of goals reached, as long as no guard is broken.

    Task data, all JSON:
        files: the start, path → text, or a dict (``envs.terminal.placer``).
        setup: bash commands run once the files are there; may leave processes behind.
        checks: the goal state (``envs.terminal.checks``).
        oracle: commands that solve the task.
        partial: grant partial credit; false if missing.
        root: what relative paths start from; ``/workspace`` if missing.

    Tasks of public formats (``docs/task-formats.md``) are played on a machine of their own, are
    judged by their own verifier on ``submit`` or at a limit, whatever ``finish`` says, and may
    have several steps: ``submit`` ends a step, and what follows is the next instruction.

    How a state is judged: files are inspected by one program inside the sandbox after everything
    of the agent's has ended; processes just before that, as they would be gone; programs the task
    asks for are started last, each by itself, and judged by their output outside the sandbox.

    Version history:
        v0: first version.
    """

    _trial: "Trial | None" = None
    _terminal: "Tmux | None" = None

    def sandbox_spec(self, task: Task) -> SandboxSpec:
        """Return the sandbox this task needs; a public task's image is built if it is missing.

        Raises:
            TaskError: it cannot be played; names the reasons.
            SetupError: its image cannot be built.
        """
        require_playable(task)
        if not is_public(task):
            return super().sandbox_spec(task)
        from envs.terminal.formats.tasks import have_image
        from envs.terminal.formats.trial import environment_of

        return replace(
            super().sandbox_spec(task),
            image=have_image(task),
            workdir=_stated_workdir(task),
            network=task.data["limits"]["agent_network"] == "public",
            env=environment_of(task),
            machine=True,
        )

    def set_up(self, sandbox: Sandbox, task: Task) -> None:
        """Write the files, run the set-up commands. Raises ``SetupError``, ``TaskError``."""
        self._trial = self._terminal = None
        if is_public(task):
            from envs.sandbox.machine import MachineSandbox
            from envs.terminal.formats.trial import open_trial

            if not isinstance(sandbox, MachineSandbox):
                raise SetupError(f"{task.id} needs a machine, not {type(sandbox).__name__}")
            self._trial = open_trial(task, sandbox)
            self._trial.begin()
            return
        self._alive: dict[int, tuple[bool, str]] = {}
        _require_checks(task)
        root = task.data.get("root", "/workspace")
        request = {"root": root, "files": task.data.get("files", {})}
        if request["files"]:
            result = _run_inside(sandbox, "placer", request, SETUP_TIMEOUT_S)
            if result.exit_code != 0:
                raise SetupError(f"{task.id}: files not written: {result.output[-300:]}")
        if task.data.get("setup"):
            script = f"( cd {root}\n{task.data['setup']}\n) > /dev/null 2>&1"
            result = sandbox.shell(script, timeout_s=SETUP_TIMEOUT_S)
            if result.exit_code != 0:
                raise SetupError(f"{task.id}: set-up ended with {result.exit_code}")
            _await_processes(sandbox, task)

    def observe_processes(self, sandbox: Sandbox, task: Task) -> None:
        """Judge the checks on processes while processes are still alive.

        The agent's own processes run beside this; one that spoils it leaves the check failed. A
        process that was just started or signalled has a moment to come or go.
        """
        wanted = _of_kind(task, "process")
        if not wanted:
            return
        deadline = time.monotonic() + GRACE_S
        try:
            self._alive = _inspect(sandbox, task, wanted)
            while not all(ok for ok, _ in self._alive.values()) and time.monotonic() < deadline:
                time.sleep(0.1)
                self._alive = _inspect(sandbox, task, wanted)
        except VerifierError:
            self._alive = dict.fromkeys(wanted, (False, "processes could not be read"))

    def verify(self, sandbox: Sandbox, task: Task) -> Verdict:
        """Judge every check of the task. Raises ``VerifierError``."""
        specs: Sequence[checks.Check] = task.data["checks"]
        if not specs:
            raise VerifierError(f"{task.id} has no checks")
        programs = _of_kind(task, "runs")
        state = {
            index: spec
            for index, spec in enumerate(specs)
            if index not in programs and index not in self._alive
        }
        results = dict(self._alive)
        if state:
            results |= _inspect(sandbox, task, state)
        if all(ok for ok, _ in results.values()) or task.data.get("partial"):
            results |= {i: _run_program(sandbox, task, spec) for i, spec in programs.items()}
        else:
            results |= dict.fromkeys(programs, (False, "not run"))
        return _verdict(specs, results, partial=bool(task.data.get("partial")))

    def step(self, action: str) -> tuple[ShellObservation, float, bool, bool, dict[str, Any]]:
        """See ``ShellEnv.step``; ``submit`` in a task of several steps leads to the next one."""
        trial, task = self._trial, self._task
        if (
            trial is not None
            and task is not None
            and self._verdict is None
            and action.strip() == SUBMIT
            and self._steps + 1 < task.limits.max_steps
        ):
            following = trial.advance()
            if following is not None:
                self._steps += 1
                self._transcript.append(f"$ {action}\n# {following}")
                return self._observe(ExecResult(following, 0)), 0.0, False, False, {}
        return super().step(action)

    def _act(self, sandbox: Sandbox, task: Task, action: str) -> ExecResult:
        """See ``ShellEnv``; keystrokes go to a terminal that begins with the first of them."""
        try:
            keystrokes = parse_keystrokes(action)
        except ValueError as error:
            return ExecResult(f"[{error}]", 2)
        if keystrokes is None:
            return super()._act(sandbox, task, action)
        shown, note = "", ""
        try:
            if self._terminal is None:
                self._terminal = Tmux(sandbox)
                self._terminal.start()
            for one in keystrokes:
                shown = self._terminal.send(one.keys, wait_s=one.duration_s)
        except TerminalEnded:
            self._terminal, note = None, "the terminal ended; the next keys start another"
        return ExecResult(cut(shown, task.limits.output_bytes), 0, note=note)

    def _judge(self, sandbox: Sandbox, task: Task, *, last: bool) -> Verdict:
        """See ``ShellEnv``; a public verifier runs once, beside what the agent left running."""
        if self._trial is None:
            return super()._judge(sandbox, task, last=last)
        return self._trial.verdict() if last else Verdict(0.0)

    def solve(self) -> bool:
        """See ``TaskEnv.solve``: the reference solution of a public task's present step."""
        return self._trial is not None and self._trial.solve() is not None

    def oracle(self, task: Task) -> Sequence[str]:
        """Return the commands the task carries; a public task's are those of ``solve``, submitted
        step by step. Raises ``TaskError`` for what cannot be played."""
        require_playable(task)
        if is_public(task):
            return (SUBMIT,) * int(task.data["steps"])
        return tuple(task.data.get("oracle", ()))


def _stated_workdir(task: Task) -> str:
    """Return the working directory the task states, "" for its image's own."""
    if task.data["kind"] != "harbor":
        return ""
    return task.data["config"]["environment"]["workdir"] or ""


def _require_checks(task: Task) -> None:
    specs = task.data.get("checks")
    if not isinstance(specs, list | tuple) or not specs:
        raise TaskError(f"{task.id}: data.checks must be a list of at least one check")
    for spec in specs:
        kind = spec.get("kind") if isinstance(spec, Mapping) else None
        whole = kind != "runs" or all(key in spec for key in checks.RUNS_KEYS)
        if not whole or (kind != "runs" and kind not in KINDS):
            raise TaskError(f"{task.id}: {spec!r} is no check: see envs.terminal.checks")


@cache
def _program(name: str) -> str:
    return (files("envs.terminal") / f"{name}.py").read_text("utf-8")


def _run_inside(
    sandbox: Sandbox, name: str, request: Mapping[str, Any], timeout_s: float
) -> ExecResult:
    return sandbox.exec(
        ["/usr/bin/python3", "-I", "-B", "-c", _program(name)],
        timeout_s=timeout_s,
        cwd="/",
        stdin=json.dumps(request).encode(),
    )


def _of_kind(task: Task, kind: str) -> dict[int, checks.Check]:
    return {i: spec for i, spec in enumerate(task.data["checks"]) if spec["kind"] == kind}


def _await_processes(sandbox: Sandbox, task: Task) -> None:
    """Wait until the set-up's processes run: those the task wants ended, and those it guards. A
    set-up that starts them in the background returns before they are there, and doing nothing would
    look like having ended them."""
    started = {
        i: check
        for i, check in _of_kind(task, "process").items()
        if not check["running"] or check.get("guard")
    }
    deadline = time.monotonic() + SETUP_TIMEOUT_S
    while started:
        found = _inspect(sandbox, task, started)
        if all(ok == check["running"] for (ok, _), check in zip(
            found.values(), started.values(), strict=True)):  # fmt: skip
            return
        if time.monotonic() > deadline:
            raise SetupError(f"{task.id}: the set-up's processes did not start")
        time.sleep(0.05)


def _inspect(
    sandbox: Sandbox, task: Task, specs: Mapping[int, checks.Check]
) -> dict[int, tuple[bool, str]]:
    """Have the inspector judge these checks; keys are their places in the task."""
    request = {"root": task.data.get("root", "/workspace"), "checks": list(specs.values())}
    result = _run_inside(sandbox, "inspector", request, task.limits.verifier_timeout_s)
    try:
        rows = json.loads(result.output)
        found = [(ok, why) for ok, why in rows]
    except (ValueError, TypeError):
        found = []
    if result.exit_code != 0 or len(found) != len(specs):
        tail = result.output.strip()[-300:]
        raise VerifierError(f"{task.id}: no verdict (exit {result.exit_code}): {tail}")
    if not all(isinstance(ok, bool) and isinstance(why, str) for ok, why in found):
        raise VerifierError(f"{task.id}: malformed verdict: {result.output[:300]}")
    return dict(zip(specs, found, strict=True))


def _run_program(sandbox: Sandbox, task: Task, spec: checks.Check) -> tuple[bool, str]:
    """Start the agent's program and compare what it prints, out of its reach."""
    root = task.data.get("root", "/workspace")
    result = sandbox.exec(
        ["/bin/sh", "-c", 'exec "./$0" "$@"', spec["path"], *spec["args"]],
        cwd=root,
        stdin=spec["stdin"].encode(),
        timeout_s=RUN_TIMEOUT_S,
    )
    if result.timed_out or result.truncated:
        return False, "did not end in time" if result.timed_out else "printed too much"
    if result.exit_code != spec["exit_code"]:
        return False, f"exit status {result.exit_code}: {result.output[-100:]!r}"
    try:
        right = same(result.output.encode(), spec["text"], spec["how"])
    except Mismatch as mismatch:
        return False, str(mismatch)
    return right, "" if right else f"printed {result.output[:100]!r}"


def _verdict(
    specs: Sequence[checks.Check], results: Mapping[int, tuple[bool, str]], *, partial: bool
) -> Verdict:
    names = [checks.name(spec) for spec in specs]
    passed = [index for index in range(len(specs)) if results[index][0]]
    failed = [index for index in range(len(specs)) if not results[index][0]]
    reward = 0.0 if failed else 1.0
    goals = [index for index, spec in enumerate(specs) if not spec.get("guard")]
    if partial and failed and set(failed) <= set(goals):
        reward = sum(index in passed for index in goals) / len(goals)
    return Verdict(
        reward=reward,
        passed=tuple(names[index] for index in passed),
        failed=tuple(names[index] for index in failed),
        detail="; ".join(f"{names[index]}: {results[index][1]}" for index in failed),
    )
