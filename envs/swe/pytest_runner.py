"""Runs pytest on a tree in a child process and reports each test. Runs inside the sandbox.

Sent as text to the image's ``python -I -c`` by ``pytest_grading``; imports nothing of ours.
Standard input holds the tree and what to run. This process holds none of the agent's code and is
not open to its children's eyes. It writes ``<tag> ready`` once the child is there, which waits for
its request and has nothing of the agent's in it yet, then ``<tag> {outcomes}``. A tree that finds
no room is the agent's doing, a child that cannot be started is not.
"""

import base64
import contextlib
import ctypes
import importlib.util
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CHILD = """
import json, sys
import pytest
request = json.load(sys.stdin)

class Selection:
    def pytest_collection_modifyitems(self, items):
        wanted = request["select"]
        if wanted is not None:
            wanted = set(wanted)
            items[:] = [item for item in items if item.nodeid in wanted]
        for item in items:
            item.user_properties.append(("nodeid", item.nodeid))

sys.path[:0] = [request["import_root"], request["root"]]
sys.argv = ["pytest"]
sys.exit(pytest.main(request["arguments"], plugins=[Selection()]))
"""
_PR_SET_DUMPABLE = 4
_LOG = "child.log"


def main() -> None:
    """Read the request, run pytest, report."""
    request: dict[str, Any] = json.load(sys.stdin)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)

    def say(text: str) -> None:
        os.write(1, f"\n{request['tag']} {text}\n".encode())

    if importlib.util.find_spec("pytest") is None:
        sys.exit("pytest is not installed in this image")
    root = ""
    try:
        try:
            root = tempfile.mkdtemp(prefix="graded-", dir="/tmp")
            files = _place(base64.b64decode(request["tree"]), Path(root))
            (Path(root) / _LOG).touch()
        except OSError as error:
            say("ready")
            say(json.dumps({"outcomes": [], "problem": f"the tests had no room: {error}"}))
            return
        say(json.dumps(_run(request, Path(root), files, say)))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _run(
    request: dict[str, Any], root: Path, files: dict[str, bytes], say: Callable[[str], None]
) -> dict[str, Any]:
    report = root / request["report"]
    arguments = [
        *("--rootdir", str(root), "-c", str(root / request["settings"]), "-p", "no:cacheprovider"),
        *("-o", "addopts=", "-o", "filterwarnings=", "-q", "--tb=line", f"--junitxml={report}"),
        "--continue-on-collection-errors",
        *(word for name in request["plugins"] for word in ("-p", name)),
        *(str(root / path) for path in request["paths"]),
    ]
    child_request = {
        "select": request["select"],
        "root": str(root),
        "import_root": str(root / request["import_root"]),
        "arguments": arguments,
    }
    log = root / _LOG
    with log.open("wb") as sink:
        child = subprocess.Popen(
            [sys.executable, "-I", "-B", "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd=root,
            env={
                "PATH": "/usr/bin:/bin",
                "LANG": "C.UTF-8",
                "HOME": str(root),
                "PYTHONPATH": child_request["import_root"],
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            },
            start_new_session=True,
        )
        say("ready")
        problem = ""
        try:
            child.communicate(json.dumps(child_request).encode(), timeout=request["timeout_s"])
        except subprocess.TimeoutExpired:
            problem = f"the tests ran past {request['timeout_s']:.0f} s"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    altered = [path for path in request["guarded"] if _bytes(root / path) != files[path]]
    if altered:
        return {"outcomes": [], "problem": f"the tests were altered while they ran: {altered[0]}"}
    outcomes = [] if problem else _outcomes(report)
    if not outcomes and not problem:
        problem = (_bytes(log) or b"")[-600:].decode("utf-8", "backslashreplace")
    return {"outcomes": outcomes, "problem": problem}


def _place(data: bytes, root: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        for entry in tar:
            file = tar.extractfile(entry)
            assert file is not None
            files[entry.name] = file.read()
            place = root / entry.name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(files[entry.name])
    return files


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _outcomes(report: Path) -> list[list[str]]:
    """Return ``[node id, outcome, message]`` of every test case of a JUnit file."""
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return []
    rows = []
    for case in cases:
        names = [p.get("value", "") for p in case.iter("property") if p.get("name") == "nodeid"]
        name = names[0] if len(names) == 1 else f"?{case.get('classname')}::{case.get('name')}"
        trouble = [e for e in case if e.tag in ("failure", "error", "skipped")]
        outcome = trouble[0].tag if trouble else "passed"
        message = (trouble[0].get("message") or "") if trouble else ""
        rows.append([name, outcome, message[:300]])
    return rows


main()
