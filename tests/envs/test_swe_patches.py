"""Patches of source trees: git turns the one tree into the other by them."""

import subprocess
from pathlib import Path

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.errors import VerifierError
from envs.sandbox.protocol import Sandbox, SandboxSpec
from envs.swe.env import SWEEnv
from envs.swe.generated import generated_tasks
from envs.swe.patches import unified
from envs.swe.trees import Tree
from tests.envs.test_core import ListProvider, ListSandbox

TEXTS = st.text(alphabet="ab\n\r\x0c\u2028é", max_size=12).map(str.encode)
PATHS = st.sampled_from(["a.py", "pkg/b.py", "pkg/c d.py", "é.py"])
TREES = st.dictionaries(PATHS, TEXTS, max_size=3)


def applied(folder: Path, before: Tree, patch: str) -> Tree:
    for path, data in before.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    if patch:
        done = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", "-"],
            cwd=folder, input=patch.encode(), capture_output=True,
        )  # fmt: skip
        assert done.returncode == 0, (done.stderr, patch)
    files = (p for p in folder.rglob("*") if p.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@settings(max_examples=60, deadline=None)
@given(TREES, TREES)
def test_git_makes_the_second_tree_of_the_first(tmp_path_factory, before, after):
    """New, changed, deleted and empty files; missing last line feeds; separators that are none."""
    patch = unified(before, after)
    assert applied(tmp_path_factory.mktemp("tree"), before, patch) == after
    assert bool(patch) == (before != after)


def test_binary_files_are_left_out():
    """Bug prevented: one picture makes the official tool refuse the whole patch."""
    assert unified({"a.py": b"1\n"}, {"a.py": b"2\n", "b.bin": b"\xff"}).count("diff --git") == 1


class OneFile(ListSandbox):
    """A sandbox whose every file holds the same."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data

    def read_file(self, path: str, *, max_bytes: int = 8 << 20) -> bytes:
        return self.data


def test_the_environment_tells_what_was_changed():
    task = next(task for task in generated_tasks() if task.family == "clamp")
    sandbox = OneFile(task.data["source"].encode() + b"# mended\n")

    class Provider(ListProvider):
        def acquire(self, spec: SandboxSpec) -> Sandbox:
            return sandbox

    env = SWEEnv([task], Provider())
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.patch()
    env.reset(options={"task": task})
    patch = env.patch()
    assert patch.startswith(f"diff --git a/{task.data['file']} b/{task.data['file']}\n")
    assert patch.endswith("+# mended\n")
    sandbox.data = b"\xff"
    assert env.patch() == ""
    sandbox.data = task.data["source"].encode()
    assert env.patch() == ""
    env.close()


def test_a_tree_that_cannot_be_read_is_no_empty_patch(tmp_path):
    """An empty patch would say that the model changed nothing."""
    task = next(task for task in generated_tasks() if task.family == "clamp")
    lost = {"path": str(tmp_path / "gone"), "sha256": ""}
    data = {"kind": "tests", "folder": "/w", "sources": ["a"], "tests": ["t"], "source": lost}
    env = SWEEnv([task], ListProvider())
    env.reset(options={"task": task})
    env._task = type(task)(**{**vars(task), "data": data})
    with pytest.raises(VerifierError, match="no patch"):
        env.patch()
