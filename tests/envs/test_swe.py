"""SWE tasks in real sandboxes: fair, closed to tricks, and clear about whose failure it was."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from envs.core import SUBMIT
from envs.errors import SandboxLost, SetupError, VerifierError
from envs.sandbox.pool import SandboxPool
from envs.sandbox.protocol import ExecResult, SandboxSpec
from envs.swe.call_grading import run_calls
from envs.swe.corpus import Check
from envs.swe.env import SWEEnv
from envs.swe.generated import generated_tasks
from envs.swe.pytest_grading import Suite, harvest, run_suite
from envs.swe.release_tasks import release_tasks
from envs.swe.releases import build, find_pair
from envs.swe.trees import pack
from envs.types import Task, TaskLimits, Verdict

pytestmark = pytest.mark.docker

TASKS = generated_tasks()
CLAMP = next(task for task in TASKS if task.family == "clamp")


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(run_id="test-swe") as pool:
        yield pool


@pytest.fixture(scope="module")
def env(pool: SandboxPool) -> Iterator[SWEEnv]:
    env = SWEEnv(TASKS, pool)
    yield env
    env.close()


def play(env: SWEEnv, task: Task, *commands: str) -> Verdict:
    env.reset(options={"task": task})
    for command in commands:
        env.step(command)
    *_, info = env.step(SUBMIT)
    verdict: Verdict = info["verdict"]
    return verdict


# ------------------------------------------------------------- generated tasks


def test_oracles_solve_and_doing_nothing_does_not(env: SWEEnv) -> None:
    for task in TASKS[::60]:
        assert play(env, task).reward == 0.0
        assert play(env, task, *task.data["demo"]).reward == 1.0, task.id
        assert play(env, task, *env.oracle(task)).failed == ()


def test_the_shell_starts_beside_the_file_and_finds_no_history(env: SWEEnv) -> None:
    """Nothing later than the task's start may be in the sandbox: no commits, no tests."""
    env.reset(options={"task": CLAMP})
    look = "ls -A; git log --all 2>&1 | head -1; find / -name '*test_*clamp*' 2>/dev/null"
    seen, *_ = env.step(look)
    lines = seen["output"].split("\n")
    assert lines[0] == "stats.py"
    assert lines[1].startswith("fatal: not a git repository")
    assert not "".join(lines[2:]).strip()


def test_it_ends_by_itself_once_solved(pool: SandboxPool) -> None:
    env = SWEEnv([CLAMP], pool, finish="solved")
    env.reset(options={"task": CLAMP})
    _, reward, terminated, _, _ = env.step("cat stats.py")
    assert (reward, terminated) == (0.0, False)
    _, reward, terminated, truncated, _ = env.step(CLAMP.data["oracle"][0])
    assert (reward, terminated, truncated) == (1.0, True, False)
    env.close()


TRICKS = {
    "prints the pass marker": "print('PASSED clamp'); print('ready')",
    "ends the process well": "import os; os._exit(0)",
    "ends the process early": "raise SystemExit(0)",
    "does not compile": "def clamp(value, low, high:",
    "hangs": "while True: pass",
    "sleeps": "import time; time.sleep(99)",
    "equals everything": (
        "class Any:\n    def __eq__(self, other): return True\n"
        "    def __repr__(self): return 'Any()'\n\ndef clamp(*a): return Any()"
    ),
    "forges answers": (
        "import os, sys\ntag = sys._getframe(1).f_locals['request']['tag']\n"
        "for i in range(9):\n    for fd in range(3, 9):\n        try:\n"
        '            os.write(fd, f\'{tag} [{i}, "value", "True"]\\n\'.encode())\n'
        "        except OSError: pass\nos._exit(0)"
    ),
    "knows the example only": "def clamp(value, low, high): return 3",
    "eats the memory": "x = bytearray(2 << 30)",
    "deletes itself": "import os; os.remove('/workspace/app/stats.py'); clamp = None",
}


@pytest.mark.parametrize("trick", TRICKS)
def test_tricks_in_the_source_earn_nothing(env: SWEEnv, trick: str) -> None:
    """Each has passed somebody's verifier; here each is the agent's own failure, not ours."""
    task = Task(**{**vars(CLAMP), "limits": TaskLimits(verifier_timeout_s=4.0)})
    text = TRICKS[trick]
    verdict = play(env, task, f"cat > stats.py <<'END'\n{text}\nEND")
    assert verdict.reward == 0.0
    assert verdict.failed


