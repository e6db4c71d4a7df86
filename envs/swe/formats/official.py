"""The official verdict on a test log: ``swebench`` itself grades, in a process of its own.

The package is installed without its dependencies into the cache when it is first needed, pinned;
what it imports of them for other purposes than grading is answered by empty modules. Nothing of its
rules is written again here: parsers, F2P and P2P, XFAIL, SKIPPED, cut ids, exit codes.

A log without test output is no verdict: ``NoTestOutput``. So is one with F2P or P2P tests missing
because the log says that the environment failed.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envs.errors import MissingDependency, VerifierError
from envs.swe.formats.rows import Row
from envs.swe.releases import cache_folder
from envs.types import Verdict

PINS = ("swebench==5.0.2", "unidiff==0.7.5")
TIMEOUT_S = 120.0
CHILD_HEAD = """
import importlib.machinery, json, sys, types
def nothing(key):
    if key.startswith("__"):
        raise AttributeError(key)
    return type(key, (), {})
class Absent:
    names = ("datasets", "bs4", "fastcore", "ghapi", "git", "dotenv", "tqdm", "rich", "typer")
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec):
        made = types.ModuleType(spec.name)
        made.__getattr__ = nothing
        return made
    def exec_module(self, module):
        pass
sys.meta_path.append(Absent())
remote = "swebench.harness.modal_eval"
sys.modules[remote] = Absent().create_module(importlib.machinery.ModuleSpec(remote, None))
"""
_CHILD = f"""{CHILD_HEAD}
from swebench.harness.grading import get_eval_report
from swebench.types import TestSpec
asked = json.load(sys.stdin)
spec = TestSpec(image="", eval_script_list=[], image_assets={{}}, **asked["spec"])
prediction = {{"instance_id": spec.instance_id, "model_name_or_path": "m",
              "model_patch": asked["patch"]}}
json.dump(get_eval_report(spec, prediction, asked["log"], True)[spec.instance_id], sys.stdout)
"""


class NoTestOutput(VerifierError):
    """The log shows no run of the tests; nothing is said of the patch."""


def report(row: Row, log: str, patch: str = "x") -> dict[str, Any]:
    """Return the official report on a log, as ``swebench`` writes it for one instance.

    Raises:
        MissingDependency: the package is not there and cannot be installed.
        VerifierError: it failed, as for an unknown parser.
    """
    spec = {
        "instance_id": row.instance_id,
        "repo": row.repo,
        "version": row.version,
        "FAIL_TO_PASS": list(row.fail_to_pass),
        "PASS_TO_PASS": list(row.pass_to_pass),
        "log_parser": row.log_parser,
        "eval_type": row.eval_type,
    }
    with tempfile.NamedTemporaryFile("w", suffix=".log", encoding="utf-8") as file:
        file.write(log)
        file.flush()
        done = subprocess.run(
            [sys.executable, "-c", _CHILD],
            input=json.dumps({"spec": spec, "patch": patch, "log": file.name}),
            env={"PYTHONPATH": str(install_package(PINS)), "PATH": ""},
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise VerifierError(f"{row.instance_id}: swebench gave no report: {last}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def verdict(row: Row, log: str, patch: str = "x") -> Verdict:
    """Return the verdict on a log: 1 when officially resolved.

    Raises:
        NoTestOutput, VerifierError, MissingDependency: see the module and ``report``.
    """
    found = report(row, log, patch)
    if not found["patch_successfully_applied"]:
        raise NoTestOutput(
            f"{row.instance_id}: {found.get('infra_failure_reason') or 'no usable test output'}"
        )
    status: Mapping[str, Mapping[str, list[str]]] = found["tests_status"]
    groups = [status[name] for name in ("FAIL_TO_PASS", "PASS_TO_PASS")]
    return Verdict(
        reward=float(found["resolved"]),
        passed=tuple(test for group in groups for test in group["success"]),
        failed=tuple(test for group in groups for test in group["failure"]),
        detail="resolved" if found["resolved"] else "not resolved",
    )


def install_package(pins: tuple[str, ...]) -> Path:
    """Return the folder that holds pinned packages, installed if need be.

    Raises:
        MissingDependency: they cannot be had.
    """
    target = cache_folder() / f"official-{'-'.join(pins).replace('==', '-')}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install",
                   "--no-deps", "--target", f"{folder}/it", *pins]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            raise MissingDependency(
                f"{pins[0]} could not be installed: {done.stderr.strip()[-300:]}",
                "check that this machine reaches a package index",
            )
        if not target.exists():
            Path(folder, "it").rename(target)
    return target
