"""One-edit bugs and their tasks, without a sandbox: true, short, and split apart."""

import importlib
import inspect
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.swe.bugs import load_bugs, run_on_host
from envs.swe.call_grading import Answer, read_answers, request_bytes
from envs.swe.changelog import changelog_entry, statement
from envs.swe.corpus import Check, load_functions
from envs.swe.edits import possible_edits, sed_command
from envs.swe.generated import HELDOUT_FUNCTIONS, generated_tasks
from envs.swe.tasks import load_tasks
from envs.swe.trees import pack, source_files, unpack
from envs.types import Task

TASKS = generated_tasks()


def test_the_corpus_keeps_its_own_checks() -> None:
    """A wrong expected value would make a task that nobody can solve."""
    for file in sorted({function.file for function in load_functions().values()}):
        module = importlib.import_module(f"envs.swe.functions.{file.removesuffix('.py')}")
        for name, test in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_"):
                test()


def test_stored_bugs_are_what_running_them_shows() -> None:
    """A file of bugs that drifted from the corpus would show agents untrue examples."""
    for bug in load_bugs()[::40]:
        function = load_functions()[bug.function]
        answers = run_on_host(function.file, bug.edit.apply(function.source), function.checks)
        fails = [i for i, a in enumerate(answers) if not a.meets(function.checks[i])]
        assert fails == list(bug.fails)
        assert str(answers[bug.example]) == bug.answer


def test_every_oracle_is_the_inverse_edit(tmp_path: Path) -> None:
    """A sed that hits a second place, or a special character, would demonstrate a wrong fix."""
    for task in TASKS:
        (tmp_path / task.data["file"]).write_text(task.data["source"])
    for task in TASKS[::9]:
        path = tmp_path / task.data["file"]
        path.write_text(task.data["source"])
        subprocess.run(["bash", "-c", task.data["oracle"][0]], cwd=tmp_path, check=True)
        assert path.read_text() == load_functions()[task.family].source


def test_there_are_enough_tasks_and_they_are_short() -> None:
    held_out = [task for task in TASKS if task.split == "heldout"]
    assert len(TASKS) >= 250 and len(held_out) >= 50
    assert len({task.id for task in TASKS}) == len(TASKS)
    assert max(len(task.instruction.split()) for task in TASKS) <= 60
    assert len(HELDOUT_FUNCTIONS & set(load_functions())) >= 15


def test_splits_share_no_held_out_function_and_no_bug() -> None:
    """What is evaluated must never have been trained on, in name or in bytes."""
    train = [task for task in load_tasks() if task.split == "train"]
    held_out = [task for task in load_tasks() if task.split == "heldout"]
    assert not HELDOUT_FUNCTIONS & {task.family for task in train}
    assert all("heldout:template" not in task.tags for task in train)
    sources = {task.data["source"] for task in train if task.data["kind"] == "calls"}
    for task in held_out:
        assert len([tag for tag in task.tags if tag.startswith("heldout:")]) == 1
        if task.data["kind"] == "calls":
            assert task.data["source"] not in sources


def test_tasks_survive_json() -> None:
    assert Task.from_json(TASKS[0].to_json()) == TASKS[0]


def test_expected_values_stay_on_the_host() -> None:
    """A value the sandbox is sent is a value the agent's source can return."""
    sent = request_bytes("tag", "f.py", "def f(): ...", [Check("f()", "'never to be seen'")])
    assert b"f()" in sent and b"never" not in sent


@given(st.text(max_size=60))
def test_odd_answers_are_read_without_an_error(text: str) -> None:
    """The agent's source shares the process that answers, so any line may come."""
    answers = read_answers(["ready", text, f'[0, "value", {text}'], 2)
    assert len(answers) == 2


def test_an_answer_counts_only_as_a_value_equal_to_the_expected_one() -> None:
    check = Check("f()", "[1, 2]")
    assert Answer("value", "[1, 2]").meets(check)
    for text in ("[1, 3]", "<object>", "(" * 5000, "__import__('os')", ""):
        assert not Answer("value", text).meets(check)
    assert not Answer("error", "[1, 2]").meets(check)
    assert not Answer("nothing").meets(check)


def test_edits_name_their_place_and_sed_is_unambiguous() -> None:
    source = "def f(a, b):\n    return a * b + a * b\n"
    edits = [e for e in possible_edits(source) if e.old == "*"]
    assert [(e.line, e.column) for e in edits] == [(2, 13), (2, 21)]
    buggy = edits[1].apply(source)
    assert edits[1].inverse().apply(buggy) == source
    command = sed_command(buggy, edits[1].inverse(), "f.py")
    assert command is not None
    done = subprocess.run(
        ["bash", "-c", command.replace("sed -i", "sed").removesuffix(" f.py")],
        input=buggy,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == source


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("pkg/a.py", True),
        ("pkg/data.json", True),
        ("pkg/conftest.py", False),
        ("pkg/tests/test_a.py", False),
        ("pkg/x.pth", False),
        ("pkg/__pycache__/a.cpython-311.pyc", False),
        ("sitecustomize.py", False),
        ("pkg/sitecustomize.py", False),
        ("pytest.py", False),
        ("pkgs/a.py", False),
    ],
)
def test_only_source_inside_the_package_counts(path: str, counts: bool) -> None:
    """Each of the others has been used to pass a suite without mending anything."""
    assert bool(source_files({path: b""}, ["pkg"], ["pkg/tests"])) is counts


def test_trees_pack_and_unpack() -> None:
    tree = {"a/b.py": b"x", "c": b""}
    assert unpack(pack(tree)) == tree
    assert pack(tree) == pack(dict(reversed(tree.items())))
    with pytest.raises(ValueError, match="usable tar"):
        unpack(b"no tar")


@pytest.mark.parametrize(
    ("file", "text", "entry"),
    [
        (
            "CHANGELOG.md",
            "# Log\n\n## [1.2.0] - 2024\n\n### Fixed\n\n- Fix it. ([#3](http://x/3))\n\n"
            "## [1.1.9]\n\n- no\n",
            "Fixed\n- Fix it.",
        ),
        (
            "CHANGELOG.rst",
            "Changelog\n=====\n\n1.2.0 (2024)\n-----\n\n- mend years [me]\n\n"
            "1.1.9 (2023)\n----\n\n- no\n",
            "- mend years",
        ),
        (
            "CHANGELOG",
            "Release 1.2.0\n----\n\nNotes\n\n* A hole. See https://x/y\n  Thanks for reporting!\n\n"
            "News\n\n* Add IF (issue5).\n* Add ON (pr9, by me).\n\n\nRelease 1.1.9\n----\n",
            "Notes\n* A hole. See\nNews\n* Add IF.\n* Add ON.",
        ),
        ("README.rst", "- 1.2.0 It accepts `%f` (thanks @a)\n- 1.1.9 no\n", "It accepts `%f`"),
        ("NEWS", "nothing of it", ""),
    ],
)
def test_changelog_entries_of_the_fixed_version_only(file: str, text: str, entry: str) -> None:
    assert changelog_entry({file: text.encode()}, "1.2.0") == entry


def test_a_statement_without_a_changelog_names_the_failing_behaviour() -> None:
    words = statement("pkg", "1.0", "", {"tests/t.py::test_zero": "assert 1 == 2"})
    assert "pkg 1.0" in words and "test_zero: assert 1 == 2" in words
