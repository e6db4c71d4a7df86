"""Rows of SWE-bench's formats played as episodes and judged by swebench, in real containers.

The rows are made of release pairs, so they need a package index once and no image registry.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envs.core import SUBMIT
from envs.errors import TaskError
from envs.sandbox.pool import SandboxPool
from envs.swe.env import SWEEnv
from envs.swe.formats.images import have_image, interpreter
from envs.swe.formats.official import CHILD_HEAD, PINS, install_package
from envs.swe.formats.recipes import TABLE_PINS, eval_script, patched_files, recipe_of
from envs.swe.formats.rows import parse_row
from envs.swe.formats.tasks import is_rows, load_rows
from envs.swe.own_rows import row_of
from envs.swe.patches import unified
from envs.swe.releases import build, fetch, find_pair
from envs.tasks.loading import load
from envs.types import Task

pytestmark = pytest.mark.docker
PAIR = find_pair("xmltodict-0.14.1-0.14.2")


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(run_id="test-swe-rows") as pool:
        yield pool


@pytest.fixture(scope="module")
def row(pool: SandboxPool) -> dict[str, Any]:
    build(PAIR, pool, lambda what: None)
    return row_of(PAIR)


@pytest.fixture(scope="module")
def task(row: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Task:
    file = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    file.write_text(json.dumps(row) + "\n")
    (task,) = load(str(file))
    return task


@pytest.fixture(scope="module")
def env(pool: SandboxPool, task: Task) -> Iterator[SWEEnv]:
    env = SWEEnv([task], pool)
    yield env
    env.close()


def play(env: SWEEnv, task: Task, *commands: str) -> Any:
    env.reset(options={"task": task})
    for command in commands:
        env.step(command)
    return env.step(SUBMIT)[4]["verdict"]


def test_the_reference_patch_resolves_and_doing_nothing_does_not(env: SWEEnv, task: Task) -> None:
    solved = play(env, task, *env.oracle(task))
    assert (solved.reward, solved.detail, len(solved.passed)) == (1.0, "resolved", 34)
    assert play(env, task).detail == "the patch is empty"


def test_the_agent_starts_at_the_tree_without_history_or_network(env: SWEEnv, task: Task) -> None:
    """A fix that can be read from later commits, tags or the index is no work of the agent's."""
    env.reset(options={"task": task})
    seen = env.step("pwd; git rev-list --all | wc -l; git remote; git tag; which python")[0]
    place, commits, python = seen["output"].split()
    assert (place, python) == ("/testbed", "/opt/miniconda3/envs/testbed/bin/python")
    assert int(commits) <= 2
    assert (
        "0.14.1" in env.step("python -c 'import xmltodict as x; print(x.__version__)'")[0]["output"]
    )
    assert env.step("python -m pip download -q xmltodict==0.14.2")[0]["exit_code"] != 0


def test_commits_do_not_hide_a_change_and_side_files_reach_judging_as_a_patch_only(
    env: SWEEnv, task: Task
) -> None:
    committed = "git config user.email a@b; git config user.name a; git commit -qam mine"
    verdict = play(env, task, *env.oracle(task), committed)
    assert verdict.reward == 1.0
    away = "mv /opt/miniconda3/envs/testbed/bin/python /tmp; echo 'exit 0' > /eval.sh"
    assert play(env, task, *env.oracle(task), away).reward == 1.0


def test_a_patch_of_what_judges_it_earns_nothing(env: SWEEnv, task: Task, row: Any) -> None:
    (tests,) = patched_files(row["test_patch"])
    verdict = play(env, task, *env.oracle(task), f"echo '# mine' >> {tests}")
    assert (verdict.reward, verdict.detail) == (0.0, f"the patch changes what judges it: {tests}")


def test_a_source_that_cannot_run_is_the_agents_doing(env: SWEEnv, task: Task) -> None:
    """No usable output on the patch, usable output without it: a 0, no failure of the machine."""
    assert play(env, task, "echo 'import os; os._exit(3)' > xmltodict.py").reward == 0.0


def test_rows_without_image_or_recipe_are_refused_by_name(row: dict[str, Any]) -> None:
    bare = parse_row({k: v for k, v in row.items() if k not in ("install_config", "eval_script")})
    with pytest.raises(TaskError, match="nothing says how its tests run"):
        eval_script(bare, None)
    with pytest.raises(TaskError, match=r"no Python 2\.2 in .*: run pyenv install 2\.2"):
        interpreter("2.2")
    lost = replace(parse_row(row), repo="own/none", image="own/none:1", instance_id="own__none-1",
                   kind="swe-bench-5", install={})  # fmt: skip
    with pytest.raises(TaskError, match="neither here nor to be pulled, and no recipe"):
        have_image(lost)


