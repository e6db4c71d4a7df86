"""The shop's tasks: plots in shops of their own, held out by plot or by shop."""

import json
import random
from collections.abc import Iterator

from envs.toolcall.users import Fact, UserPlan
from envs.toolcall.worlds.shop.records import Customer, draw_shop
from envs.toolcall.worlds.shop.stories import (
    INTROS,
    NAMELESS,
    PLOTS,
    PUSHES,
    Plot,
    Scene,
    Story,
    oracle,
)
from envs.types import Split, Task, TaskLimits

SEED = 7000
NUM_TRAIN, NUM_PARAMETERS, NUM_TEMPLATE = 10, 2, 8
SPARE_STEPS = 6
OUTPUT_BYTES = 3000


def shop_tasks() -> list[Task]:
    """Return every task, the same each time."""
    seen: set[str] = set()
    return [task for number, plot in enumerate(PLOTS) for task in _of_plot(number, plot, seen)]


def _of_plot(number: int, plot: Plot, seen: set[str]) -> Iterator[Task]:
    kinds = (
        ["template"] * NUM_TEMPLATE
        if plot.held
        else ([""] * NUM_TRAIN + ["parameters"] * NUM_PARAMETERS)
    )
    seed = SEED + 1000 * number
    for place, kind in enumerate(kinds):
        task = None
        while task is None or task.instruction in seen:
            seed += 1
            task = _draw(plot, place, kind, seed)
        seen.add(task.instruction)
        yield task


def _draw(plot: Plot, place: int, kind: str, seed: int) -> Task | None:
    """Draw a task in the shop of a seed; None when the plot does not fit anyone there."""
    rng, held = random.Random(f"story/{seed}"), bool(kind)
    shop = draw_shop(seed, held)
    customer = rng.choice(sorted(shop.customers.values(), key=lambda each: each.id))
    story = plot.draw(Scene(shop, customer, held, rng))
    if story is None:
        return None
    gives_email = rng.random() < 0.6
    user = _user(story, customer, gives_email, rng)
    actions = list(oracle(story, customer, gives_email))
    split: Split = "heldout" if kind else "train"
    more = story.more.told if story.more else ()
    data = {
        "world": "shop",
        "seed": seed,
        "held": held,
        "user": user.to_json(),
        "told": [list(ways) for ways in (*story.told, *more)],
        "oracle": [
            {"content": action.content, "tool_calls": [each.to_json() for each in action.calls]}
            for action in actions
        ],
        "template": f"shop_{plot.name}",
        "parameters": [f"customer={customer.name}"],
    }
    tags = (f"level:{plot.level}", "source:generated", f"template:shop_{plot.name}")
    return Task(
        id=f"toolcall/shop_{plot.name}/{place:04d}",
        env="toolcall",
        family=f"shop_{plot.name}",
        split=split,
        instruction=user.opening,
        image="",
        limits=TaskLimits(max_steps=len(actions) + SPARE_STEPS, output_bytes=OUTPUT_BYTES),
        data=json.loads(json.dumps(data)),
        tags=(*tags, f"heldout:{kind}") if kind else tags,
    )


def _user(story: Story, customer: Customer, gives_email: bool, rng: random.Random) -> UserPlan:
    intro = rng.choice(INTROS if gives_email else NAMELESS)
    opening = f"{intro.format(n=customer.name, e=customer.email)} {story.wish}"
    email = rng.choice(("It is {}.", "My e-mail address is {}.", "{}")).format(customer.email)
    facts = (
        Fact(("email", "e-mail", "mail address", "who you are", "identify", "verify"), email),
        Fact(("name", "who am i speaking"), f"My name is {customer.name}."),
        Fact(("postcode", "postal", "zip", "post code"), f"My postcode is {customer.postcode}."),
        *story.facts,
    )
    more = [rng.choice(PUSHES)] if story.pushes else []
    if story.more is not None:
        more.append(rng.choice(("Good. And: ", "One more thing. ", "Fine. ")) + story.more.wish)
    return UserPlan(opening, facts, tuple(more))
