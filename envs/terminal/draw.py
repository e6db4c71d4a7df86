"""What templates draw their parameters from: a seeded generator over two disjoint pools of words.

Everything a task calls by a made-up name (files, folders, contents, people) comes from ``POOLS``,
so held-out tasks share no such word with the training tasks.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from envs.types import Split

Level = Literal["trivial", "easy", "medium", "hard"]
LEVELS: tuple[Level, ...] = ("trivial", "easy", "medium", "hard")


@dataclass(frozen=True)
class Pool:
    """Words of one split: ``nouns`` name files and folders, ``words`` fill them."""

    nouns: tuple[str, ...]
    words: tuple[str, ...]
    people: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


POOLS: Mapping[Split, Pool] = {
    "train": Pool(
        nouns=_words("""
            notes report data list draft plan letter story poem recipe budget orders stock items
            books songs movies cities plants birds tools parts games events tasks ideas facts
            answers results scores prices bills grades names colors shapes lessons rooms trips
            photos quotes users teams models maps logs jobs forms docs work home
        """),
        words=_words("""
            apple river stone cloud green tiger paper chair lemon music winter bread silver garden
            window bottle summer copper forest orange castle pencil dragon rocket island mirror
            button candle pepper violet basket planet shadow thunder marble rabbit
        """),
        people=_words("""
            anna ben carl dora emil fred gina hugo ivan jane karl lena mark nina otto paul
        """),
    ),
    "heldout": Pool(
        nouns=_words("""
            memo journal archive index summary invoice ledger catalog survey diary essay agenda
            menu rivers animals fruits tickets clients drivers signals pages records sports
            flights hotels schools bridges markets
        """),
        words=_words("""
            banana ocean metal storm purple falcon carpet table cherry guitar autumn butter golden
            meadow ladder barrel spring bronze desert yellow temple hammer wizard engine harbor
            anchor
        """),
        people=_words("rosa sven tara ugo vera walt xena yuri zoe liam mona nils"),
    ),
}


class Draw:
    """One task's draws; names do not repeat within a task.

    Args:
        rng: the seeded source of all choices.
        split: which pool words come from.
    """

    def __init__(self, rng: random.Random, split: Split) -> None:
        self.rng = rng
        self.pool = POOLS[split]
        self._nouns = rng.sample(self.pool.nouns, len(self.pool.nouns))

    def noun(self) -> str:
        """A name not used in this task yet."""
        return self._nouns.pop()

    def file(self, ext: str = "txt") -> str:
        """A file name, without folder."""
        return f"{self.noun()}.{ext}"

    def path(self, ext: str = "txt") -> str:
        """A file name, in a sub-folder in one of three draws."""
        return f"{self.noun()}/{self.file(ext)}" if self.rng.random() < 1 / 3 else self.file(ext)

    def word(self) -> str:
        """One word."""
        return self.rng.choice(self.pool.words)

    def words(self, low: int, high: int | None = None) -> list[str]:
        """Between ``low`` and ``high`` different words."""
        return self.rng.sample(self.pool.words, self.number(low, high or low))

    def phrase(self, low: int = 2, high: int = 3) -> str:
        """A few words with blanks between."""
        return " ".join(self.words(low, high))

    def people(self, low: int, high: int | None = None) -> list[str]:
        """Between ``low`` and ``high`` different people."""
        return self.rng.sample(self.pool.people, self.number(low, high or low))

    def number(self, low: int, high: int) -> int:
        """An integer, both ends included."""
        return self.rng.randint(low, high)

    def numbers(self, count: int, low: int = 1, high: int = 99) -> list[int]:
        """Different integers in no order."""
        return self.rng.sample(range(low, high + 1), count)

    def lines(self, low: int, high: int) -> list[str]:
        """Different lines of two words each."""
        first, count = self.words(3, 6), self.number(low, high)
        lines: dict[str, None] = {}
        while len(lines) < count:
            lines[f"{self.rng.choice(first)} {self.word()}"] = None
        return list(lines)

    def shuffled(self, values: list[Any]) -> list[Any]:
        """The same values in another order."""
        return self.rng.sample(values, len(values))

    def say(self, *phrasings: str, **values: object) -> str:
        """One of the phrasings, filled in."""
        return self.rng.choice(phrasings).format(**values)


def text(lines: list[str] | list[int]) -> str:
    """Return lines as a file's text."""
    return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True)
class Draft:
    """One problem as a template draws it.

    Attributes:
        instruction: in words.
        oracle: commands that solve it; every command is also a demonstration.
        checks: the goal state.
        files: the start, path → text or a dict that ``envs.terminal.placer`` explains.
        setup: commands run by bash after the files are there.
        alternatives: other right solutions, for tests.
    """

    instruction: str
    oracle: tuple[str, ...]
    checks: list[dict[str, Any]]
    files: Mapping[str, Any] = field(default_factory=dict)
    setup: str = ""
    alternatives: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Template:
    """A family of problems.

    Attributes:
        name: also the family of its tasks.
        level, skill: become tags.
        heldout: no task of this family is ever in the training split.
        make: draws one problem.
    """

    name: str
    level: Level
    skill: str
    heldout: bool
    make: Callable[[Draw], Draft]


class Group:
    """The templates of one skill; ``group.template(level)`` adds the function below it."""

    def __init__(self, skill: str) -> None:
        self.skill = skill
        self.templates: list[Template] = []

    def template(
        self, level: Level, *, heldout: bool = False
    ) -> Callable[[Callable[[Draw], Draft]], Callable[[Draw], Draft]]:
        """Register a function as a template called by the function's name."""

        def register(make: Callable[[Draw], Draft]) -> Callable[[Draw], Draft]:
            self.templates.append(Template(make.__name__, level, self.skill, heldout, make))
            return make

        return register