def test_rows_are_told_from_task_files_and_split(tmp_path: Path, row: dict[str, Any]) -> None:
    """Evaluation rows must not be trained on; a file of both kinds of line is neither."""
    smith = {k: row[k] for k in ("repo", "patch", "FAIL_TO_PASS", "PASS_TO_PASS")}
    file = tmp_path / "rows.jsonl"
    lines = [{**smith, "instance_id": f"a__b-{n}", "image_name": "i"} for n in range(5)]
    file.write_text("\n".join(json.dumps(line) for line in lines))
    assert is_rows(file)
    assert [task.split for task in load_rows(file)] == [*["train"] * 4, "heldout"]
    bench = {k: v for k, v in row.items() if k not in ("install_config", "split")}
    file.write_text(json.dumps(bench))
    assert [task.split for task in load_rows(file)] == ["heldout"]
    file.write_text(json.dumps({**bench, "split": "test"}))
    with pytest.raises(TaskError, match="split='test': choose train or heldout"):
        load_rows(file)
    file.write_text(json.dumps({"id": "swe/x/1"}))
    assert not is_rows(file)


def test_old_rows_are_looked_up_in_the_official_table() -> None:
    install_package(TABLE_PINS)
    tests = "tests/test_blueprints.py"
    known = {"instance_id": "pallets__flask-5014", "repo": "pallets/flask", "version": "2.3",
             "base_commit": "c" * 40, "patch": "p", "problem_statement": "s",
             "FAIL_TO_PASS": ["tests/test_blueprints.py::test_empty_name_not_allowed"],
             "PASS_TO_PASS": [], "test_patch": f"diff --git a/{tests} b/{tests}\n"}  # fmt: skip
    row = parse_row(known)
    recipe = recipe_of(row)
    assert recipe is not None
    assert (recipe.python, recipe.log_parser) == ("3.11", "parse_log_pytest")
    assert "Werkzeug==2.3.7" in recipe.packages
    assert recipe.requirements[-1] == "requirements.txt" and len(recipe.requirements) > 1
    script = eval_script(row, recipe).splitlines()
    assert "pytest -rA tests/test_blueprints.py" in script
    assert f"git checkout {'c' * 40} tests/test_blueprints.py" in script
    assert recipe_of(parse_row({**known, "repo": "no/body"})) is None


# ------------------------------------------------------------- the official harness beside ours

OFFICIAL = f"""{CHILD_HEAD}
import docker
sys.modules["swebench.harness.modal_eval"].run_instances_modal = None
from swebench.harness.run_evaluation import run_instance
from swebench.harness.utils import make_test_spec
asked = json.load(sys.stdin)
found = run_instance(make_test_spec(asked["row"]), asked["prediction"], docker.from_env(),
                     asked["run"], 300)
resolved = bool(found) and found[1][found[0]]["resolved"]
print("VERDICT", json.dumps(resolved))
"""
WRONG = {
    "a comment": ("xmltodict.py", "", "# nothing\n"),
    "no Python": ("xmltodict.py", "", "def (\n"),
    "ends the process": ("xmltodict.py", "", "import os; os._exit(0)\n"),
    "ends politely": ("xmltodict.py", "", "raise SystemExit(0)\n"),
    "fails at import": ("xmltodict.py", "", "raise ImportError('x')\n"),
    "prints marks": ("xmltodict.py", "", "print('PASSED tests/test_xmltodict.py::x')\n"),
    "skips": ("xmltodict.py", "", "import pytest; pytest.skip('x', allow_module_level=True)\n"),
    "half a fix": ("xmltodict.py", "data = data.strip() or None", "data = data.strip()"),
    "strips nothing": ("xmltodict.py", "data.strip()", "data"),
    "breaks another": ("xmltodict.py", "def unparse(", "def unparsed("),
    "loses attributes": ("xmltodict.py", "xml_attribs=True", "xml_attribs=False"),
    "skips from beside": ("conftest.py", "", "collect_ignore_glob = ['*']\n"),
    "drops failures": (
        "conftest.py", "",
        "def pytest_collection_modifyitems(items):\n"
        "    items[:] = [i for i in items if 'whitespace' not in i.name]\n",
    ),
}  # fmt: skip


def official(row: dict[str, Any], patch: str, folder: Path, run: str) -> bool:
    """Return whether swebench's own runner, in its own container, resolves the instance."""
    prediction = {"instance_id": row["instance_id"], "model_name_or_path": "m",
                  "model_patch": patch}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", OFFICIAL],
        input=json.dumps({"row": row, "prediction": prediction, "run": run}),
        env={**os.environ, "PYTHONPATH": str(install_package(PINS))},
        cwd=folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    said = [line for line in done.stdout.splitlines() if line.startswith("VERDICT ")]
    assert len(said) == 1, done.stderr[-2000:]
    return bool(json.loads(said[0].removeprefix("VERDICT ")))


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["the reference", *WRONG])
def test_patches_get_the_verdict_of_the_official_runner(
    env: SWEEnv, task: Task, row: dict[str, Any], tmp_path: Path, name: str
) -> None:
    """Ours and the official runner, each in its own container, on the same image and patch."""
    patch = row["patch"]
    if name in WRONG:
        path, old, new = WRONG[name]
        tree = fetch(PAIR.package, PAIR.buggy)
        before = tree.get(path, b"").decode()
        assert old in before
        after = before.replace(old, new) if old else new + before
        given = {path: before.encode()} if path in tree else {}
        patch = unified(given, {path: after.encode()})
    ours = play(env, task, f"git apply <<'END'\n{patch}\nEND").reward == 1.0
    assert ours == (name == "the reference")
    assert ours == official(row, patch, tmp_path, f"parity-{os.getpid()}-{abs(hash(name))}")
