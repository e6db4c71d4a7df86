"""The conformance suite of sandboxes: what a back end must hold before an agent is let in.

    python -m envs.sandbox check
    check_sandbox(lambda spec: MySandbox(spec)).raise_if_failed()

The checks themselves are plain functions in ``envs.sandbox.checks``, grouped by what they guard.
Left out: speed (``benchmarks.perf sandbox``), and faults of the machine such as a dead daemon.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from envs.errors import SandboxError
from envs.sandbox.checks import commands, files, isolation, limits, state
from envs.sandbox.protocol import Sandbox, SandboxSpec

Factory = Callable[[SandboxSpec], Sandbox]
Outcome = Literal["passed", "failed", "broken"]

CHECK_SPEC = SandboxSpec(
    image="terminal",
    memory_bytes=192 << 20,
    pids=64,
    disk_bytes=16 << 20,
    env={"FROM_SPEC": "yes"},
)

CHECKS: dict[str, Callable[[Sandbox], None]] = {
    name: function
    for room in (isolation, limits, commands, files, state)
    for name, function in room.CHECKS.items()
}


@dataclass(frozen=True)
class CheckResult:
    """One check's outcome: ``passed``, ``failed`` (the contract is broken), or ``broken`` (the
    sandbox was lost or could not start)."""

    name: str
    outcome: Outcome
    detail: str
    seconds: float


@dataclass(frozen=True)
class CheckReport:
    """What ``check_sandbox`` found, one result per check that ran."""

    results: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """True when every check passed."""
        return all(result.outcome == "passed" for result in self.results)

    def lines(self) -> list[str]:
        """Return the report as lines for people."""
        rows = [
            f"{result.outcome:7} {result.seconds:6.2f} s  {result.name:34} {result.detail}".rstrip()
            for result in self.results
        ]
        passed = sum(result.outcome == "passed" for result in self.results)
        return [*rows, f"{passed} of {len(self.results)} checks passed"]

    def raise_if_failed(self) -> None:
        """Raise ``AssertionError`` with the report unless every check passed."""
        if not self.ok:
            raise AssertionError("\n".join(self.lines()))


def check_sandbox(factory: Factory, only: Collection[str] = ()) -> CheckReport:
    """Run the suite, each check in a fresh sandbox of ``CHECK_SPEC``.

    Args:
        factory: makes a sandbox of a spec.
        only: names of checks to run; all by default.

    Raises:
        ValueError: an unknown name.
        MissingDependency: from the factory: no check can run.
    """
    unknown = sorted(set(only) - set(CHECKS))
    if unknown:
        raise ValueError(f"unknown checks {unknown}: choose from {', '.join(CHECKS)}")
    return CheckReport(tuple(_run(factory, name) for name in CHECKS if not only or name in only))


def _run(factory: Factory, name: str) -> CheckResult:
    begun = time.monotonic()
    outcome: Outcome = "passed"
    detail = ""
    try:
        with factory(CHECK_SPEC) as sandbox:
            CHECKS[name](sandbox)
    except AssertionError as error:
        outcome, detail = "failed", str(error)
    except SandboxError as error:
        outcome, detail = "broken", f"{type(error).__name__}: {error}"
    return CheckResult(name, outcome, detail, time.monotonic() - begun)
