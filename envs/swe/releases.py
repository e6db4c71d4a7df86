"""Real bugs from neighbouring releases: the older source against the newer release's tests.

``python -m envs.swe build [PAIR…]`` fetches both source distributions with pip, runs the newer
tests on both sources in the sandbox, twice each, and keeps what is stable: tests that fail on the
older source only, and tests that pass on both. What is built lies in the cache under a name that
hashes the row of the table, and is moved into place whole. A row of ``releases.json`` is all a new
pair needs.
"""

import difflib
import hashlib
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from envs.errors import EnvError, TaskError
from envs.sandbox.protocol import Sandbox, SandboxProvider, SandboxSpec
from envs.swe.changelog import changelog_entry, statement
from envs.swe.pytest_grading import Suite, SuiteResult, run_suite
from envs.swe.trees import Tree, pack, source_files, under, unpack

log = logging.getLogger(__name__)

NUM_AT_SETUP = 10  # built before a run; its evaluation plays all that are built
_FORMAT = 1
_SUITE_TIMEOUT_S = 240.0
_NUM_RUNS = 2
_BACK_ENDS = (
    "flit-core", "hatch-vcs", "hatchling", "poetry-core", "setuptools", "setuptools-scm", "wheel",
)  # fmt: skip
_LEFT_OUT = ("docs", ".github", ".idea", "examples")
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Pair:
    """Two neighbouring releases of a package; one row of ``releases.json``.

    Attributes:
        package: name of the distribution.
        buggy, fixed: versions.
        import_root: folder the package is imported from.
        sources: files and folders that an agent may mend.
        tests: files and folders of the tests; may lie inside ``sources``.
    """

    package: str
    buggy: str
    fixed: str
    import_root: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        """As in ``parse-1.20.0-1.20.1``."""
        return f"{self.package}-{self.buggy}-{self.fixed}"

    @property
    def folder(self) -> Path:
        """Where what is built of this pair lies."""
        row = json.dumps([_FORMAT, asdict(self)], sort_keys=True)
        return cache_folder() / f"{self.name}-{hashlib.sha256(row.encode()).hexdigest()[:8]}"


def cache_folder() -> Path:
    """Return ``swe`` in ``CLAWGYM_CACHE``, else in ``~/.cache/clawgym``."""
    root = os.environ.get("CLAWGYM_CACHE") or Path.home() / ".cache" / "clawgym"
    return Path(root) / "swe"


def load_pairs() -> tuple[Pair, ...]:
    """Return the table's pairs."""
    rows = json.loads(Path(__file__).with_name("releases.json").read_text("utf-8"))
    return tuple(
        Pair(**{**row, "sources": tuple(row["sources"]), "tests": tuple(row["tests"])})
        for row in rows
    )


def find_pair(name: str) -> Pair:
    """Return the pair of a name. Raises ``TaskError`` naming those there are."""
    pairs = {pair.name: pair for pair in load_pairs()}
    if name not in pairs:
        raise TaskError(f"no pair {name!r}: choose among {', '.join(pairs)}")
    return pairs[name]


def build(pair: Pair, sandboxes: SandboxProvider, progress: Progress) -> Path:
    """Build a pair into the cache; one that is there already is left as it is.

    Raises:
        TaskError: a source distribution cannot be fetched, or the pair makes no task.
        EnvError: the sandbox failed.
    """
    if (pair.folder / "task.json").exists():
        progress("already built")
        return pair.folder
    progress("fetching")
    old, new = (fetch(pair.package, version) for version in (pair.buggy, pair.fixed))
    old_sources = source_files(old, pair.sources, pair.tests)
    new_sources = source_files(new, pair.sources, pair.tests)
    suite = Suite(_support(pair, new), pair.tests, pair.import_root)
    sandbox = sandboxes.acquire(SandboxSpec(image="swe", disk_bytes=128 << 20))
    try:
        before = stable(sandbox, suite, old_sources, lambda n: progress(f"older source, run {n}"))
        after = stable(sandbox, suite, new_sources, lambda n: progress(f"newer source, run {n}"))
    finally:
        sandboxes.release(sandbox)
    good = {name for name in after.outcomes if after.passed(name)}
    fail_to_pass = sorted(n for n in good if before.outcomes.get(n) in ("failure", "error"))
    pass_to_pass = sorted(name for name in good if before.passed(name))
    if not fail_to_pass or not pass_to_pass:
        raise TaskError(
            f"{pair.name}: {len(fail_to_pass)} tests tell the releases apart, {len(pass_to_pass)} "
            f"hold on both. {before.problem or after.problem}"
        )
    entry = changelog_entry(new, pair.fixed)
    failing = {name: before.messages.get(name, "") for name in fail_to_pass}
    facts = {
        "statement": statement(pair.package, pair.buggy, entry, failing),
        "fail_to_pass": fail_to_pass,
        "pass_to_pass": pass_to_pass,
    }
    files = {
        "source.tar.gz": pack({**visible(old), **metadata(pair, old)}),
        "tests.tar.gz": pack(suite.support),
        "gold.patch": gold_patch(old_sources, new_sources).encode(),
    }
    _keep(pair, facts, files)
    progress(f"{len(fail_to_pass)} to mend, {len(pass_to_pass)} to keep")
    return pair.folder


