"""One trial of a public task on a machine of its own: set-up, steps, verifier, reference solution.

The order of things is the official harnesses'. What they do to the machine is done as root; the
agent's and the verifier's commands run as the users the task names. ``rewards`` reads rewards.

Departures, all to the strict side: steps that were never reached count 0 in a mean when our own
limits cut the episode (officially only steps with a verdict count); a verifier that runs out of
time is an error for Harbor tasks, as officially, and 0 for Terminal-Bench 1, as officially.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from envs.errors import SandboxFileError, SetupError, VerifierError
from envs.sandbox.machine import MachineSandbox
from envs.sandbox.protocol import ExecResult
from envs.terminal.formats import harbor, terminal_bench
from envs.terminal.formats.harbor import Healthcheck, Step, Verifier
from envs.terminal.formats.rewards import (
    harbor_rewards,
    harbor_verdict,
    require_bootstrap,
    terminal_bench_verdict,
)
from envs.types import Task, Verdict

OUTPUT_BYTES = 4 << 20
SETUP_TIMEOUT_S = 600.0
SOLVE_TIMEOUT_S = 3600.0  # where a task states no time for its agent
LOGS = "mkdir -p /logs/agent /logs/verifier /logs/artifacts && chmod 777 /logs /logs/*"
REWARD_JSON, REWARD_TXT = "/logs/verifier/reward.json", "/logs/verifier/reward.txt"
TEST_OUTPUT, CTRF = "/logs/verifier/test-stdout.txt", "/logs/verifier/ctrf.json"
VARIABLES = {
    "T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME": "task",
    "T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME": "client",
    "T_BENCH_TASK_DOCKER_NAME_PREFIX": "task",
    "T_BENCH_TEST_DIR": "/tests",
    "T_BENCH_TASK_LOGS_PATH": "/logs",
    "T_BENCH_CONTAINER_LOGS_PATH": "/logs",
    "T_BENCH_TASK_AGENT_LOGS_PATH": "/agent-logs",
    "T_BENCH_CONTAINER_AGENT_LOGS_PATH": "/agent-logs",
}


class VerifierTimeout(VerifierError):
    """The verifier did not end in the time the task gives it."""


class Trial(Protocol):
    """What the environment asks of a trial, in this order."""

    def begin(self) -> None:
        """Bring the machine to the task's start. Raises ``SetupError``."""
        ...

    def advance(self) -> str | None:
        """End the present step: verify it, set up the next and return its instruction; None when
        there is none, or its threshold was missed. Raises ``VerifierError``, ``SetupError``."""
        ...

    def verdict(self) -> Verdict:
        """Return the verdict; a step under way is verified first. Raises ``VerifierError``."""
        ...

    def solve(self) -> ExecResult | None:
        """Run the present step's reference solution; None when the task has none."""
        ...


def open_trial(task: Task, machine: MachineSandbox) -> Trial:
    """Return the trial of a task whose ``data["kind"]`` is a format's name."""
    path = Path(task.data["directory"])
    if task.data["kind"] == "harbor":
        return HarborTrial(task, harbor.read_task(path), machine)
    return TerminalBenchTrial(task, terminal_bench.read_task(path), machine)


def environment_of(task: Task) -> dict[str, str]:
    """Return the variables that the task's container has from its start. Raises ``TaskError``."""
    if task.data["kind"] == "harbor":
        return dict(task.data["config"]["environment"]["env"])
    source = terminal_bench.read_task(Path(task.data["directory"]))
    client = source.compose.services[terminal_bench.SERVICE] if source.compose else None
    given = client.environment if client else {}
    rows = given.items() if isinstance(given, Mapping) else (r.partition("=")[::2] for r in given)
    return {k: terminal_bench.interpolate("" if v is None else str(v), VARIABLES) for k, v in rows}


# ----------------------------------------------------------------- Harbor


