"""Procedural bugs of a package, from its distribution to a verdict, in real sandboxes."""

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from envs.core import SUBMIT
from envs.errors import TaskError
from envs.sandbox.pool import SandboxPool
from envs.swe.env import SWEEnv
from envs.swe.mutant_tasks import mutant_tasks
from envs.swe.mutants import SPEC, Log, read_log, search_mutants, table
from envs.swe.packages import load_baseline, pin

pytestmark = pytest.mark.docker

SHELF = """
def fits(widths, room):
    total = 0
    for width in widths:
        total += width
    return total <= room


def label(name, number):
    if not name:
        raise ValueError("no name")
    return name + "-" + str(number)


def unused(n):
    return n + 1
"""
TESTS = """
import pytest
from shelf import fits, label


@pytest.mark.parametrize("room", range(20))
def test_fits(room):
    assert fits([3, 4], room) == (room > 6)


def test_label():
    assert label("a", 1) == "a-1"


def test_no_label():
    with pytest.raises(ValueError):
        label("", 1)
"""


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package's distribution in a cache of the test's own, as pip would have left it."""
    monkeypatch.setenv("CLAWGYM_CACHE", str(tmp_path))
    place = tmp_path / "swe" / "sdists" / "shelf-1.0"
    place.mkdir(parents=True)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in {"shelf.py": SHELF, "tests/test_shelf.py": TESTS, "PKG-INFO": ""}.items():
            entry = tarfile.TarInfo(f"shelf-1.0/{name}")
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    (place / "shelf-1.0.tar.gz").write_bytes(out.getvalue())


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(run_id="test-swe-mutants") as pool:
        yield pool


def test_bugs_of_a_package_from_its_distribution_to_a_verdict(
    distribution: None, pool: SandboxPool, tmp_path: Path
) -> None:
    """What is kept fails a test, is solved by its fix alone and says where it is to nobody."""
    log = tmp_path / "log.jsonl"
    said: list[str] = []
    found = search_mutants(["shelf@1.0"], pool, Log(log), said.append, most=3, workers=1)
    rows = read_log(log)
    kept = [row for row in rows if not row.get("reason")]
    assert found == len(kept) == 3
    assert not any(row.get("function") == "unused" for row in rows)
    again = search_mutants(["shelf@1.0"], pool, Log(log), said.append, most=3, workers=1)
    assert (again, read_log(log)) == (3, rows)

    made = tmp_path / "table.json"
    made.write_text(table(rows))
    sandbox = pool.acquire(SPEC)
    tasks = mutant_tasks(["shelf"], sandbox, said.append, made)
    pool.release(sandbox)
    assert len({task.id for task in tasks}) == 3
    env = SWEEnv(tasks, pool)
    for task, row in zip(tasks, json.loads(made.read_text())["mutants"], strict=True):
        assert f" {row['path']}" not in task.instruction
        assert row["old"] not in task.instruction.partition("The test:")[0]
        for commands, reward in (((), 0.0), (env.oracle(task), 1.0)):
            env.reset(options={"task": task})
            for command in commands:
                env.step(command)
            assert env.step(SUBMIT)[4]["verdict"].reward == reward
    env.reset(options={"task": tasks[0]})
    assert env.patch() == ""
    env.step(env.oracle(tasks[0])[0])
    assert env.patch().startswith("diff --git a/shelf.py b/shelf.py\n")
    env.close()

    with pytest.raises(TaskError, match="no bugs of other: choose among shelf"):
        mutant_tasks(["other"], sandbox, said.append, made)
    other = tmp_path / "other.json"
    other.write_text(made.read_text().replace('"sha256":"', '"sha256":"0'))
    with pytest.raises(TaskError, match=r"another (distribution|file)"):
        mutant_tasks(["shelf"], sandbox, said.append, other)


def test_the_map_says_which_test_ran_what(distribution: None, pool: SandboxPool) -> None:
    """A map that misses a test makes a bug look harmless; one that adds some costs time only."""
    said: list[str] = []
    search_mutants(["shelf@1.0"], pool, Log(Path("/dev/null")), said.append, most=1, workers=1)
    baseline = load_baseline(pin("shelf", "1.0"))
    lines = SHELF.splitlines()
    raising = lines.index('        raise ValueError("no name")') + 1
    assert baseline.covering("shelf.py", (raising, raising)) == {
        "tests/test_shelf.py::test_no_label"
    }
    loop = lines.index("        total += width") + 1
    assert len(baseline.covering("shelf.py", (loop, loop))) == 20
    assert baseline.covering("shelf.py", (len(lines), len(lines))) == frozenset()
    assert len(baseline.passing) == 22


def test_another_distribution_under_the_same_version_is_refused(
    distribution: None, pool: SandboxPool
) -> None:
    """An index that serves other files under a name must not make other tasks of the same ids."""
    from envs.swe.packages import build_package

    sandbox = pool.acquire(SPEC)
    with pytest.raises(TaskError, match="another distribution"):
        build_package(replace(pin("shelf", "1.0"), sha256="0" * 16), sandbox, lambda _: None)
    pool.release(sandbox)
