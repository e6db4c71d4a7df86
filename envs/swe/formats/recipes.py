"""How an instance's environment is made and its tests are run, where the row does not say.

SWE-rebench rows bring ``install_config``; rows of SWE-bench before version 5 are looked up in the
table of ``swebench`` 4.1.0, installed without its dependencies into the cache when first needed.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envs.errors import TaskError
from envs.swe.formats.official import CHILD_HEAD, install_package
from envs.swe.formats.rows import Row

TABLE_PINS = ("swebench==4.1.0", "unidiff==0.7.5")
ACTIVATE = "/opt/miniconda3/bin/activate"
PLACE = "/testbed"
ON_INDEX = "pypi/"  # before a name: a package's source distribution, base_commit its version
_CHILD = f"""{CHILD_HEAD}
from swebench.harness.constants import MAP_REPO_VERSION_TO_SPECS as specs
from swebench.harness.constants import MAP_REPO_TO_REQS_PATHS as paths
from swebench.harness.log_parsers import MAP_REPO_TO_PARSER as parsers
asked = json.load(sys.stdin)
found = specs.get(asked["repo"], {{}}).get(asked["version"])
if found and found.get("packages") == "requirements.txt":
    found = {{**found, "reqs_path": paths.get(asked["repo"], [])}}
parser = parsers.get(asked["repo"])
json.dump([found, parser.__name__ if parser else ""], sys.stdout)
"""
_NO_TESTS = (".json", ".png", ".csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml",
             ".toml")  # fmt: skip
_IN_PATCH = re.compile(r"^diff --git a/.* b/(.*)$", re.M)
_HEREDOC = "EOF_114329324912"


@dataclass(frozen=True)
class Recipe:
    """How to make an environment and run its tests.

    Attributes:
        python: version of the interpreter, as in ``3.11``.
        before: commands run before the installation.
        packages: for pip, each a requirement; conda's ``name=1`` is pip's ``name==1``.
        requirements: files of requirements in the tree; the first there is counts.
        install: commands that install the package itself.
        test_command: what the names of test files are added to.
        log_parser: key of the official parser table.
    """

    python: str
    before: tuple[str, ...]
    packages: tuple[str, ...]
    requirements: tuple[str, ...]
    install: tuple[str, ...]
    test_command: str
    log_parser: str


def recipe_of(row: Row) -> Recipe | None:
    """Return a row's recipe, None when nothing is known of it. Raises ``MissingDependency``."""
    if row.install:
        return _recipe(row.install, row.log_parser)
    if row.kind != "swe-bench" or not row.version:
        return None
    known, parser = _official(row)
    return None if known is None else _recipe(known, parser)


def _recipe(spec: Mapping[str, Any], log_parser: str) -> Recipe:
    packages = _listed(spec.get("pip_packages"))
    asked = str(spec.get("packages") or "").strip()
    paths = _listed(spec.get("reqs_path"))
    if asked == "requirements.txt":
        paths += (asked,)
    elif asked and not asked.endswith(".yml"):
        packages += tuple(_for_pip(word) for word in shlex.split(asked))
    return Recipe(
        python=str(spec.get("python") or "3.9"),
        before=_listed(spec.get("pre_install")),
        packages=packages,
        requirements=paths,
        install=_listed(spec.get("install")),
        test_command=" ".join(_listed(spec.get("test_cmd"))),
        log_parser=log_parser,
    )


def _listed(value: Any) -> tuple[str, ...]:
    if not value:
        return ()
    return (value,) if isinstance(value, str) else tuple(map(str, value))


def _for_pip(word: str) -> str:
    """Return a conda requirement as pip's.

    Example:
        >>> _for_pip("numpy=1.19.2=py36h54aff64_0"), _for_pip("numpy>=1.19")
        ('numpy==1.19.2', 'numpy>=1.19')
    """
    found = re.fullmatch(r"([\w.-]+)=([\w.]+)(?:=\w+)?", word)
    return f"{found[1]}=={found[2]}" if found else word


def _official(row: Row) -> tuple[Mapping[str, Any] | None, str]:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD],
        input=json.dumps({"repo": row.repo, "version": row.version}),
        env={"PYTHONPATH": str(install_package(TABLE_PINS)), "PATH": ""},
        capture_output=True, text=True, timeout=120.0, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise TaskError(f"{row.instance_id}: {TABLE_PINS[0]} told no recipe: {last}")
    found, parser = json.loads(done.stdout)
    return found, parser


def patched_files(patch: str) -> tuple[str, ...]:
    """Return the files a patch names, in its order."""
    return tuple(dict.fromkeys(_IN_PATCH.findall(patch)))


def eval_script(row: Row, recipe: Recipe | None) -> str:
    """Return the script that judges: the row's own, else one in the official order.

    Raises:
        TaskError: neither the row nor a recipe says how tests run.
    """
    if row.eval_script:
        return _with_exit_code(row.eval_script)
    if recipe is None or not recipe.test_command:
        raise TaskError(f"{row.instance_id}: nothing says how its tests run")
    files = patched_files(row.test_patch)
    tests = [name for name in files if not name.endswith(_NO_TESTS)]
    if not files:
        tests = list(
            dict.fromkeys(n.partition("::")[0] for n in (*row.fail_to_pass, *row.pass_to_pass))
        )
    base = "HEAD" if row.repo.startswith(ON_INDEX) else row.base_commit
    restore = f"git checkout {base} {' '.join(map(shlex.quote, files))}"
    lines = [
        "#!/bin/bash", "set -uxo pipefail", f"source {ACTIVATE}", "conda activate testbed",
        f"cd {PLACE}", f"git config --global --add safe.directory {PLACE}", "git status",
        f"git -c core.fileMode=false diff {base}", *recipe.install,
    ]  # fmt: skip
    if files:
        lines += [restore, f"git apply -v - <<'{_HEREDOC}'\n{row.test_patch}\n{_HEREDOC}"]
    lines += [
        ": '>>>>> Start Test Output'",
        f"{recipe.test_command} {' '.join(map(shlex.quote, tests))}",
        ": '>>>>> End Test Output'",
    ]
    return _with_exit_code("\n".join([*lines, *([restore] if files else []), ""]))


def _with_exit_code(script: str) -> str:
    """Add the official record of the test command's exit code, unless it is there."""
    lines = script.split("\n")
    for place, line in enumerate(lines):
        if ">>>>> End Test Output" in line and ">>>>> Test Exit Code" not in script:
            kept = ["test_exit_code=$?", line, 'echo ">>>>> Test Exit Code: $test_exit_code"']
            return "\n".join([*lines[:place], *kept, *lines[place + 1 :]])
    return script
