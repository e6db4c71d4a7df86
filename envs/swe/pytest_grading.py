"""Judges a package's tree by its tests: a clean tree, the agent's source files, our tests.

What of the agent's tree counts is ``trees.source_files``: its ``conftest.py``, settings, ``*.pth``,
byte code and tests are left behind, and so is every module outside the package. The interpreter
runs isolated (``-I``) with a clean environment. The result is pytest's JUnit file under a name
drawn for the run, read by a parent process that holds none of the agent's code; a test counts when
it appears exactly once and passed. Canaries (``canaries``) run in a file of their own and at the
end of the test modules, under names made from the tests' own; most of them must fail. A source that
marks everything as passed, or leaves out what it runs, is caught by those. Tests altered while they
ran are found out.

What remains possible: the package runs in the process that judges it. A source written for exactly
this program is believed when it tells canaries from tests by reading them (a canary's body is one
``assert``), runs those alone and passes the rest; or when it writes a whole report by itself.
"""

import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from envs.sandbox.protocol import Sandbox
from envs.swe.canaries import Canaries, plant
from envs.swe.programs import run_program
from envs.swe.trees import MOST_BYTES, Tree, pack, unpack

PYTHON = "/opt/venv/bin/python"
HARVEST_S = 60.0
_MOST_OUTPUT_BYTES = 16 << 20
_HARVEST = """
import base64, io, os, sys, tarfile
tag, root, most, *places = sys.argv[1:]
print(tag, "ready", flush=True)
out, total = io.BytesIO(), 0
with tarfile.open(fileobj=out, mode="w:gz") as tar:
    for place in places:
        for folder, folders, names in os.walk(os.path.join(root, place)):
            folders[:] = [name for name in folders if name != "__pycache__"]
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    total += os.path.getsize(path)
                    if total > int(most):
                        sys.exit(0)
                    tar.add(path, os.path.relpath(path, root))
        path = os.path.join(root, place)
        if os.path.isfile(path) and not os.path.islink(path):
            tar.add(path, place)
print(tag, base64.b64encode(out.getvalue()).decode())
"""


@dataclass(frozen=True)
class Suite:
    """How the tests of one package run.

    Attributes:
        support: files beside the sources, the tests among them.
        tests: folders or files of the tests.
        import_root: folder the package is imported from.
    """

    support: Mapping[str, bytes]
    tests: tuple[str, ...]
    import_root: str

    def plugins(self) -> list[str]:
        """Return the pytest plugins the tests use: nothing else is loaded, which takes time."""
        texts = (data for path, data in self.support.items() if path.endswith(".py"))
        return ["pytest_mock"] if any(b"mocker" in data for data in texts) else []


@dataclass(frozen=True)
class SuiteResult:
    """What the tests did.

    Attributes:
        outcomes: per node id ``passed``, ``failure``, ``error`` or ``skipped``.
        messages: per node id that did not pass, the first line of why.
        problem: why there are no outcomes, or "".
    """

    outcomes: Mapping[str, str]
    messages: Mapping[str, str]
    problem: str = ""

    def passed(self, name: str) -> bool:
        """True when the test ran exactly once and passed."""
        return self.outcomes.get(name) == "passed"


def harvest(sandbox: Sandbox, folder: str, sources: Sequence[str]) -> Tree | None:
    """Return the agent's files under the sources; None when they are too large or cannot be read.

    Raises:
        VerifierError: the interpreter did not start, or did not end in time.
        SandboxLost: the sandbox is gone.
    """
    tag = secrets.token_hex(8)
    argv = [PYTHON, "-I", "-S", "-B", "-c", _HARVEST, tag, folder, str(MOST_BYTES), *sources]
    lines = run_program(
        sandbox,
        argv,
        tag=tag,
        timeout_s=HARVEST_S,
        max_output_bytes=2 * MOST_BYTES,
        only_ours=True,
    )
    try:
        return unpack(base64.b64decode(lines[1])) if len(lines) == 2 else None
    except ValueError:
        return None


def run_suite(
    sandbox: Sandbox,
    suite: Suite,
    sources: Mapping[str, bytes],
    *,
    timeout_s: float,
    select: Sequence[str] | None = None,
) -> SuiteResult:
    """Run tests of a suite on sources.

    Args:
        select: node ids to run; None runs all.
        timeout_s: of the tests; a suite that runs past it has no outcomes.

    Raises:
        VerifierError: interpreter or pytest did not start.
        SandboxLost: the sandbox is gone.
    """
    tag = secrets.token_hex(8)
    canaries = plant(suite.support, suite.tests, select)
    request = _request(tag, suite, sources, canaries, select, timeout_s)
    lines = run_program(
        sandbox,
        [PYTHON, "-I", "-B", "-c", _runner_text()],
        tag=tag,
        stdin=json.dumps(request).encode(),
        timeout_s=timeout_s + 30.0,
        max_output_bytes=_MOST_OUTPUT_BYTES,
    )
    reports = [json.loads(line) for line in lines if line.startswith("{")]
    if len(reports) != 1:
        return SuiteResult({}, {}, "the tests ended without a report")
    return _read_report(reports[0], canaries.outcomes)


def _read_report(report: Mapping[str, Any], canaries: Mapping[str, str]) -> SuiteResult:
    """Turn the runner's report into a result; without outcomes when a canary tells otherwise."""
    if report["problem"]:
        return SuiteResult({}, {}, report["problem"])
    outcomes: dict[str, str] = {}
    for name, outcome, _ in report["outcomes"]:
        outcomes[name] = "twice" if name in outcomes else outcome
    if any(outcomes.pop(name, "") != expected for name, expected in canaries.items()):
        return SuiteResult({}, {}, "the report does not tell what the tests did")
    messages = {name: text for name, _, text in report["outcomes"] if name not in canaries}
    return SuiteResult(outcomes, messages)


@cache
def _runner_text() -> str:
    return Path(__file__).with_name("pytest_runner.py").read_text("utf-8")


def _request(
    tag: str,
    suite: Suite,
    sources: Mapping[str, bytes],
    canaries: Canaries,
    select: Sequence[str] | None,
    timeout_s: float,
) -> dict[str, Any]:
    settings = f"{secrets.token_hex(6)}.ini"
    extra = {**canaries.files, settings: b"[pytest]\n"}
    paths = list(suite.tests)
    if select is not None:
        paths = sorted({name.partition("::")[0] for name in select})
        select = [*select, *canaries.outcomes]
    return {
        "tag": tag,
        "tree": base64.b64encode(pack({**suite.support, **sources, **extra})).decode(),
        "guarded": [*suite.support, *extra],
        "select": select,
        "paths": [canaries.own_file, *paths],
        "plugins": suite.plugins(),
        "settings": settings,
        "report": f"{secrets.token_hex(12)}.xml",
        "import_root": suite.import_root,
        "timeout_s": timeout_s,
    }