def build_missing(say: Progress) -> None:
    """Build the first ``NUM_AT_SETUP`` pairs of the table that are not in the cache, a minute's
    work each; what fails is said and left out. ``python -m envs.swe build`` builds the others.

    Raises:
        MissingDependency: no engine or image.
    """
    wanted = load_pairs()[:NUM_AT_SETUP]
    missing = [pair for pair in wanted if not (pair.folder / "task.json").exists()]
    if not missing:
        return
    from envs.sandbox.pool import SandboxPool

    with SandboxPool(run_id="swe-build") as sandboxes:
        for number, pair in enumerate(missing, start=1):
            say(f"real-package bug {number}/{len(missing)}: {pair.name}")
            try:
                build(pair, sandboxes, lambda what: log.debug("%s", what))
            except EnvError as error:
                say(f"left out {pair.name}: {error}")


def gold_patch(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> str:
    """Return the difference of two sources as a patch, Python files only."""
    parts: list[str] = []
    for path in sorted({*old, *new}):
        a, b = (tree.get(path, b"").decode("utf-8", "replace") for tree in (old, new))
        if a == b or not path.endswith(".py") or path.endswith("_version.py"):
            continue
        before = f"a/{path}" if path in old else "/dev/null"
        after = f"b/{path}" if path in new else "/dev/null"
        lines = difflib.unified_diff(
            a.splitlines(keepends=True), b.splitlines(keepends=True), before, after
        )
        for line in lines:
            parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)


def stable(
    sandbox: Sandbox, suite: Suite, sources: Tree, progress: Callable[[int], None]
) -> SuiteResult:
    """Run all tests a few times; keep those whose outcome did not change."""
    results = []
    for run in range(1, _NUM_RUNS + 1):
        progress(run)
        results.append(run_suite(sandbox, suite, sources, timeout_s=_SUITE_TIMEOUT_S))
    first = results[0]
    outcomes = {
        name: outcome
        for name, outcome in first.outcomes.items()
        if all(result.outcomes.get(name) == outcome for result in results)
    }
    return SuiteResult(outcomes, first.messages, first.problem)


def _support(pair: Pair, new: Tree) -> Tree:
    """Return what surrounds the source in judging: the newer release without its source."""
    sources = source_files(new, pair.sources, pair.tests)
    rest = {path: data for path, data in visible(new).items() if path not in sources}
    return {**rest, **metadata(pair, new)}


def visible(tree: Tree) -> Tree:
    """Return what of a distribution is put before an agent: no documentation, no examples."""
    return {path: data for path, data in tree.items() if not under(path, _LEFT_OUT)}


def metadata(pair: Pair, tree: Tree) -> Tree:
    """Return what ``importlib.metadata`` asks for: the older version, installed or not."""
    text = tree.get("PKG-INFO", b"").decode("utf-8", "replace").partition("\n\n")[0]
    text = text.replace(f"Version: {pair.fixed}", f"Version: {pair.buggy}")
    name = f"{pair.package}-{pair.buggy}.dist-info/METADATA"
    root = "" if pair.import_root == "." else f"{pair.import_root}/"
    return {root + name: f"{text}\n".encode()}


def _keep(pair: Pair, facts: dict[str, Any], files: Mapping[str, bytes]) -> None:
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    pair.folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=pair.folder.parent))
    for name, data in files.items():
        (work / name).write_bytes(data)
    (work / "task.json").write_text(json.dumps({**facts, "sha256": digests}, indent=1), "utf-8")
    work.chmod(0o755)
    try:
        work.rename(pair.folder)
    except OSError:
        if not (pair.folder / "task.json").exists():
            raise


def fetch(package: str, version: str) -> Tree:
    """Return the files of a source distribution; kept in the cache. Raises ``TaskError``."""
    return unpack(archive(package, version), strip=1)


def archive(package: str, version: str) -> bytes:
    """Return a source distribution as it came; kept in the cache. Raises ``TaskError``."""
    store = cache_folder() / "sdists" / f"{package}-{version}"
    if not (store.exists() and any(store.iterdir())):
        store.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=store.parent) as folder:
            _pip("download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation",
                 "-d", f"{folder}/got", f"{package}=={version}")  # fmt: skip
            store.mkdir(exist_ok=True)
            for file in Path(folder, "got").iterdir():
                file.replace(store / file.name)
    archives = sorted(store.iterdir())
    if len(archives) != 1 or not archives[0].name.endswith(".tar.gz"):
        raise TaskError(f"{package} {version}: expected one .tar.gz in {store}")
    return archives[0].read_bytes()


def _pip(*arguments: str) -> None:
    """Run pip with the build back ends at hand, which it needs for a distribution's metadata."""
    tools = cache_folder() / "back-ends"
    if not tools.exists():
        with tempfile.TemporaryDirectory(dir=tools.parent) as folder:
            target = Path(folder, "tools")
            _run_pip("install", "--target", str(target), *_BACK_ENDS)
            if not tools.exists():
                target.rename(tools)
    _run_pip(*arguments, path=str(tools))


def _run_pip(*arguments: str, path: str = "") -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *arguments]
    environment = {**os.environ, **({"PYTHONPATH": path} if path else {})}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode != 0:
        raise TaskError(f"{' '.join(command[1:])} failed: {done.stderr.strip()[-600:]}")
