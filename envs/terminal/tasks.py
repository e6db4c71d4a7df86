"""The generated task set: templates × parameters, cut into disjoint splits.

Training tasks use the training templates with the training words. Held-out tasks use the held-out
words: with training templates they are tagged ``heldout:parameters``, with templates never seen
in training ``heldout:template``.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from envs.errors import TaskError
from envs.terminal.draw import Draft, Draw, Group, Level, Template
from envs.terminal.templates import (
    archives,
    edits,
    files,
    folders,
    lines,
    permissions,
    processes,
    scripts,
    tables,
)
from envs.types import Split, Task, TaskLimits

GROUPS: tuple[Group, ...] = tuple(
    module.GROUP
    for module in (
        files,
        folders,
        lines,
        edits,
        tables,
        archives,
        permissions,
        processes,
        scripts,
    )
)
FIRST_NUMBER = {"train": 0, "heldout": 5000}
MOST_TRIES = 50
STEPS = {"trivial": 4, "easy": 4, "medium": 8, "hard": 12}


@dataclass(frozen=True)
class Plan:
    """How many tasks of one template are drawn, by level.

    Attributes:
        train: of a training template.
        parameters: held-out tasks of a training template.
        template: of a held-out template.
    """

    train: int
    parameters: int
    template: int


PLANS: dict[Level, Plan] = {
    "trivial": Plan(24, 3, 8),
    "easy": Plan(16, 3, 5),
    "medium": Plan(10, 2, 4),
    "hard": Plan(8, 2, 4),
}


def templates() -> list[Template]:
    """Return all templates. Their names are unique."""
    return [template for group in GROUPS for template in group.templates]


def generate(seed: int = 0) -> list[Task]:
    """Return the task set of this seed, always the same; other seeds give other parameters.

    Ids number the tasks of one seed and are not unique between seeds.
    """
    return list(_generate(seed))


def load_tasks() -> list[Task]:
    """Return the default task set."""
    return generate(0)


def _generate(seed: int) -> Iterator[Task]:
    for template in templates():
        plan = PLANS[template.level]
        if template.heldout:
            yield from draw_tasks(template, "heldout", plan.template, seed)
        else:
            yield from draw_tasks(template, "train", plan.train, seed)
            yield from draw_tasks(template, "heldout", plan.parameters, seed)


def draw_tasks(template: Template, split: Split, count: int, seed: int) -> Iterator[Task]:
    """Draw ``count`` tasks of one template with different instructions."""
    for place, draft in enumerate(draw_drafts(template, split, count, seed)):
        yield task_of(template, draft, split, FIRST_NUMBER[split] + place)


def draw_drafts(template: Template, split: Split, count: int, seed: int) -> Iterator[Draft]:
    """Draw ``count`` problems of one template with different instructions."""
    rng = random.Random(f"{template.name}/{split}/{seed}")
    seen: set[str] = set()
    for _ in range(count * MOST_TRIES):
        if len(seen) == count:
            return
        draft = template.make(Draw(rng, split))
        if draft.instruction not in seen:
            seen.add(draft.instruction)
            yield draft
    if len(seen) < count:
        raise TaskError(f"template {template.name} has fewer than {count} different tasks")


def task_of(template: Template, draft: Draft, split: Split, number: int) -> Task:
    """Give a draft its id, split, limits and tags."""
    tags = [f"level:{template.level}", f"skill:{template.skill}", "source:generated"]
    if split == "heldout":
        tags.append("heldout:template" if template.heldout else "heldout:parameters")
    return Task(
        id=f"terminal/{template.name}/{number:04d}",
        env="terminal",
        family=template.name,
        split=split,
        instruction=draft.instruction,
        limits=TaskLimits(max_steps=STEPS[template.level]),
        data={
            "files": dict(draft.files),
            "setup": draft.setup,
            "checks": draft.checks,
            "oracle": list(draft.oracle),
        },
        tags=tuple(tags),
    )
