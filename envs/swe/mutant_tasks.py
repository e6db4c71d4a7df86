"""Tasks from the procedural bugs of ``mutants.json``: a package, one slip in it, its own tests.

``python -m envs.swe mutants [PACKAGE…] out=TASKS.jsonl`` builds what the table's packages need and
writes the task set, for ``tasks.path=TASKS.jsonl``. The table holds names, versions, digests, the
slip and the tests that find it; the sources come from the index.

Splits are disjoint by package, also from the release tasks: a package of ``releases.json`` is held
out, and so is one other in four. What is said of a bug is one failing test and how it fails.
"""

import ast
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from envs.errors import TaskError
from envs.sandbox.protocol import Sandbox
from envs.swe.mutations import Mutation
from envs.swe.packages import Package, build_package
from envs.swe.release_tasks import LIMITS, read_blob
from envs.swe.releases import Progress, load_pairs
from envs.swe.trees import Tree, unpack
from envs.types import Split, Task

TABLE = Path(__file__).with_name("mutants.json")
HELDOUT_SHARE = 4  # one package in so many
_MOST_TEST_LINES = 30
_EASY_RANK = 3
_MEDIUM_RANK = 15


@cache
def load_table(path: Path = TABLE) -> tuple[tuple[Package, tuple[Mapping[str, Any], ...]], ...]:
    """Return each package of the table with its bugs."""
    stored = json.loads(path.read_text("utf-8"))
    bugs: dict[str, list[Mapping[str, Any]]] = {}
    for row in stored["mutants"]:
        fails = [f"{file}::{name}" for file, names in row["fails"].items() for name in names]
        bugs.setdefault(row["package"], []).append({**row, "fails": fails})
    return tuple(
        (package, tuple(bugs[package.name])) for package in map(_package, stored["packages"])
    )


def _package(row: Mapping[str, Any]) -> Package:
    return Package(**{**row, "sources": tuple(row["sources"]), "tests": tuple(row["tests"])})


def split_of(package: str) -> Split:
    """Return the side all bugs of a package are on."""
    if package in {pair.package for pair in load_pairs()}:
        return "heldout"
    number = int(hashlib.sha256(package.encode()).hexdigest()[:8], 16)
    return "heldout" if number % HELDOUT_SHARE == 0 else "train"


def mutant_tasks(
    packages: Sequence[str], sandbox: Sandbox, say: Progress, table: Path = TABLE
) -> list[Task]:
    """Build packages of the table and return their tasks; all packages when none are named.

    Raises:
        TaskError: a package that is not in the table, or is no longer as it was.
        EnvError: the sandbox failed.
    """
    known = {package.name: (package, rows) for package, rows in load_table(table)}
    if unknown := sorted(set(packages) - set(known)):
        raise TaskError(f"no bugs of {', '.join(unknown)}: choose among {', '.join(known)}")
    tasks = []
    for name in packages or known:
        package, rows = known[name]
        build_package(package, sandbox, lambda what, name=name: say(f"{name}: {what}"))  # type: ignore[misc]
        facts = json.loads((package.folder / "task.json").read_text("utf-8"))
        blobs = {
            key: {"path": str(package.folder / file), "sha256": facts["sha256"][file]}
            for key, file in (("source", "source.tar.gz"), ("tests_tar", "tests.tar.gz"))
        }
        passing = frozenset(facts["pass_to_pass"])
        tasks += [_task(package, row, blobs, passing) for row in rows]
    return tasks


def _task(
    package: Package,
    row: Mapping[str, Any],
    blobs: Mapping[str, Mapping[str, str]],
    passing: frozenset[str],
) -> Task:
    where = f"{package.name} {package.version}, bug {row['name']}"
    if lost := sorted(set(row["fails"]) - passing):
        raise TaskError(f"{where}: {lost[0]} does not pass here without the bug")
    mutation = {key: row[key] for key in ("path", "kind", "at", "old", "new")}
    given = spoilt(unpack(read_blob(blobs["source"])), mutation)
    if hashlib.sha256(given[row["path"]]).hexdigest()[:16] != row["sha256"]:
        raise TaskError(f"{where}: {row['path']} is another file than the table's")
    split = split_of(package.name)
    tags = ["source:mutant", f"edit:{row['kind']}", f"level:{level_of(row)}"]
    if split == "heldout":
        tags.append("heldout:template")
    return Task(
        id=f"swe/{package.name}/{package.version}-{row['name']}",
        env="swe",
        family=f"mutant-{package.name}",
        split=split,
        instruction=statement(package, row, unpack_tests(str(blobs["tests_tar"]["path"]))),
        image="swe",
        limits=LIMITS,
        data={
            "kind": "mutant",
            "folder": f"/workspace/{package.name}",
            "import_root": package.import_root,
            "sources": list(package.sources),
            "tests": list(package.tests),
            "fail_to_pass": list(row["fails"]),
            "facts": str(package.folder / "task.json"),
            "mutation": mutation,
            **blobs,
        },
        tags=tuple(tags),
    )


def level_of(row: Mapping[str, Any]) -> str:
    """Return a level by how many functions look at least as suspicious as the one with the bug."""
    if row["rank"] <= _EASY_RANK:
        return "easy"
    return "medium" if row["rank"] <= _MEDIUM_RANK else "hard"


def spoilt(tree: Tree, mutation: Mapping[str, Any]) -> Tree:
    """Return a tree with the bug in it. Raises ``TaskError`` when it does not fit."""
    path = mutation["path"]
    bug = Mutation(mutation["kind"], mutation["at"], mutation["old"], mutation["new"])
    try:
        return {**tree, path: bug.apply(tree[path])}
    except (KeyError, ValueError) as error:
        raise TaskError(f"the bug does not fit {path}: {error}") from error


def statement(package: Package, row: Mapping[str, Any], tests: Mapping[str, bytes]) -> str:
    """Write the problem as an issue: a failing test, and how it fails. It names no place."""
    name = row["fails"][row["shown"]]
    path, _, inside = name.partition("::")
    source = _test_source(tests.get(path, b""), inside.partition("[")[0])
    others = len(row["fails"]) - 1
    parts = [
        f"The source of {package.name} {package.version} is in this folder, with its tests. "
        f"Something in it is broken: `{name}` fails"
        + (f", and {others} other tests fail too." if others else ".")
    ]
    if row["message"]:
        parts.append(f"It says:\n\n    {row['message']}")
    if source:
        parts.append(f"The test:\n\n```python\n{source}\n```")
    parts.append("Find the cause in the package's source and mend it. All tests judge the result.")
    return "\n\n".join(parts)


def _test_source(data: bytes, qualified: str) -> str:
    """Return the text of a test function, or "" when it is not found or long."""
    try:
        body: Sequence[ast.stmt] = ast.parse(data).body
    except (SyntaxError, ValueError):
        return ""
    node: ast.stmt | None = None
    for part in qualified.split("::"):
        named = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        node = next((n for n in body if isinstance(n, named) and n.name == part), None)
        if node is None:
            return ""
        body = node.body if isinstance(node, named) else ()
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.end_lineno is None:
        return ""
    first = min([node.lineno, *(line.lineno for line in node.decorator_list)])
    lines = data.decode("utf-8").splitlines()[first - 1 : node.end_lineno]
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines) if len(lines) <= _MOST_TEST_LINES else ""


@lru_cache(maxsize=4)
def unpack_tests(path: str) -> Tree:
    """Return what surrounds a package's source."""
    return unpack(Path(path).read_bytes())
