"""Looks for further pairs of neighbouring releases that make a task, for ``releases.json``.

``python -m envs.swe search PACKAGE… [out=FILE]`` asks the index for a package's versions, guesses
the layout of its source distribution, builds the pair as ``releases.build`` does (both sources,
all tests, twice) and keeps a pair whose fix is a bug fix by its size: at most ``MOST_TO_MEND``
tests tell the releases apart, at least ``LEAST_TO_KEEP`` hold on both, and the fix changes at most
``MOST_LINES`` lines of Python. Every pair that was tried gets one line in ``FILE`` (JSON lines), so
that a search goes on where it stopped; the rows of kept pairs are what ``releases.json`` takes.

Left out: reading changelogs for what is a fix; packages whose tests need more than the image holds.
"""

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from envs.errors import EnvError, TaskError
from envs.sandbox.protocol import SandboxProvider
from envs.swe.releases import Pair, Progress, build, fetch, gold_patch
from envs.swe.trees import Tree, source_files, under

log = logging.getLogger(__name__)

MOST_TO_MEND = 15
LEAST_TO_KEEP = 5
MOST_LINES = 120
PAIRS_PER_PACKAGE = 5
_VERSION = re.compile(r"\d+(?:\.\d+){1,3}")
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")


def versions(package: str) -> list[tuple[int, ...]]:
    """Return a package's final versions, newest first. Raises ``TaskError`` without an answer."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions"]
    done = subprocess.run([*command, package], capture_output=True, text=True, timeout=120,
                          check=False)  # fmt: skip
    listed = re.search(r"Available versions: (.*)", done.stdout)
    if done.returncode != 0 or listed is None:
        raise TaskError(f"no versions of {package}: {done.stderr.strip()[-200:]}")
    names = [name.strip() for name in listed[1].split(",")]
    plain = [name for name in names if _VERSION.fullmatch(name)]
    return [tuple(int(part) for part in name.split(".")) for name in plain]


def neighbours(found: Sequence[tuple[int, ...]]) -> list[tuple[str, str]]:
    """Return (older, newer) of versions that differ in the last of three numbers, newest first.

    Example:
        >>> neighbours([(1, 2, 1), (1, 2, 0), (1, 1, 0)])
        [('1.2.0', '1.2.1')]
    """
    pairs = []
    for newer, older in pairwise(found):
        if len(newer) == len(older) >= 3 and newer[:-1] == older[:-1]:
            pairs.append((".".join(map(str, older)), ".".join(map(str, newer))))
    return pairs


def layout(package: str, tree: Tree) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return import root, sources and tests of a source distribution.

    Raises:
        TaskError: no package or module of that name, or no tests.
    """
    names = {package.replace("-", "_").lower(), package.replace("-", "").lower()}
    names |= {name.removeprefix("python_") for name in names}
    for root in ("src", "."):
        head = "" if root == "." else f"{root}/"
        for path in sorted(tree, key=len):
            rest = path.removeprefix(head) if path.startswith(head) else ""
            name, slash, inside = rest.partition("/")
            if (slash and inside == "__init__.py" and name.lower() in names) or (
                not slash and name.endswith(".py") and name[:-3].lower() in names
            ):
                return root, (head + name,), _tests(tree, head + name)
    raise TaskError(f"{package}: no package of one of the names {', '.join(sorted(names))}")


def _tests(tree: Tree, source: str) -> tuple[str, ...]:
    for place in ("tests", "test", f"{source}/tests", f"{source}/test"):
        if any(path.startswith(f"{place}/") and _TEST_FILE.search(path) for path in tree):
            return (place,)
    loose = tuple(sorted(p for p in tree if "/" not in p and _TEST_FILE.search(p)))
    if loose:
        return loose
    raise TaskError("the source distribution holds no tests")


def _hopeless(pair: Pair, old: Tree, new: Tree) -> str:
    """Return why a pair need not be built: told by the files alone, in no time."""
    lines = _changed(gold_patch(*(source_files(t, pair.sources, pair.tests) for t in (old, new))))
    if not 0 < lines <= MOST_LINES:
        return f"the fix is {lines} lines"
    tests = [{p: d for p, d in tree.items() if under(p, pair.tests)} for tree in (old, new)]
    return "" if tests[0] != tests[1] else "the tests are the same"


def _changed(patch: str) -> int:
    return sum(1 for line in patch.splitlines() if re.match(r"[-+](?![-+])", line))


def judge(pair: Pair) -> tuple[str, dict[str, Any]]:
    """Return why a built pair is no task for the table, or "", and its numbers."""
    facts = json.loads((pair.folder / "task.json").read_text("utf-8"))
    lines = _changed((pair.folder / "gold.patch").read_text("utf-8"))
    numbers = {
        "lines": lines,
        "fail_to_pass": len(facts["fail_to_pass"]),
        "pass_to_pass": len(facts["pass_to_pass"]),
    }
    if not 0 < lines <= MOST_LINES:
        return f"the fix is {lines} lines", numbers
    if numbers["fail_to_pass"] > MOST_TO_MEND:
        return f"{numbers['fail_to_pass']} tests to mend", numbers
    if numbers["pass_to_pass"] < LEAST_TO_KEEP:
        return f"{numbers['pass_to_pass']} tests to keep", numbers
    return "", numbers


def search(
    packages: Sequence[str], sandboxes: SandboxProvider, out: Path, say: Progress
) -> Iterator[Pair]:
    """Try the pairs of some packages and yield those kept; what was tried before is left out."""
    rows = out.read_text("utf-8").splitlines() if out.exists() else []
    tried = {json.loads(row)["name"] for row in rows}
    for package in packages:
        try:
            found = neighbours(versions(package))[:PAIRS_PER_PACKAGE]
        except (TaskError, subprocess.TimeoutExpired) as error:
            say(f"{package}: {error}")
            continue
        for older, newer in found:
            name = f"{package}-{older}-{newer}"
            if name in tried:
                continue
            row = _try(package, older, newer, sandboxes)
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"name": name, **row}) + "\n")
            say(f"{name}: {row.get('reason') or 'kept'} {row.get('numbers', '')}")
            if "pair" in row and not row["reason"]:
                yield Pair(**row["pair"])


def _try(package: str, older: str, newer: str, sandboxes: SandboxProvider) -> dict[str, Any]:
    try:
        root, sources, tests = layout(package, fetch(package, newer))
        pair = Pair(package, older, newer, root, sources, tests)
        if why := _hopeless(pair, fetch(package, older), fetch(package, newer)):
            return {"reason": why}
        build(pair, sandboxes, lambda what: log.debug("%s", what))
        reason, numbers = judge(pair)
    except (EnvError, OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"reason": " ".join(str(error).split())[:300]}
    return {"reason": reason, "numbers": numbers, "pair": asdict(pair)}
