"""Makes procedural bugs of pinned packages and keeps those that some test finds.

``python -m envs.swe mutate PACKAGE[@VERSION]… [seed=0] [most=20] [workers=2] [out=FILE]`` tries
the bugs of ``mutations`` in an order that depends on the seed alone. Each runs against the tests
that run its function; one that makes a few of them fail (``MOST_FAIL``) runs a second time, as a
task is judged, and is kept when the same ones fail. Every bug that was tried gets one line in
``FILE`` (JSON lines), so that the search goes on where it stopped. ``keep FILE`` makes the table
of it.

How hard a kept one is: ``fails``, the tests it breaks, and ``rank``, how many functions look at
least as suspicious as the one that holds it, going by which tests run what (Ochiai's coefficient,
Abreu et al. 2006), out of ``functions`` that the failing tests run.
"""

import base64
import hashlib
import itertools
import json
import math
import secrets
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from envs.errors import EnvError, TaskError
from envs.sandbox.protocol import Sandbox, SandboxProvider, SandboxSpec
from envs.swe.candidates import versions
from envs.swe.mutations import Mutation, chosen_order, differs, mutations
from envs.swe.packages import Baseline, Package, build_package, load_baseline, pin
from envs.swe.pytest_grading import PYTHON, SuiteResult, run_suite
from envs.swe.releases import Progress
from envs.swe.trees import pack

MOST_FAIL = 20
MOST_FUNCTIONS_FAIL = 10
MOST_PER_FUNCTION = 2
MOST_COVERING = 120  # tests that run a function: where all do, every bug shows everywhere
TRIES_PER_BUG = 6
BATCH = 8
SPEC = SandboxSpec(image="swe", disk_bytes=128 << 20)
_LEAST_TIMEOUT_S = 8.0
_NOT_SOURCE = ("__main__.py", "_version.py", "version.py")

Row = dict[str, Any]


class Log:
    """The file of a search: what was tried, one JSON line each. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._rows = read_log(path) if path.exists() else []

    def rows(self, package: Package) -> list[Row]:
        """Return what was tried of a package."""
        with self._lock:
            return [row for row in self._rows if row["package"] == package.name]

    def add(self, row: Row) -> None:
        """Write a row down."""
        with self._lock:
            self._rows.append(row)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def read_log(path: Path) -> list[Row]:
    """Return the rows of a search's file. Raises ``TaskError``."""
    try:
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise TaskError(f"{path} is no file of a search: {error}") from error


def search_mutants(
    wanted: Sequence[str], sandboxes: SandboxProvider, log: Log, say: Progress, *,
    seed: int = 0, most: int = 20, workers: int = 2,
) -> int:  # fmt: skip
    """Find up to ``most`` bugs in each package, and return how many there are now.

    Args:
        wanted: ``name`` for the newest final release, or ``name@version``.
        workers: packages worked on side by side, each in a sandbox of its own.
    """

    def one(text: str) -> int:
        sandbox = sandboxes.acquire(SPEC)
        try:
            package = pinned(text)
            build_package(package, sandbox, lambda what: say(f"{text}: {what}"))
            return _search(package, sandbox, log, say, seed, most)
        except EnvError as error:
            say(f"{text}: left out: {' '.join(str(error).split())[:200]}")
            return 0
        finally:
            sandboxes.release(sandbox)

    with ThreadPoolExecutor(max_workers=workers) as threads:
        return sum(threads.map(one, wanted))


def pinned(text: str) -> Package:
    """Return the pin of ``name`` or ``name@version``. Raises ``TaskError``."""
    name, _, version = text.partition("@")
    if not version:
        version = ".".join(map(str, versions(name)[0]))
    return pin(name, version)


