"""Runs a package's tests on one spoilt source after another, each in a process forked for it.

Sent as text to the image's ``python -I -c`` by ``mutants``; imports nothing of ours. pytest is
imported once, the package never in this process. Standard input holds the tree and the bugs; the
answer is one line ``<tag> {json}`` per bug, in their order: the tests that did not pass, or why
nothing is known. The sources are the package's own, so nothing here guards against them.
"""

import base64
import contextlib
import io
import json
import os
import select
import signal
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest


class Outcomes:
    """A pytest plugin that selects tests and notes those that passed."""

    def __init__(self, wanted: list[str]) -> None:
        self.wanted = frozenset(wanted)
        self.passed: dict[str, bool] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep the wanted tests."""
        items[:] = [item for item in items if item.nodeid in self.wanted]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note one phase of a test."""
        if report.when == "call" or report.outcome != "passed":
            good = self.passed.get(report.nodeid, True) and report.outcome == "passed"
            self.passed[report.nodeid] = good


def main() -> None:
    """Read the request, run each bug, report."""
    request: dict[str, Any] = json.load(sys.stdin)
    root = Path(tempfile.mkdtemp(prefix="screened-", dir="/tmp"))
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(request["tree"]))) as tar:
        for entry in tar:
            file = tar.extractfile(entry)
            assert file is not None
            (root / entry.name).parent.mkdir(parents=True, exist_ok=True)
            (root / entry.name).write_bytes(file.read())
    os.chdir(root)
    imports = str(root / request["import_root"])
    os.environ.update(HOME=str(root), PYTHONPATH=imports, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    sys.path[:0] = [imports, str(root)]
    sys.argv = ["pytest"]
    for bug in request["bugs"]:
        right = Path(bug["path"]).read_bytes()
        at, old = bug["at"], bug["old"].encode()
        Path(bug["path"]).write_bytes(right[:at] + bug["new"].encode() + right[at + len(old) :])
        answer = _in_a_fork(request, bug["tests"])
        Path(bug["path"]).write_bytes(right)
        os.write(1, f"\n{request['tag']} {answer}\n".encode())


def _in_a_fork(request: dict[str, Any], tests: list[str]) -> str:
    """Run tests in a child; ended with all it started when its time is up."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reader)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        try:
            os.write(writer, _run(request, tests).encode())
        finally:
            os._exit(0)
    os.close(writer)
    data, deadline = b"", time.monotonic() + request["timeout_s"]
    while (left := deadline - time.monotonic()) > 0:
        if select.select([reader], [], [], left)[0]:
            chunk = os.read(reader, 1 << 16)
            if not chunk:
                break
            data += chunk
    os.close(reader)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    late = time.monotonic() >= deadline
    text = data.decode() if data.endswith(b"}") else ""
    return text or json.dumps({"problem": "no end in time" if late else "the process ended"})


def _run(request: dict[str, Any], tests: list[str]) -> str:
    outcomes = Outcomes(tests)
    files = sorted({name.partition("::")[0] for name in tests})
    pytest.main(
        ["--rootdir", str(Path.cwd()), "-p", "no:cacheprovider", "-o", "addopts=", "-o",
         "filterwarnings=", "-q", "--tb=no", "--continue-on-collection-errors",
         *(word for name in request["plugins"] for word in ("-p", name)), *files],
        plugins=[outcomes],
    )  # fmt: skip
    return json.dumps({"failed": [name for name in tests if not outcomes.passed.get(name)]})


main()
