"""Which tasks a run sees: disjoint, of its own environment, and the same in every phase."""

from pathlib import Path

import pytest

from envs.tasks.loading import load, write_jsonl
from rl.config import resolve
from rl.errors import ConfigError
from rl.tasksets import select


@pytest.mark.parametrize("env", ["terminal", "swe"])
def test_sets_are_disjoint_and_held_out_in_both_ways(env: str) -> None:
    """Training and evaluation share no task; both kinds of held-out are measured."""
    sets = select(resolve([f"env={env}"]))
    assert not {t.id for t in sets.train} & {t.id for t in sets.heldout}
    assert {t.split for t in sets.train} == {"train"}
    assert {t.split for t in sets.heldout} == {"heldout"}
    tags = {tag for t in sets.heldout for tag in t.tags}
    assert {"heldout:parameters", "heldout:template"} <= tags
    assert len([t for t in sets.heldout if "source:release" not in t.tags]) >= 50


def test_held_out_parameters_are_of_families_that_are_trained() -> None:
    """A family left out of training is neither new parameters nor a new template."""
    sets = select(resolve(["env=terminal", "tasks.families=[copy_file,rename_file]"]))
    families = {t.family for t in sets.heldout if "heldout:parameters" in t.tags}
    assert families == {"copy_file", "rename_file"}


def test_every_run_is_measured_on_the_same_tasks() -> None:
    """Seeds differ in training, not in what they are measured on."""
    one, two = (select(resolve(["env=terminal", f"seed={seed}"])) for seed in (0, 1))
    assert [t.id for t in one.heldout] == [t.id for t in two.heldout]


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("tasks.levels=[easyy]", "easy"),
        ("tasks.families=[copyfile]", "copy_file"),
        ("evaluation.levels=[easy,typo]", "typo"),
        ("tasks.path=swe", ".jsonl"),
        ("tasks.path=/nowhere.jsonl", "nowhere"),
    ],
)
def test_wrong_filters_are_a_users_mistake(argument: str, says: str) -> None:
    """A misspelt level must not leave an empty or a different evaluation."""
    with pytest.raises(ConfigError, match=says):
        select(resolve(["env=terminal", argument]))


def test_tasks_of_another_environment_are_refused(tmp_path: Path) -> None:
    """A file of swe tasks under env=terminal would fail one episode at a time."""
    path = tmp_path / "swe.jsonl"
    write_jsonl([t for t in load("swe") if "source:release" not in t.tags][:400], path)
    arguments = ["env=terminal", f"tasks.path={path}", "tasks.families=[]", "tasks.levels=[easy]"]
    with pytest.raises(ConfigError, match="not of env=terminal"):
        select(resolve(arguments))
