"""The task set of mathematics with an interpreter, drawn from a seed.

Held out by template are topics that no training task has; by parameters known topics with numbers
of two digits and more that no training task holds.
"""

import random
from collections.abc import Callable

from envs.toolcall.code.answers import equal
from envs.toolcall.code.problems import TOPICS, Draw, Problem
from envs.types import Split, Task, TaskLimits

SEED = 71003
NUM_TRAIN, NUM_PARAMETERS, NUM_TEMPLATE = 30, 6, 12
MAX_STEPS = 6
LIMITS = TaskLimits(max_steps=MAX_STEPS, step_timeout_s=5.0, output_bytes=2000)


def load_tasks() -> list[Task]:
    """Return every task, the same each time."""
    tasks: list[Task] = []
    seen: set[str] = set()
    for name, topic, level, held in TOPICS:
        kinds = ["template"] * NUM_TEMPLATE
        if not held:
            kinds = [""] * NUM_TRAIN + ["parameters"] * NUM_PARAMETERS
        rng = random.Random(f"{SEED}/{name}")
        for place, kind in enumerate(kinds):
            problem, used = _draw(topic, rng, bool(kind), seen)
            seen.add(problem.text)
            tasks.append(_task(name, level, place, kind, problem, used))
    return tasks


def _draw(
    topic: Callable[[Draw], Problem], rng: random.Random, held: bool, seen: set[str]
) -> tuple[Problem, list[int]]:
    """Draw a problem whose text was not seen."""
    while True:
        draw = Draw(rng, held)
        problem = topic(draw)
        if problem.text not in seen and draw.used:
            return problem, sorted({*draw.used})


def _task(name: str, level: str, place: int, kind: str, problem: Problem, used: list[int]) -> Task:
    assert equal(problem.answer, problem.answer, problem.form, problem.names)
    split: Split = "heldout" if kind else "train"
    tags = [f"level:{level}", "source:generated", f"template:{name}"]
    return Task(
        id=f"code/{name}/{place:04d}", env="code", family=name, split=split,
        instruction=problem.text, image="python", limits=LIMITS,
        data={
            "answer": problem.answer, "form": problem.form, "names": list(problem.names),
            "cell": problem.code, "template": name, "parameters": used,
        },
        tags=(*tags, f"heldout:{kind}") if kind else tuple(tags),
    )  # fmt: skip