class HarborTrial:
    """A ``Trial`` of a Harbor task, of one step or several."""

    def __init__(self, task: Task, source: harbor.HarborTask, machine: MachineSandbox) -> None:
        self.task, self.source, self.machine = task, source, machine
        self.steps: tuple[Step | None, ...] = source.config.steps or (None,)
        self.rewards: list[dict[str, float]] = []
        self._said: tuple[str, bytes | None] = ("", None)
        self._stopped = False

    def begin(self) -> None:
        """See ``Trial.begin``."""
        _must(self.machine, LOGS, "its log folders")
        if (check := self.source.config.environment.healthcheck) is not None:
            _await_health(self.machine, check)
        self._prepare()

    def advance(self) -> str | None:
        """See ``Trial.advance``."""
        step = self._step
        self._verify()
        self._stopped = step is not None and _below(self.rewards[-1], step.min_reward)
        if self._stopped or len(self.rewards) == len(self.steps):
            return None
        self._prepare()
        return self.source.step_instructions[len(self.rewards)]

    def verdict(self) -> Verdict:
        """See ``Trial.verdict``."""
        if not self._stopped and len(self.rewards) < len(self.steps):
            self._verify()
        if len(self.steps) == 1 and self.steps[0] is None:
            return harbor_verdict(self.rewards[0], *self._said)
        rows = list(self.rewards)
        if not self._stopped:
            rows += [{}] * (len(self.steps) - len(rows))
        if self.source.config.multi_step_reward_strategy == "final":
            return harbor_verdict(rows[-1] or {"reward": 0.0})
        keys = sorted({key for row in rows for key in row})
        return harbor_verdict({k: sum(row.get(k, 0.0) for row in rows) / len(rows) for k in keys})

    def solve(self) -> ExecResult | None:
        """See ``Trial.solve``."""
        folder = self.source.path / "solution"
        if self._step is not None and (own := self._place("solution")).is_dir():
            folder = own
        if not (folder / "solve.sh").is_file():
            return None
        config = self.source.config
        self.machine.upload(folder, "/solution")
        return self.machine.exec(
            ["bash", "-c", "bash /solution/solve.sh 2>&1 | tee /logs/agent/oracle.txt"],
            timeout_s=config.agent.timeout_sec or SOLVE_TIMEOUT_S,
            env={"DEBIAN_FRONTEND": "noninteractive", **config.solution.env},
            max_output_bytes=1 << 16,
        )

    # ------------------------------------------------------------- inside

    @property
    def _step(self) -> Step | None:
        return self.steps[len(self.rewards)] if len(self.rewards) < len(self.steps) else None

    def _place(self, name: str) -> Path:
        assert self._step is not None
        return self.source.path / "steps" / self._step.name / name

    def _prepare(self) -> None:
        """Bring the machine to the start of the present step."""
        step, config = self._step, self.source.config
        if self.rewards:
            _must(self.machine, "rm -rf /tests; find /logs/verifier -mindepth 1 -delete",
                  "its folders between steps")  # fmt: skip
        user = config.agent.user if step is None or step.agent.user is None else step.agent.user
        self.machine.become("" if user is None else str(user))
        if step is not None:
            self._stage(step)
        mode = config.agent.network_mode if step is None else step.agent.network_mode
        self._network(mode or config.agent.network_mode)

    def _stage(self, step: Step) -> None:
        """Put the step's files into the working directory, run ``setup.sh``, wait for health."""
        folder = self._place("workdir")
        if folder.is_dir():
            where = self.machine.exec(["pwd"]).output.strip() or "/"
            self.machine.upload(folder, where)
            if (folder / "setup.sh").is_file():
                script = f"{where.rstrip('/')}/setup.sh"
                result = self.machine.exec(["bash", script], timeout_s=SETUP_TIMEOUT_S)
                if result.exit_code != 0:
                    raise SetupError(f"step {step.name!r}: setup.sh ended with {result.exit_code}: "
                                     f"{result.output[-300:]}")  # fmt: skip
        if step.healthcheck is not None:
            _await_health(self.machine, step.healthcheck)

    def _network(self, mode: str | None) -> None:
        self.machine.set_network((mode or self.source.config.environment.network_mode) == "public")

    def _verify(self) -> None:
        """Run the present step's tests and keep its rewards."""
        step, config, machine = self._step, self.source.config, self.machine
        verifier = config.verifier if step is None else step.verifier
        self._network(verifier.network_mode or config.verifier.network_mode)
        _must(machine, f"rm -f -- {REWARD_JSON} {REWARD_TXT}", "stale rewards")
        folders = [self.source.path / "tests"]
        if step is not None:
            folders.append(self._place("tests"))
        for folder in folders:
            if folder.is_dir():
                machine.upload(folder, "/tests")
        if not any((folder / "test.sh").is_file() for folder in folders):
            raise VerifierError("no tests/test.sh")
        result = self._run_tests(verifier)
        output = (_read(machine, TEST_OUTPUT) or b"").decode("utf-8", "replace")
        if result.timed_out:
            raise VerifierTimeout(f"test.sh did not end in {self._time(verifier):.0f} s: "
                                  f"{output[-200:]}")  # fmt: skip
        self._said = output, _read(machine, CTRF)
        rewards = harbor_rewards(_read(machine, REWARD_JSON), _read(machine, REWARD_TXT))
        if step is not None and not any(rewards.values()):
            require_bootstrap(*self._said)
        self.rewards.append(rewards)

    def _run_tests(self, verifier: Verifier) -> ExecResult:
        config = self.source.config
        user = config.verifier.user if verifier.user is None else verifier.user
        return self.machine.exec(
            ["bash", "-c", f"bash /tests/test.sh > {TEST_OUTPUT} 2>&1"],
            timeout_s=self._time(verifier),
            env={**config.verifier.env, **verifier.env},
            user="0" if user is None else str(user),
        )

    def _time(self, verifier: Verifier) -> float:
        stated = "timeout_sec" in verifier.model_fields_set
        return verifier.timeout_sec if stated else self.source.config.verifier.timeout_sec


