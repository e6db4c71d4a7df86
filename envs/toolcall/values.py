"""When two values of a call mean the same: case, blanks and composed accents do not matter."""

import unicodedata
from collections.abc import Mapping
from typing import Any


def same(left: Any, right: Any) -> bool:
    """True for values that mean the same.

    Example:
        >>> same({"city": "new  york", "n": 2}, {"n": 2.0, "city": "New York"})
        True
        >>> same(True, 1)
        False
    """
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, str) and isinstance(right, str):
        return left == right or plain(left) == plain(right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def plain(text: str) -> str:
    """Return text without the differences that do not matter."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
