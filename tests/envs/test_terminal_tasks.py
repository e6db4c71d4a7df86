"""The generated task set: its size, its splits, what its instructions say. No sandbox needed."""

import re
from collections import Counter

from envs.terminal.draw import LEVELS, POOLS
from envs.terminal.tasks import PLANS, generate, templates
from envs.types import Task

TASKS = generate()


def of(*tags: str, split: str | None = None) -> list[Task]:
    return [t for t in TASKS if set(tags) <= set(t.tags) and split in (None, t.split)]


def test_generation_is_deterministic_and_the_seed_matters() -> None:
    assert generate() == TASKS
    assert {t.instruction for t in generate(1)} != {t.instruction for t in TASKS}


def test_there_are_enough_tasks_of_every_kind() -> None:
    names = [template.name for template in templates()]
    assert len(names) == len(set(names)) >= 40
    assert len(TASKS) >= 600
    simple = [t for t in templates() if t.level in ("trivial", "easy") and not t.heldout]
    assert len(simple) >= 20
    for kind, least in (("parameters", 50), ("template", 30)):
        found = [
            t for level in ("trivial", "easy") for t in of(f"level:{level}", f"heldout:{kind}")
        ]
        assert len(found) >= least, (kind, len(found))
    for level in LEVELS:
        assert any(t.heldout and t.level == level for t in templates()), level
        assert of(f"level:{level}", split="train")


def test_ids_and_instructions_are_unique() -> None:
    assert len({t.id for t in TASKS}) == len(TASKS)
    assert [text for text, n in Counter(t.instruction for t in TASKS).items() if n > 1] == []
    assert all(re.fullmatch(rf"terminal/{t.family}/\d{{4}}", t.id) for t in TASKS)


def test_splits_are_disjoint() -> None:
    """Bug prevented: an evaluation on what was trained on."""
    train = of(split="train")
    held = {kind: of(f"heldout:{kind}") for kind in ("template", "parameters")}
    assert len(train) + sum(map(len, held.values())) == len(TASKS)
    families = {t.family for t in train}
    assert families.isdisjoint(t.family for t in held["template"])
    assert {t.family for t in held["parameters"]} == families
    assert len({t.family for t in held["template"]}) >= 6


def test_pools_are_disjoint_and_no_word_hides_in_another() -> None:
    """Bug prevented: counting "ring" also finds "spring"."""
    used = {split: {*p.nouns, *p.words, *p.people} for split, p in POOLS.items()}
    assert used["train"].isdisjoint(used["heldout"])
    for pool in POOLS.values():
        assert [(a, b) for a in pool.words for b in pool.words if a != b and a in b] == []
        for group in (pool.nouns, pool.words, pool.people):
            assert len(group) == len(set(group))


def test_tasks_use_only_the_names_of_their_split() -> None:
    """Every file a task names, and what its files hold, comes from its own split's pool."""
    for split, other in (("train", POOLS["heldout"]), ("heldout", POOLS["train"])):
        for task in of(split=split):
            files = task.data["files"]
            paths = [*files, *(c.get("path", "") for c in task.data["checks"])]
            bodies = [f if isinstance(f, str) else f.get("text", "") for f in files.values()]
            names = set(re.split(r"[/.\s]", " ".join(paths)))
            words = set(re.split(r"\W", " ".join(bodies)))
            assert names.isdisjoint(other.nouns), (task.id, names & {*other.nouns})
            assert words.isdisjoint({*other.words, *other.people}), task.id


def test_simple_instructions_are_short_and_solved_by_one_command() -> None:
    for task in TASKS:
        words = len(task.instruction.split())
        assert words <= (40 if {"level:trivial", "level:easy"} & set(task.tags) else 60), task
        if {"level:trivial", "level:easy"} & set(task.tags):
            assert len(task.data["oracle"]) == 1, task.id
            assert len(task.data["oracle"][0]) <= 80, task.data["oracle"]


def test_instructions_name_every_output_and_are_filled_in() -> None:
    """Bug prevented: a placeholder left over, or an output whose name nobody says."""
    for task in TASKS:
        assert not re.search(r"[{}]", task.instruction), task
        for check in task.data["checks"]:
            goal = check.get("path", "").split("/")[0].split(".")[0]
            assert task.data["files"] or goal in task.instruction, task


def test_every_family_has_several_phrasings() -> None:
    for template in templates():
        plan = PLANS[template.level]
        count = plan.template if template.heldout else plan.train
        texts = [t.instruction for t in TASKS if t.family == template.name][:count]
        assert len({text.split()[0] + text.split()[-2] for text in texts}) > 1, template.name


def test_tasks_round_trip_through_json() -> None:
    assert [Task.from_json(t.to_json()) for t in TASKS] == TASKS


def test_each_task_has_a_goal_that_is_not_a_guard() -> None:
    assert all(any(not c.get("guard") for c in t.data["checks"]) for t in TASKS)