def _below(rewards: Mapping[str, float], least: float | Mapping[str, float] | None) -> bool:
    """Return whether a step's rewards miss its threshold; a key that is missing does."""
    if least is None:
        return False
    wanted = least if isinstance(least, Mapping) else {"reward": least}
    return any(rewards.get(key, float("-inf")) < value for key, value in wanted.items())


def _await_health(machine: MachineSandbox, check: Healthcheck) -> None:
    """Ask until the answer is 0. Failures within the start period do not count as tries."""
    started, failures = time.monotonic(), 0
    while True:
        result = machine.exec(["bash", "-c", check.command], timeout_s=check.timeout_sec)
        if result.exit_code == 0:
            return
        early = time.monotonic() - started < check.start_period_sec
        failures += not early
        if failures >= check.retries:
            raise SetupError(f"health check {check.command!r}: {result.output[-300:]}")
        time.sleep(check.start_interval_sec if early else check.interval_sec)


# ----------------------------------------------------------------- Terminal-Bench 1


class TerminalBenchTrial:
    """A ``Trial`` of a Terminal-Bench 1 task. The terminal of the tests is 160 columns wide, as
    officially, but long lines are not wrapped."""

    def __init__(
        self, task: Task, source: terminal_bench.TerminalBenchTask, machine: MachineSandbox
    ) -> None:
        self.task, self.source, self.machine = task, source, machine
        self._verdict: Verdict | None = None

    def begin(self) -> None:
        """See ``Trial.begin``."""
        _must(self.machine, "mkdir -p /logs /agent-logs", "its log folders")

    def advance(self) -> str | None:
        """See ``Trial.advance``."""
        self.verdict()
        return None

    def verdict(self) -> Verdict:
        """See ``Trial.verdict``."""
        if self._verdict is None:
            self._verdict = self._verify()
        return self._verdict

    def solve(self) -> ExecResult | None:
        """See ``Trial.solve``; one that types keys (``solution.yaml``) is not played."""
        if self.source.solve is None:
            return None
        self.machine.write_file("/oracle/solution.sh", self.source.solve.read_bytes(), mode=0o755)
        return self.machine.exec(
            ["bash", "/oracle/solution.sh"],
            timeout_s=self.source.config.max_agent_timeout_sec,
            max_output_bytes=1 << 16,
        )

    def _verify(self) -> Verdict:
        source, config, machine = self.source, self.source.config, self.machine
        if source.run_tests is None:
            raise VerifierError("no run-tests.sh")
        if (source.path / "tests").is_dir():
            machine.upload(source.path / "tests", "/tests")
        machine.write_file("/tests/run-tests.sh", source.run_tests.read_bytes(), mode=0o755)
        limit = config.max_test_timeout_sec
        if config.run_tests_in_same_shell:
            result = machine.shell(
                "bash /tests/run-tests.sh", timeout_s=limit, max_output_bytes=OUTPUT_BYTES
            )
        else:
            result = machine.exec(
                ["bash", "/tests/run-tests.sh"], timeout_s=limit, env={"COLUMNS": "160"},
                max_output_bytes=OUTPUT_BYTES,
            )  # fmt: skip
        if result.timed_out:
            return Verdict(0.0, detail=f"test_timeout after {limit:.0f} s")
        return terminal_bench_verdict(result.output)


# ----------------------------------------------------------------- both


def _must(machine: MachineSandbox, script: str, what: str) -> None:
    """Run something of ours as root. Raises ``SetupError``."""
    result = machine.exec(["sh", "-c", script], user="0", cwd="/")
    if result.exit_code != 0:
        raise SetupError(f"{what} could not be made: {result.output[-300:]}")


def _read(machine: MachineSandbox, path: str) -> bytes | None:
    try:
        return machine.read_file(path)
    except SandboxFileError:
        return None
