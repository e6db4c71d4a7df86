"""Runs a package's own tests once and says which lines of its source each of them ran.

Sent as text to the image's ``python -I -c`` by ``packages``; imports nothing of ours. The source is
the package as released, so nothing here guards against it. Standard input holds the tree; the
answer is one line ``<tag> {json}``: ``tests`` by node id, and per file and line the tests that ran
it as the bits of a hexadecimal number. What runs while modules are imported belongs to no test.
"""

import base64
import io
import json
import os
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any


class Contexts:
    """A pytest plugin that gives each test a context of its own."""

    def __init__(self, measured: Any) -> None:
        self.measured = measured
        self.tests: list[str] = []

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Begin a test."""
        self.measured.switch_context(str(len(self.tests)))
        self.tests.append(nodeid)

    def pytest_runtest_logfinish(self) -> None:
        """End it."""
        self.measured.switch_context("")


def main() -> None:
    """Read the request, run pytest, report."""
    request: dict[str, Any] = json.load(sys.stdin)
    root = Path(tempfile.mkdtemp(prefix="covered-", dir="/tmp"))
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(request["tree"]))) as tar:
        for entry in tar:
            file = tar.extractfile(entry)
            assert file is not None
            (root / entry.name).parent.mkdir(parents=True, exist_ok=True)
            (root / entry.name).write_bytes(file.read())
    os.chdir(root)
    answer = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.environ.update(HOME=str(root), PYTHONPATH=str(root / request["import_root"]),
                      PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")  # fmt: skip
    sys.path[:0] = [str(root / request["import_root"]), str(root)]
    sys.argv = ["pytest"]
    text = json.dumps(_measure(request, root))
    with os.fdopen(answer, "w") as out:
        out.write(f"\n{request['tag']} {text}\n")


def _measure(request: dict[str, Any], root: Path) -> dict[str, Any]:
    import coverage  # type: ignore[import-not-found, unused-ignore]  # of the image
    import pytest

    files = [str(root / path) for path in request["files"]]
    measured = coverage.Coverage(data_file=None, config_file=False, include=files)
    contexts = Contexts(measured)
    measured.start()
    pytest.main(
        ["--rootdir", str(root), "-p", "no:cacheprovider", "-o", "addopts=", "-o",
         "filterwarnings=", "-q", "--tb=no", "--continue-on-collection-errors",
         *(word for name in request["plugins"] for word in ("-p", name)),
         *(str(root / path) for path in request["tests"])],
        plugins=[contexts],
    )  # fmt: skip
    measured.stop()
    data = measured.get_data()
    lines: dict[str, dict[int, str]] = {}
    for path, file in zip(request["files"], files, strict=True):
        found = data.contexts_by_lineno(file) if file in data.measured_files() else {}
        lines[path] = {}
        for line, names in found.items():
            bits = sum(1 << int(name) for name in set(names) if name)
            if bits:
                lines[path][line] = f"{bits:x}"
    return {"tests": contexts.tests, "lines": lines}


main()
