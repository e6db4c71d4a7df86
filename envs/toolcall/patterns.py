"""How long a text may be for a regular expression to be tried on it without harm.

Python's engine backtracks: the number of ways to try grows with what may repeat. ``longest`` bounds
that number from above by the product of all choices, so it depends on nothing but the pattern: no
clock, equal answers on a slow machine. A repeat of unlimited length around something that itself
has a choice, as in ``(a+)+``, has no bound and is refused, also where it happens to be harmless.
Left out: linear-time engines, which read other dialects.
"""

import re
from collections.abc import Iterable
from re import _constants as codes  # type: ignore[attr-defined]  # the only parse tree there is
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

MAX_WAYS = 1_000_000
MAX_PATTERN_CHARS = 1000
LENGTHS = (16384, 4096, 1024, 512, 256, 128, 64, 32)


class UnsafePattern(ValueError):
    """A regular expression that cannot be used; says why."""


def longest(pattern: str) -> int:
    """Return the most characters of a text on which the pattern may be tried.

    Raises:
        UnsafePattern: not a regular expression, or one that may take for ever.

    Example:
        >>> longest("^O-[0-9]{4}$"), longest("^[a-z]+@[a-z]+$")
        (16384, 512)
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        raise UnsafePattern(f"a pattern of {len(pattern)} characters; {MAX_PATTERN_CHARS} at most")
    try:
        tree = parser.parse(pattern)
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UnsafePattern(f"the pattern {pattern[:60]!r} cannot be read: {error}") from None
    start = 1 if pattern.startswith("^") and "|" not in pattern else 0
    for length in LENGTHS:
        ways = _ways(tree, length) * (1 if start else length)
        if ways <= MAX_WAYS:
            return length
    raise UnsafePattern(f"the pattern {pattern[:60]!r} may try more than {MAX_WAYS} ways")


def _ways(items: Iterable[tuple[Any, Any]], length: int) -> int:
    """Bound the ways to match a sequence on a text of so many characters."""
    ways = 1
    for code, value in items:
        ways *= _ways_of(code, value, length)
        if ways > MAX_WAYS:
            return MAX_WAYS + 1
    return ways


def _ways_of(code: Any, value: Any, length: int) -> int:
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least, most, inner = value
        once = _ways(inner, length)
        unlimited = most is codes.MAXREPEAT or most > length
        if once > 1 and unlimited:
            raise UnsafePattern("a repeat without limit around a choice may take for ever")
        if once > 1 and most > MAX_WAYS.bit_length():
            return MAX_WAYS + 1
        times = length + 1 if unlimited else most - least + 1
        return int(times * (once ** int(most) if once > 1 else 1))
    if code is codes.BRANCH:
        return sum(_ways(branch, length) for branch in value[1])
    if code is codes.SUBPATTERN:
        return _ways(value[-1], length)
    if code is codes.ATOMIC_GROUP:
        return _ways(value, length)
    if code in (codes.ASSERT, codes.ASSERT_NOT):
        return _ways(value[1], length)
    if code is codes.GROUPREF_EXISTS:
        return _ways(value[1], length) + _ways(value[2] or (), length)
    return 1
