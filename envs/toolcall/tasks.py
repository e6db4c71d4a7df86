"""The task set: single requests by family, then the tasks of the worlds.

Held out by template are tools that no training task offers; by parameters known tools with
values that no training task holds.
"""

import json
import random
from collections.abc import Iterator

from envs.toolcall.bank.families import FAMILIES, Side
from envs.toolcall.worlds.airline.tasks import airline_tasks
from envs.toolcall.worlds.desk.tasks import desk_tasks
from envs.toolcall.worlds.office.tasks import office_tasks
from envs.toolcall.worlds.shop.tasks import shop_tasks
from envs.types import Split, Task, TaskLimits

SEED = 40961
COUNTS: dict[tuple[Split, str], int] = {
    ("train", ""): 40,
    ("heldout", "parameters"): 6,
    ("heldout", "template"): 8,
}
OUTPUT_BYTES = 3000


def load_tasks() -> list[Task]:
    """Return every task, the same each time."""
    return [*_requests(), *shop_tasks(), *office_tasks(), *airline_tasks(), *desk_tasks()]


def _requests() -> Iterator[Task]:
    seen: set[str] = set()
    for family in FAMILIES:
        rng, number = random.Random(f"{SEED}/{family}"), 0
        for (split, kind), count in COUNTS.items():
            for _ in range(count):
                yield _draw(family, number, split, kind, rng, seen)
                number += 1


def _draw(
    family: str, number: int, split: Split, kind: str, rng: random.Random, seen: set[str]
) -> Task:
    """Draw a task whose request was not seen."""
    made = FAMILIES[family]
    side = Side(held_tools=kind == "template", held_values=bool(kind))
    draft = made.draw(side, rng)
    while draft.user.opening in seen:
        draft = made.draw(side, rng)
    seen.add(draft.user.opening)
    tags = [f"level:{made.level}", "source:generated", f"template:{draft.template}"]
    return Task(
        id=f"toolcall/{family}/{number:04d}",
        env="toolcall",
        family=family,
        split=split,
        instruction=draft.user.opening,
        image="",
        limits=TaskLimits(max_steps=made.max_steps, output_bytes=OUTPUT_BYTES),
        data=json.loads(json.dumps(draft.data())),
        tags=(*tags, f"heldout:{kind}") if kind else tuple(tags),
    )
