"""Packages whose tests pass, pinned: what procedural bugs are put into.

``build_package`` fetches a source distribution, runs all its tests twice in the sandbox and keeps
those that pass both times, and measures once which test runs which line. What is built lies in the
cache under a name that hashes the pin, and is moved into place whole.
"""

import base64
import gzip
import hashlib
import json
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from envs.errors import TaskError
from envs.sandbox.protocol import Sandbox
from envs.swe.candidates import layout
from envs.swe.pytest_grading import PYTHON, Suite
from envs.swe.releases import Pair, Progress, archive, cache_folder, metadata, stable, visible
from envs.swe.trees import Tree, pack, source_files, unpack

LEAST_TESTS = 20
MOST_SUITE_S = 45.0
COVERAGE_TIMEOUT_S = 300.0
_FORMAT = 1
_MOST_OUTPUT_BYTES = 48 << 20


@dataclass(frozen=True)
class Package:
    """One pinned package.

    Attributes:
        name, version: of the distribution.
        sha256: of the source distribution, the first 16 digits.
        import_root, sources, tests: as in ``releases.Pair``.
    """

    name: str
    version: str
    sha256: str
    import_root: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Where what is built of this package lies."""
        row = json.dumps([_FORMAT, asdict(self)], sort_keys=True)
        digest = hashlib.sha256(row.encode()).hexdigest()[:8]
        return cache_folder() / "packages" / f"{self.name}-{self.version}-{digest}"


@dataclass(frozen=True)
class Baseline:
    """A package as released, and what its tests do.

    Attributes:
        sources: the source files.
        suite: how its tests run.
        passing: node ids that passed every time.
        suite_s: seconds of one run of all tests.
        ran: per source file and line, the passing tests that ran it.
    """

    sources: Tree
    suite: Suite
    passing: tuple[str, ...]
    suite_s: float
    ran: Mapping[str, Mapping[int, frozenset[str]]]

    def covering(self, path: str, lines: tuple[int, int]) -> frozenset[str]:
        """Return the passing tests that ran any of the lines from first to last."""
        rows = self.ran.get(path, {})
        found = (rows.get(line, frozenset()) for line in range(lines[0], lines[1] + 1))
        return frozenset().union(*found)


def pin(name: str, version: str) -> Package:
    """Return the pin of a release. Raises ``TaskError``: no source or tests are found in it."""
    data = archive(name, version)
    root, sources, tests = layout(name, _unpacked(data, name))
    return Package(name, version, hashlib.sha256(data).hexdigest()[:16], root, sources, tests)


def build_package(package: Package, sandbox: Sandbox, progress: Progress) -> None:
    """Build a package into the cache; one that is there already is left as it is.

    Raises:
        TaskError: the index has another distribution, or too few tests pass, or not in time.
        EnvError: the sandbox failed.
    """
    if (package.folder / "task.json").exists():
        return
    data = archive(package.name, package.version)
    if hashlib.sha256(data).hexdigest()[:16] != package.sha256:
        raise TaskError(f"{package.name} {package.version}: the index has another distribution")
    tree = _unpacked(data, package.name)
    pair = Pair(package.name, package.version, package.version, package.import_root,
                package.sources, package.tests)  # fmt: skip
    given = {**visible(tree), **metadata(pair, tree)}
    sources = source_files(tree, package.sources, package.tests)
    support = {path: data for path, data in given.items() if path not in sources}
    suite = Suite(support, package.tests, package.import_root)
    begun = time.monotonic()
    result = stable(sandbox, suite, sources, lambda n: progress(f"all tests, run {n}"))
    suite_s = (time.monotonic() - begun) / 2
    passing = sorted(name for name in result.outcomes if result.passed(name))
    if len(passing) < LEAST_TESTS:
        raise TaskError(f"{package.name}: {len(passing)} tests pass. {result.problem}")
    if suite_s > MOST_SUITE_S:
        raise TaskError(f"{package.name}: its tests take {suite_s:.0f} s")
    progress("which test runs which line")
    facts = {"pass_to_pass": passing, "suite_s": round(suite_s, 2)}
    covered = _measure(sandbox, suite, sources)
    _keep(package, facts, {
        "source.tar.gz": pack(given),
        "tests.tar.gz": pack(support),
        "coverage.json.gz": gzip.compress(covered.encode(), mtime=0),
    })  # fmt: skip


@lru_cache(maxsize=8)
def load_baseline(package: Package) -> Baseline:
    """Return what was built of a package. Raises ``TaskError`` when nothing was."""
    try:
        facts = json.loads((package.folder / "task.json").read_text("utf-8"))
        tree = unpack((package.folder / "source.tar.gz").read_bytes())
        support = unpack((package.folder / "tests.tar.gz").read_bytes())
        covered = json.loads(gzip.decompress((package.folder / "coverage.json.gz").read_bytes()))
    except (OSError, ValueError) as error:
        raise TaskError(f"{package.name} {package.version} is not built: {error}") from error
    passing = frozenset(facts["pass_to_pass"])
    rows = [row for lines in covered["lines"].values() for row in lines.values()]
    named = {bits: _named(bits, covered["tests"]) & passing for bits in set(rows)}
    ran = {
        path: {int(line): named[bits] for line, bits in lines.items()}
        for path, lines in covered["lines"].items()
    }
    suite = Suite(support, package.tests, package.import_root)
    sources = source_files(tree, package.sources, package.tests)
    return Baseline(sources, suite, tuple(facts["pass_to_pass"]), facts["suite_s"], ran)


def _named(bits: str, tests: list[str]) -> frozenset[str]:
    number = int(bits, 16)
    return frozenset(name for place, name in enumerate(tests) if number >> place & 1)


def _measure(sandbox: Sandbox, suite: Suite, sources: Tree) -> str:
    tag = secrets.token_hex(8)
    request = {
        "tag": tag,
        "tree": base64.b64encode(pack({**suite.support, **sources})).decode(),
        "files": sorted(path for path in sources if path.endswith(".py")),
        "tests": list(suite.tests),
        "import_root": suite.import_root,
        "plugins": suite.plugins(),
    }
    text = Path(__file__).with_name("coverage_runner.py").read_text("utf-8")
    done = sandbox.exec(
        [PYTHON, "-I", "-B", "-c", text],
        stdin=json.dumps(request).encode(),
        timeout_s=COVERAGE_TIMEOUT_S,
        cwd="/",
        max_output_bytes=_MOST_OUTPUT_BYTES,
    )
    lines = [line for line in done.output.splitlines() if line.startswith(f"{tag} ")]
    if len(lines) != 1:
        raise TaskError(f"coverage was not measured: {done.exit_code}, {done.output[-300:]}")
    return lines[0].removeprefix(f"{tag} ")


def _unpacked(data: bytes, name: str) -> Tree:
    try:
        return unpack(data, strip=1)
    except ValueError as error:
        raise TaskError(f"{name}: {error}") from error


def _keep(package: Package, facts: dict[str, object], files: Mapping[str, bytes]) -> None:
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    package.folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=package.folder.parent))
    for name, data in files.items():
        (work / name).write_bytes(data)
    (work / "task.json").write_text(json.dumps({**facts, "sha256": digests}, indent=1), "utf-8")
    work.chmod(0o755)
    try:
        work.rename(package.folder)
    except OSError:
        shutil.rmtree(work, ignore_errors=True)
        if not (package.folder / "task.json").exists():
            raise
