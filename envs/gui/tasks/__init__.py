"""The generated set of desktop tasks: templates × parameters, cut into disjoint splits.

Training tasks use training templates and training words; held-out ones use held-out words, with
training templates (``heldout:parameters``) or with templates never trained on
(``heldout:template``).
"""

import random
from collections.abc import Iterator

from envs.errors import TaskError
from envs.gui.tasks import editor, forms
from envs.gui.tasks.drafts import Draft, Group, Template
from envs.terminal.draw import Draw
from envs.types import Split, Task, TaskLimits

GROUPS: tuple[Group, ...] = (forms.GROUP, editor.GROUP)
NUM_TRAIN, NUM_PARAMETERS, NUM_TEMPLATE = 20, 4, 8
FIRST_NUMBER = {"train": 0, "heldout": 5000}
MOST_TRIES = 50
STEPS = {"trivial": 4, "easy": 6, "medium": 8, "hard": 10}
LIMITS = {"memory_bytes": 1 << 30, "pids": 256, "disk_bytes": 128 << 20, "cpus": 2.0}


def templates() -> list[Template]:
    """Return all templates. Their names are unique."""
    return [template for group in GROUPS for template in group.templates]


def generate(seed: int = 0) -> list[Task]:
    """Return the task set of this seed, always the same; other seeds give other parameters."""
    return [task for template in templates() for task in _of(template, seed)]


def load_tasks() -> list[Task]:
    """Return the default task set."""
    return generate(0)


def _of(template: Template, seed: int) -> Iterator[Task]:
    if template.heldout:
        yield from draw_tasks(template, "heldout", NUM_TEMPLATE, seed)
    else:
        yield from draw_tasks(template, "train", NUM_TRAIN, seed)
        yield from draw_tasks(template, "heldout", NUM_PARAMETERS, seed)


def draw_tasks(template: Template, split: Split, count: int, seed: int) -> Iterator[Task]:
    """Draw ``count`` different tasks of a template. Raises ``TaskError`` when there are fewer."""
    rng = random.Random(f"gui/{template.name}/{split}/{seed}")
    seen: set[str] = set()
    for _ in range(count * MOST_TRIES):
        if len(seen) == count:
            return
        draft = template.make(Draw(rng, split))
        key = f"{draft.instruction} {draft.form} {sorted(draft.files.items())}"
        if key not in seen:
            seen.add(key)
            yield _task(template, draft, split, FIRST_NUMBER[split] + len(seen) - 1)
    if len(seen) < count:
        raise TaskError(f"template {template.name} has fewer than {count} different tasks")


def _task(template: Template, draft: Draft, split: Split, number: int) -> Task:
    tags = [f"level:{template.level}", "source:generated"]
    if split == "heldout":
        tags.append("heldout:template" if template.heldout else "heldout:parameters")
    return Task(
        id=f"gui/{template.name}/{number:04d}",
        env="gui",
        family=template.name,
        split=split,
        instruction=draft.instruction,
        image="gui",
        limits=TaskLimits(max_steps=STEPS[template.level], **LIMITS),  # type: ignore[arg-type]
        data={
            "files": dict(draft.files),
            "form": draft.form,
            "apps": [list(argv) for argv in draft.apps],
            "checks": draft.checks,
            "oracle": [*draft.oracle, "done"],
        },
        tags=tuple(tags),
    )
