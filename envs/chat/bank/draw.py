"""Draws the parameters of a question; training and held-out tasks share no value of any of them.

A pool's every fourth value and every fifth number is kept for held-out tasks.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from envs.chat.request import Request
from envs.types import Split

T = TypeVar("T")

NAMES = (
    "Anna", "Ben", "Clara", "Dario", "Emil", "Farah", "Goran", "Hanna", "Ivo", "Jasmin", "Kofi",
    "Lena", "Mateo", "Nora", "Oskar", "Priya", "Quentin", "Rosa", "Samir", "Tilda", "Umar", "Vera",
    "Wim", "Yuki",
)  # fmt: skip


@dataclass
class Draw:
    """One question's parameters.

    Attributes:
        rng: the seeded source of all choices.
        split: whose values may be drawn.
        values: what was drawn, for the task's record.
    """

    rng: random.Random
    split: Split
    values: list[str] = field(default_factory=list)

    def pick(self, pool: Sequence[T]) -> T:
        """One value of a pool of four and more."""
        heldout = self.split == "heldout"
        value = self.rng.choice([v for i, v in enumerate(pool) if (i % 4 == 3) == heldout])
        self.values.append(str(value[0] if isinstance(value, tuple) else value))
        return value

    def number(self, low: int, high: int, step: int = 1) -> int:
        """A multiple of ``step`` within both ends."""
        heldout = self.split == "heldout"
        first = -(-low // step)
        legal = [n for n in range(first, high // step + 1) if (n % 5 == 2) == heldout]
        value = self.rng.choice(legal) * step
        self.values.append(str(value))
        return value

    def name(self) -> str:
        """A first name."""
        return self.pick(NAMES)

    def say(self, *phrasings: str) -> str:
        """One of several ways to put it; no parameter."""
        return self.rng.choice(phrasings)


@dataclass(frozen=True)
class Template:
    """A family of questions.

    Attributes:
        name: unique over all domains.
        domain: who asks it, see ``envs.chat.personas``.
        heldout: never in the training split.
        make: draws one question.
    """

    name: str
    domain: str
    heldout: bool
    make: Callable[[Draw], Request]


class Domain:
    """The templates of one domain; ``domain.template()`` adds the function below it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.templates: list[Template] = []

    def template(
        self, *, heldout: bool = False
    ) -> Callable[[Callable[[Draw], Request]], Callable[[Draw], Request]]:
        """Register a function as a template called by the function's name."""

        def register(make: Callable[[Draw], Request]) -> Callable[[Draw], Request]:
            self.templates.append(Template(make.__name__, self.name, heldout, make))
            return make

        return register