def _search(
    package: Package, sandbox: Sandbox, log: Log, say: Progress, seed: int, most: int
) -> int:
    baseline = load_baseline(package)
    rows = log.rows(package)
    tried = {row["name"] for row in rows}
    kept = [row for row in rows if not row.get("reason")]
    waiting = itertools.islice(candidates(baseline, seed), TRIES_PER_BUG * most)
    while len(kept) < most and (batch := list(itertools.islice(waiting, BATCH))):
        per_function = Counter((row["path"], row["function"]) for row in kept)
        new = [
            (path, bug)
            for path, bug in batch
            if name_of(path, bug) not in tried
            and per_function[path, bug.function] < MOST_PER_FUNCTION
        ]
        for (path, bug), found in zip(new, screen(baseline, new, sandbox), strict=True):
            if len(kept) >= most:
                break
            if not found.get("reason"):
                found = confirm(baseline, path, bug, found["fails"], sandbox)
            row = {"package": package.name, "pin": asdict(package), "seed": seed,
                   "name": name_of(path, bug), **found}  # fmt: skip
            log.add(row)
            if not row.get("reason"):
                kept.append(row)
                say(f"{package.name}: {len(kept)} of {most}, {bug.kind}: {len(row['fails'])} fail")
    return len(kept)


def candidates(baseline: Baseline, seed: int) -> Iterator[tuple[str, Mutation]]:
    """Yield the bugs that some test may find, in the order of the seed."""
    by_file = {
        path: [
            bug
            for bug in mutations(data)
            if 0 < len(baseline.covering(path, bug.lines)) <= MOST_COVERING
        ]
        for path, data in baseline.sources.items()
        if path.endswith(".py") and not path.endswith(_NOT_SOURCE)
    }
    for path, bug in chosen_order(by_file, seed):
        if differs(baseline.sources[path], bug.apply(baseline.sources[path])):
            yield path, bug


def name_of(path: str, bug: Mutation) -> str:
    """Return a bug's short stable name, unique within its package."""
    return hashlib.sha256(f"{path}:{bug.at}:{bug.old}:{bug.new}".encode()).hexdigest()[:8]


def screen(baseline: Baseline, bugs: Sequence[tuple[str, Mutation]], sandbox: Sandbox) -> list[Row]:
    """Run each bug once against the tests that run its function: ``fails``, or ``reason``.

    Raises:
        EnvError: the sandbox failed.
    """
    tag = secrets.token_hex(8)
    timeout_s = _LEAST_TIMEOUT_S + 3 * baseline.suite_s
    request = {
        "tag": tag,
        "tree": base64.b64encode(pack({**baseline.suite.support, **baseline.sources})).decode(),
        "import_root": baseline.suite.import_root,
        "plugins": baseline.suite.plugins(),
        "timeout_s": timeout_s,
        "bugs": [
            {"path": path, "at": bug.at, "old": bug.old, "new": bug.new,
             "tests": sorted(baseline.covering(path, bug.lines))}
            for path, bug in bugs
        ],
    }  # fmt: skip
    done = sandbox.exec(
        [PYTHON, "-I", "-B", "-c", Path(__file__).with_name("screen_runner.py").read_text("utf-8")],
        stdin=json.dumps(request).encode(), timeout_s=(timeout_s + 5.0) * len(bugs) + 30.0,
        cwd="/", max_output_bytes=8 << 20,
    )  # fmt: skip
    answers = [
        json.loads(line.removeprefix(f"{tag} "))
        for line in done.output.splitlines()
        if line.startswith(f"{tag} ")
    ]
    lost = {"problem": f"the runner ended: {done.exit_code}, {done.output[-120:]}"}
    answers += [lost] * (len(bugs) - len(answers))
    return [_screened(answer) for answer in answers]


def _screened(answer: Mapping[str, Any]) -> Row:
    if answer.get("problem"):
        return {"reason": f"no outcomes: {answer['problem']}"}
    fails = sorted(answer["failed"])
    num_functions = len({name.partition("[")[0] for name in fails})
    if not 0 < len(fails) <= MOST_FAIL or num_functions > MOST_FUNCTIONS_FAIL:
        return {"reason": f"{len(fails)} tests fail"}
    return {"fails": fails}


