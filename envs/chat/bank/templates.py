"""All templates, by domain."""

import random
from functools import cache

from envs.chat.bank import home, languages, school, work
from envs.chat.bank.draw import Draw, Template
from envs.chat.request import Request
from envs.types import Split


@cache
def by_domain() -> dict[str, tuple[Template, ...]]:
    """Return the templates of every domain."""
    domains = (*school.DOMAINS, *home.DOMAINS, *work.DOMAINS, *languages.DOMAINS)
    return {domain.name: tuple(domain.templates) for domain in domains}


def draw_request(
    domain: str, split: Split, heldout_template: bool, rng: random.Random
) -> tuple[Template, Request, tuple[str, ...]]:
    """Draw a question: its template, itself, and the parameters it was made of."""
    legal = [t for t in by_domain()[domain] if t.heldout == heldout_template]
    template = rng.choice(legal)
    draw = Draw(rng, split)
    return template, template.make(draw), tuple(draw.values)