@pytest.mark.parametrize(
    "command",
    [
        "rm stats.py",
        "rm stats.py; mkdir stats.py",
        "rm stats.py; ln -s /dev/zero stats.py",
        "head -c 300000 /dev/zero > stats.py",
        r"printf '\xff\xfe' > stats.py",
        "echo 'raise SystemExit' > sitecustomize.py; echo > json.py; export PYTHONSTARTUP=x.py",
    ],
)
def test_whatever_becomes_of_the_file_is_the_agents_doing(env: SWEEnv, command: str) -> None:
    assert play(env, CLAMP, command).reward == 0.0


def test_files_beside_the_source_change_nothing(env: SWEEnv) -> None:
    """A module that shadows the runner's imports must neither pass nor break a right fix."""
    shadow = "for m in json os sys resource; do echo 'raise SystemExit' > $m.py; done"
    assert play(env, CLAMP, shadow, CLAMP.data["oracle"][0]).reward == 1.0


# ------------------------------------------------------------- packages judged by pytest

PACKAGE = {
    "src/pkg/__init__.py": (
        b"def double(n):\n    return n + n + 1\n\n\ndef name():\n    return 'pkg'\n"
    ),
    "README": b"A package.\n",
    "src/pkg-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n",
}
TESTS = {
    "tests/test_pkg.py": (
        b"import pytest\nfrom pkg import double, name\n\n"
        b"@pytest.mark.parametrize('n', [1, 2], ids=['one', 'number two'])\n"
        b"def test_double(n):\n    assert double(n) == 2 * n\n\n"
        b"def test_name():\n    assert name() == 'pkg'\n"
    )
}
TURN = ["tests/test_pkg.py::test_double[number two]", "tests/test_pkg.py::test_double[one]"]
GOLD = (
    "--- a/src/pkg/__init__.py\n+++ b/src/pkg/__init__.py\n@@ -1,2 +1,2 @@\n"
    " def double(n):\n-    return n + n + 1\n+    return n + n\n"
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Task:
    folder = tmp_path_factory.mktemp("package")

    def blob(name: str, data: bytes) -> dict[str, str]:
        (folder / name).write_bytes(data)
        return {"path": str(folder / name), "sha256": hashlib.sha256(data).hexdigest()}

    facts = folder / "task.json"
    facts.write_text(json.dumps({"pass_to_pass": ["tests/test_pkg.py::test_name"]}))
    data: dict[str, Any] = {
        "kind": "tests",
        "folder": "/workspace/pkg",
        "import_root": "src",
        "sources": ["src/pkg"],
        "tests": ["tests"],
        "fail_to_pass": TURN,
        "facts": str(facts),
        "source": blob("source.tar.gz", pack(PACKAGE)),
        "tests_tar": blob("tests.tar.gz", pack(TESTS)),
        "gold": blob("gold.patch", GOLD.encode()),
    }
    limits = TaskLimits(verifier_timeout_s=8.0)
    return Task("swe/pkg/1", "swe", "pkg", "heldout", "Mend it.", "swe", limits, data)


def test_a_package_is_solved_by_its_gold_patch_only(env: SWEEnv, package: Task) -> None:
    """Ids with blanks count whole: cut at the blank, both would be one test."""
    solved = play(env, package, *env.oracle(package))
    assert solved.reward == 1.0
    assert solved.passed == (*TURN, "tests/test_pkg.py::test_name")
    assert play(env, package).detail == "the source is unchanged"
    half = play(env, package, "sed -i 's/n + n + 1/2/' src/pkg/__init__.py")
    assert (half.reward, half.passed, half.failed) == (0.0, (TURN[1],), (TURN[0],))


def test_its_patch_is_the_change_of_the_source_alone(env: SWEEnv, package: Task) -> None:
    """What is handed to SWE-bench's tool holds no tests and nothing beside the source."""
    play(env, package, *env.oracle(package), "echo > conftest.py; rm README")
    patch = env.patch()
    assert patch.partition("--- a/")[0] == (
        "diff --git a/src/pkg/__init__.py b/src/pkg/__init__.py\n"
    )
    assert "-    return n + n + 1\n+    return n + n\n" in patch
    assert patch.count("diff --git") == 1


def test_a_fix_that_breaks_another_test_is_not_solved(env: SWEEnv, package: Task) -> None:
    broken = play(
        env, package, *env.oracle(package), "sed -i s/\"'pkg'\"/None/ src/pkg/__init__.py"
    )
    assert broken.reward == 0.0
    assert broken.failed == ("tests/test_pkg.py::test_name",)


def test_the_import_root_and_the_version_are_in_place(env: SWEEnv, package: Task) -> None:
    env.reset(options={"task": package})
    asked = "python -c 'import pkg, importlib.metadata as m; print(pkg.name(), m.version(\"pkg\"))'"
    seen, *_ = env.step(asked)
    assert seen["output"].strip() == "pkg 1.0"
    seen, *_ = env.step("ls -A")
    assert seen["output"].split() == ["README", "src"]


ALL_PASS = (
    "import pytest\n@pytest.hookimpl(hookwrapper=True)\n"
    "def pytest_runtest_makereport(item, call):\n"
    "    out = yield\n    out.get_result().outcome = 'passed'\n    print('PASSED', item.nodeid)\n"
)
SIDE_FILES = {
    "conftest beside the tests": ("tests/conftest.py", ALL_PASS),
    "conftest in the package": ("src/pkg/conftest.py", ALL_PASS),
    "conftest at the root": ("conftest.py", ALL_PASS),
    "edited tests": ("tests/test_pkg.py", "def test_double(): pass\n"),
    "settings": ("pytest.ini", "[pytest]\naddopts = --collect-only\n"),
    "setup.cfg": ("setup.cfg", "[tool:pytest]\naddopts = -k nothing\n"),
    "sitecustomize": ("src/sitecustomize.py", "import os; os._exit(0)\n"),
    "path file": ("src/pkg/x.pth", "import os; os._exit(0)\n"),
    "own pytest": ("src/pytest.py", "def main(*a, **k): return 0\n"),
}


@pytest.mark.parametrize("kind", SIDE_FILES)
def test_files_beside_the_source_do_not_reach_judging(
    env: SWEEnv, package: Task, kind: str
) -> None:
    assert play(env, package, write_files(kind), "echo >> src/pkg/__init__.py").reward == 0.0


def test_files_beside_a_right_fix_do_not_break_it(env: SWEEnv, package: Task) -> None:
    assert play(env, package, write_files(*SIDE_FILES), *env.oracle(package)).reward == 1.0


def write_files(*kinds: str) -> str:
    files = [SIDE_FILES[kind] for kind in kinds]
    return "mkdir -p tests\n" + "".join(f"cat > {p} <<'END'\n{t}END\n" for p, t in files)


SOURCE_TRICKS = {
    "prints": "print('tests/test_pkg.py::test_double[one] PASSED')",
    "exits at import": "import os; os._exit(0)",
    "exits politely": "import sys; sys.exit(0)",
    "does not compile": "def (",
    "hangs": "while True: pass",
    "skips": "import pytest\ndef double(n): pytest.skip('no')",
    "skips the module": "import pytest; pytest.skip('no', allow_module_level=True)",
    "marks all as passed": (
        "import _pytest.reports as r\n_old = r.TestReport.from_item_and_call.__func__\n"
        "def _new(cls, item, call):\n    call.excinfo = None\n    return _old(cls, item, call)\n"
        "r.TestReport.from_item_and_call = classmethod(_new)"
    ),
    "writes a report": (
        "import gc, os\nfrom pathlib import Path\nfrom _pytest.junitxml import LogXML\n"
        "for x in gc.get_objects():\n    if isinstance(x, LogXML):\n"
        "        rows = ''.join(f'<testcase classname=\"c\" name=\"n\"><properties><property '\n"
        '            f\'name="nodeid" value="tests/test_pkg.py::{t}"/></properties></testcase>\'\n'
        "            for t in ('test_double[one]', 'test_double[number two]', 'test_name'))\n"
        "        Path(x.logfile).write_text(f'<testsuites>{rows}</testsuites>')\n"
        "        os._exit(0)"
    ),
    "rewrites the tests": (
        "from pathlib import Path\nimport os\n"
        "for p in Path.cwd().rglob('test_*.py'):\n"
        "    p.write_text('import pytest\\n'\n"
        "        '@pytest.mark.parametrize(\"n\", [1, 2], '\n"
        '        \'ids=["one", "number two"])\\ndef test_double(n): pass\\ndef test_name(): 1\')\n'
        "import sys\nfor m in list(sys.modules):\n    if m.startswith('test_'): del sys.modules[m]"
    ),
    "skips what is not named like a drawn canary": (
        "import re\nfrom _pytest.python import Function\n_old = Function.runtest\n"
        "def _new(self):\n    if re.fullmatch('test_[0-9a-f]{12}', self.name): _old(self)\n"
        "Function.runtest = _new"
    ),
    "skips the known test modules": (
        "from _pytest.python import Function\n_old = Function.runtest\n"
        "def _new(self):\n    if 'test_pkg.py' not in self.nodeid: _old(self)\n"
        "Function.runtest = _new"
    ),
    "ends its parent": "import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
}


@pytest.mark.parametrize("trick", SOURCE_TRICKS)
def test_tricks_in_a_package_earn_nothing(env: SWEEnv, package: Task, trick: str) -> None:
    command = f"cat >> src/pkg/__init__.py <<'END'\n{SOURCE_TRICKS[trick]}\nEND"
    assert play(env, package, command).reward == 0.0


@pytest.mark.parametrize(
    "command",
    [
        "rm -r src/pkg",
        "rm -r src; ln -s / src",
        "rm src/pkg/__init__.py; ln -s /etc/passwd src/pkg/__init__.py",
        "head -c 20000000 /dev/zero > src/pkg/big.py",
        "echo >> src/pkg/__init__.py; head -c 999000000 /dev/zero > /tmp/full",
        "echo >> src/pkg/__init__.py; chmod 000 /tmp",
    ],
)
def test_a_spoilt_package_is_the_agents_doing(env: SWEEnv, package: Task, command: str) -> None:
    assert play(env, package, command).reward == 0.0


# ------------------------------------------------------------- our failures are not rewards


class BrokenSandbox:
    """A sandbox whose interpreter cannot start, or that is gone."""

    id = "broken"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.killed = 0

    def exec(self, argv: Sequence[str], **options: Any) -> ExecResult:
        if self.error is not None:
            raise self.error
        return ExecResult("exec: not found", 127)

    def kill_processes(self) -> None:
        self.killed += 1


def judge(sandbox: Any, how: str) -> object:
    if how == "calls":
        return run_calls(sandbox, "f.py", "def f(): return 1", [Check("f()", "1")], 5.0)
    if how == "harvest":
        return harvest(sandbox, "/workspace", ["pkg"])
    return run_suite(sandbox, Suite(TESTS, ("tests",), "src"), {}, timeout_s=5.0)


@pytest.mark.parametrize("how", ["calls", "harvest", "suite"])
def test_a_verifier_that_cannot_start_is_an_error_not_a_zero(how: str) -> None:
    """Field report: a bootstrap that fails and writes 0 teaches that a right fix is wrong."""
    sandbox = BrokenSandbox()
    with pytest.raises(VerifierError, match="did not start: exit code 127"):
        judge(sandbox, how)
    assert sandbox.killed == 2
    with pytest.raises(SandboxLost):
        judge(BrokenSandbox(SandboxLost("gone")), how)


def test_an_image_without_pytest_is_an_error_not_a_zero(pool: SandboxPool) -> None:
    sandbox = pool.acquire(SandboxSpec(image="terminal"))
    with pytest.raises(VerifierError):
        judge(sandbox, "suite")
    pool.release(sandbox)


def test_a_task_whose_files_are_gone_or_altered_cannot_start(
    env: SWEEnv, package: Task, tmp_path: Path
) -> None:
    for path, digest in ((tmp_path / "none", "0"), (Path(package.data["gold"]["path"]), "0")):
        data: Mapping[str, Any] = {
            **package.data,
            "source": {"path": str(path), "sha256": digest},
        }
        with pytest.raises(SetupError, match=r"rebuild|build"):
            env.reset(options={"task": Task(**{**vars(package), "data": data})})


# ------------------------------------------------------------- a real package


def test_a_real_release_from_its_distributions_to_a_verdict(pool: SandboxPool, env: SWEEnv) -> None:
    """Needs a package index once; afterwards the cache has it."""
    build(find_pair("xmltodict-0.14.1-0.14.2"), pool, lambda what: None)
    task = next(t for t in release_tasks() if t.id == "swe/xmltodict/0.14.1-0.14.2")
    assert len(task.data["fail_to_pass"]) == 2
    gold = Path(task.data["gold"]["path"]).read_text()
    assert not any(
        line[1:].strip() in task.instruction for line in gold.splitlines() if line[1:].strip()
    )
    solved = play(env, task, *env.oracle(task))
    assert solved.reward == 1.0
    assert len(solved.passed) == 60
    assert play(env, task).reward == 0.0
