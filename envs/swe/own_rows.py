"""Our release pairs as rows of SWE-bench's fifth version, for our environment and official tools.

``python -m envs.swe rows [PAIR…] out=ROWS.jsonl`` writes them. ``repo`` is ``pypi/NAME`` and
``base_commit`` the older version; ``install_config`` pins what the image is built from. As
upstream, the files of the test patch are run; tests elsewhere, and ids that the official parser
cuts (blanks in them), are left out, and a pair that keeps none is no row.
"""

import json
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

from envs.errors import TaskError
from envs.swe.formats.recipes import ON_INDEX, eval_script, patched_files, recipe_of
from envs.swe.formats.rows import parse_row
from envs.swe.patches import unified
from envs.swe.releases import Pair, fetch
from envs.swe.trees import Tree, under

PACKAGES = (
    "pytest==8.3.5", "freezegun==1.5.1", "python-dateutil==2.9.0.post0", "pytz==2025.2",
    "tzdata==2025.2", "tzlocal==5.3.1", "simplejson==3.20.1", "PyYAML==6.0.2", "packaging==25.0",
    "setuptools==80.9.0", "hypothesis==6.140.3", "attrs==25.3.0", "six==1.17.0",
)  # fmt: skip
PYTHON = "3.11"


def rows(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Return the rows of pairs that have been built.

    Raises:
        TaskError: a pair is not built.
    """
    made = [row_of(pair) for pair in pairs]
    return [row for row in made if row["FAIL_TO_PASS"] and row["PASS_TO_PASS"]]


def row_of(pair: Pair) -> dict[str, Any]:
    """Return the row of a built pair. Raises ``TaskError``."""
    try:
        facts = json.loads((pair.folder / "task.json").read_text("utf-8"))
        gold = (pair.folder / "gold.patch").read_text("utf-8")
    except OSError as error:
        raise TaskError(
            f"{pair.name} is not built: {error}. Run python -m envs.swe build"
        ) from None
    name = f"{pair.package}__{pair.package}-{pair.fixed}"
    changes = unified(*(_tests(pair, version) for version in (pair.buggy, pair.fixed)))
    run = frozenset(patched_files(changes))
    row: dict[str, Any] = {
        "instance_id": name,
        "repo": ON_INDEX + pair.package,
        "base_commit": pair.buggy,
        "version": pair.buggy,
        "problem_statement": facts["statement"],
        "patch": gold,
        "test_patch": changes,
        "FAIL_TO_PASS": _judged(facts["fail_to_pass"], run),
        "PASS_TO_PASS": _judged(facts["pass_to_pass"], run),
        "image": f"sweb.eval.x86_64.{name.lower()}:latest",
        "log_parser": "parse_log_pytest",
        "eval_type": "pass_and_fail",
        "split": "heldout",
        "install_config": {
            "python": PYTHON,
            "pip_packages": list(PACKAGES),
            "install": "python -m pip install -q --no-deps --no-build-isolation -e . || "
            "python -m pip install -q --no-deps -e .",
            "test_cmd": "pytest -rA -o addopts= -o filterwarnings= -p no:cacheprovider",
            "log_parser": "parse_log_pytest",
        },
    }
    parsed = parse_row(row, name)
    recipe = recipe_of(parsed)
    assert recipe is not None
    return {**row, "eval_script": eval_script(parsed, replace(recipe, install=()))}


def _tests(pair: Pair, version: str) -> Tree:
    tree = fetch(pair.package, version)
    return {path: data for path, data in tree.items() if under(path, pair.tests)}


def _judged(names: Sequence[str], run: Container[str]) -> list[str]:
    """Return the ids of files that run, whose ids the official parser reads whole."""
    return [
        name
        for name in names
        if name.partition("::")[0] in run and " " not in name and name.isprintable()
    ]