def confirm(
    baseline: Baseline, path: str, bug: Mutation, fails: Sequence[str], sandbox: Sandbox
) -> Row:
    """Run one bug as it will be judged; returns its row, with ``reason`` when it is not kept.

    Tests that do not run the function are left out: the bug is nothing to them.

    Raises:
        EnvError: the sandbox or the runner failed.
    """
    changed = bug.apply(baseline.sources[path])
    covering = sorted(baseline.covering(path, bug.lines))
    again = run_suite(
        sandbox, baseline.suite, {**baseline.sources, path: changed},
        timeout_s=_LEAST_TIMEOUT_S + 3 * baseline.suite_s, select=covering,
    )  # fmt: skip
    if again.problem or _failing(again, covering) != fails:
        return {"reason": f"judged, it tells another story: {again.problem[-120:]}"}
    rank, functions = suspicion(baseline, path, bug, frozenset(fails))
    shown = min(fails, key=lambda name: (len(again.messages.get(name, "")) > 160, len(name), name))
    return {
        "path": path, "kind": bug.kind, "at": bug.at, "old": bug.old, "new": bug.new,
        "function": bug.function, "sha256": hashlib.sha256(changed).hexdigest()[:16],
        "fails": fails, "shown": fails.index(shown),
        "message": " ".join(again.messages.get(shown, "").split())[:160],
        "rank": rank, "functions": functions,
    }  # fmt: skip


def _failing(result: SuiteResult, names: Sequence[str]) -> list[str]:
    return sorted(name for name in names if not result.passed(name))


def suspicion(
    baseline: Baseline, path: str, bug: Mutation, fails: frozenset[str]
) -> tuple[int, int]:
    """Return the rank of the function with the bug, and how many functions the tests run."""
    ran: dict[tuple[str, tuple[int, int]], frozenset[str]] = {}
    for file, data in baseline.sources.items():
        if file.endswith(".py") and baseline.ran.get(file):
            for lines in {found.lines for found in mutations(data)}:
                ran[file, lines] = baseline.covering(file, lines)
    scores = {place: _ochiai(tests, fails) for place, tests in ran.items()}
    mine = scores[path, bug.lines]
    return sum(score >= mine for score in scores.values()), sum(s > 0 for s in scores.values())


def _ochiai(tests: frozenset[str], fails: frozenset[str]) -> float:
    failed = len(tests & fails)
    return failed / math.sqrt(len(fails) * len(tests)) if tests else 0.0


def grouped(names: Sequence[str]) -> dict[str, list[str]]:
    """Return node ids by their file; ``[f"{f}::{n}" for f, ns in … for n in ns]`` undoes it."""
    files: dict[str, list[str]] = {}
    for name in names:
        file, _, inside = name.partition("::")
        files.setdefault(file, []).append(inside)
    return files


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return kept rows of a log as the text of ``mutants.json``: one line per package and bug.

    Raises:
        TaskError: one package in two versions.
    """
    pins: dict[str, Mapping[str, Any]] = {}
    lines = []
    kept_rows = [row for row in rows if not row.get("reason")]
    for row in sorted(kept_rows, key=lambda r: (r["package"], r["path"], r["at"], r["name"])):
        if pins.setdefault(row["package"], row["pin"]) != row["pin"]:
            raise TaskError(f"{row['package']} is there in two versions")
        kept = {key: value for key, value in row.items() if key not in ("pin", "seed", "function")}
        kept["fails"] = grouped(row["fails"])
        lines.append(json.dumps(kept, separators=(",", ":")))
    packages = ",\n".join(json.dumps(pins[name], separators=(",", ":")) for name in sorted(pins))
    return f'{{"packages": [\n{packages}\n],\n"mutants": [\n' + ",\n".join(lines) + "\n]}\n"
