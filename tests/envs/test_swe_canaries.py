"""Canaries look like tests and disturb none."""

import ast
import re

from envs.swe.canaries import plant

SUPPORT = {
    "tests/test_a.py": b"def test_adds_two_numbers():\n    assert True\n",
    "tests/test_b.py": b"pytestmark = []\ndef test_other():\n    pass",
    "tests/test_c.py": b"# coding: latin-1\ndef test_third():\n    x = '\xe9'  # no newline",
}
SELECT = [
    "tests/test_a.py::test_adds_two_numbers",
    "tests/test_b.py::test_other[1]",
    "tests/test_c.py::test_third",
]


def test_they_stand_in_the_modules_that_run_under_names_of_the_kind() -> None:
    """A source that left out all but ``test_[0-9a-f]{12}`` was believed."""
    for _ in range(50):
        canaries = plant(SUPPORT, ["tests"], SELECT)
        assert set(canaries.files) == {canaries.own_file, "tests/test_a.py", "tests/test_c.py"}
        assert {"passed", "failure"} <= set(canaries.outcomes.values())
        for node in canaries.outcomes:
            path, _, name = node.partition("::")
            assert f"def {name}()".encode() in canaries.files[path]
            assert name not in ("test_adds_two_numbers", "test_other", "test_third")
            assert set(name.split("_")) <= {"test", "adds", "two", "numbers", "other", "third"}
            assert not re.fullmatch("test_[0-9a-f]{12}", name)
        for text in canaries.files.values():
            ast.parse(text)


def test_few_words_still_make_enough_names() -> None:
    """A package of one test once drew the same name for ever."""
    support = {f"t/test_{n}.py": b"def test_x(): pass\n" for n in range(40)}
    select = [f"{path}::test_x" for path in support]
    assert len(plant(support, ["t"], select).outcomes) == 45
    assert plant({}, ["t"], None).outcomes


def test_an_unselected_run_touches_no_module() -> None:
    """Building a task runs everything, also modules that cannot be collected here."""
    assert set(plant(SUPPORT, ["tests"], None).files) & set(SUPPORT) == set()
