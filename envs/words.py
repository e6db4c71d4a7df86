"""The words of a command line: names, ``key=value`` options, flags; each command names its own.

What a command does not know is refused, with the nearest it does know: an option that is ignored
makes a run that is not the one asked for.

Example:
    >>> words = parse(["terminal", "limit=4"], keys=("limit", "seed"))
    >>> words.names, words.number("limit"), words.number("seed", 0)
    (('terminal',), 4, 0)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from envs.registry import nearest


class UsageError(Exception):
    """The command line makes no sense; one line that says how it would."""


@dataclass(frozen=True)
class Words:
    """A command line taken apart.

    Attributes:
        names: words that are neither options nor flags, in order.
        options: values by key.
        flags: those given, with their dashes.
    """

    names: tuple[str, ...]
    options: Mapping[str, str]
    flags: frozenset[str]

    @overload
    def number(self, key: str, default: int, *, least: int = ...) -> int: ...
    @overload
    def number(self, key: str, default: None = ..., *, least: int = ...) -> int | None: ...
    def number(self, key: str, default: int | None = None, *, least: int = 0) -> int | None:
        """Return a whole number of at least ``least``. Raises ``UsageError``."""
        if key not in self.options:
            return default
        text = self.options[key]
        if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text) >= least):
            raise UsageError(f"{key}={text}: give a whole number from {least}")
        return int(text)

    def listed(self, key: str) -> list[str] | None:
        """Return the parts of a value between commas; None without the option."""
        return self.options[key].split(",") if key in self.options else None


def parse(argv: Sequence[str], *, keys: Sequence[str] = (), flags: Sequence[str] = ()) -> Words:
    """Take a command line apart. Raises ``UsageError`` for what is not among keys and flags."""
    names: list[str] = []
    options: dict[str, str] = {}
    given: set[str] = set()
    for word in argv:
        key, sign, value = word.partition("=")
        if word in flags:
            given.add(word)
        elif word.startswith("-"):
            raise UsageError(f"no flag {word!r} here: {_advice(word, flags)}")
        elif not sign:
            names.append(word)
        elif key not in keys:
            raise UsageError(f"no option {key!r} here: {_advice(key, keys)}")
        elif key in options:
            raise UsageError(f"{key} is there twice")
        elif not value:
            raise UsageError(f"{key}= has no value")
        else:
            options[key] = value
    return Words(tuple(names), options, frozenset(given))


def _advice(word: str, legal: Sequence[str]) -> str:
    return nearest(word, legal) if legal else "there is none"
