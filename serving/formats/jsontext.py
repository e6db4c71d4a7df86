"""JSON written by a model: where it ends, what is in it, and the text of each part as it stands.

Arguments are handed on as the model wrote them, so values are read together with their text.
Nesting is limited before Python's own reader sees it: deep text is malformed, never a
``RecursionError``. Left out: repairs; what is nearly JSON is malformed.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from .marks import after_white
from .pieces import ToolCall

MAX_DEPTH = 100
MAX_NAME = 256
_NAME = re.compile(r"[\w./:@#$+-]+")
_TOKENS = re.compile(r'"(?:[^"\\]+|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


class Malformed(Exception):
    """Text that is no call.

    Attributes:
        reason: what is wrong, in one line; empty for text that never claimed to be a call.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Member(NamedTuple):
    """A value of an object, with its own text."""

    value: Any
    text: str


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def value_of(text: str) -> Any:
    """Return the value of a whole text; raises ``Malformed``."""
    check_depth(text)
    at = after_white(text, 0)
    value, at = _value(text, at)
    _expect_end(text, at)
    return value


def object_of(text: str) -> dict[str, Member]:
    """Return the members of the object that a whole text is; raises ``Malformed``."""
    check_depth(text)
    members, at = _object(text, after_white(text, 0))
    _expect_end(text, at)
    return members


def objects_of(text: str) -> list[dict[str, Member]]:
    """Return the objects of the array (or the one object) a text is; raises ``Malformed``."""
    check_depth(text)
    at = after_white(text, 0)
    if text[at : at + 1] != "[":
        members, at = _object(text, at)
        _expect_end(text, at)
        return [members]
    objects: list[dict[str, Member]] = []
    at = after_white(text, at + 1)
    while text[at : at + 1] != "]":
        if objects:
            at = after_white(text, _past(text, at, ","))
        members, at = _object(text, at)
        objects.append(members)
        at = after_white(text, at)
    _expect_end(text, at + 1)
    return objects


def call_of(members: dict[str, Member], *keys: str) -> ToolCall:
    """Return the call an object says.

    Args:
        members: of the object.
        keys: names the arguments may go by, the family's own first.

    Raises:
        Malformed: no name, or no arguments that are an object.
    """
    if "name" not in members:
        raise Malformed('the call has no "name"')
    key = next((key for key in keys if key in members), None)
    if key is None:
        raise Malformed(f'the call has no "{keys[0]}"')
    value, text = members[key]
    if isinstance(value, str):  # an object, written as a string
        value, text = value_of(value), value
    if not isinstance(value, dict):
        raise Malformed(f'"{key}" is not a JSON object')
    return ToolCall(checked_name(members["name"].value), text.strip())


def checked_name(name: object) -> str:
    """Return a function's name; raises ``Malformed`` for what cannot be one."""
    if not isinstance(name, str) or len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise Malformed("the function's name is not a short word")
    return name


def check_depth(text: str) -> None:
    """Raise ``Malformed`` for text nested deeper than ``MAX_DEPTH``."""
    depth = 0
    for found in _TOKENS.finditer(text):
        first = text[found.start()]
        if first in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise Malformed(f"nested deeper than {MAX_DEPTH}")
        elif first in "]}":
            depth -= 1


def _object(text: str, at: int) -> tuple[dict[str, Member], int]:
    members = {}
    for key, member, end in _members(text, at):
        at = end
        if key is not None:
            members[key] = member
    return members, at


def _members(text: str, at: int) -> Iterator[tuple[str | None, Member, int]]:
    """Yield key, value and where the value ends; last (None, …, the object's end)."""
    at = after_white(text, _past(text, at, "{"))
    first = True
    while text[at : at + 1] != "}":
        if not first:
            at = after_white(text, _past(text, at, ","))
        first = False
        if text[at : at + 1] != '"':
            raise Malformed(f"not JSON: a key is missing at character {at}")
        key, at = _value(text, at)
        start = after_white(text, _past(text, after_white(text, at), ":"))
        value, at = _value(text, start)
        yield key, Member(value, text[start:at]), at
        at = after_white(text, at)
    yield None, Member(None, ""), at + 1


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise Malformed(f"not JSON: {error.msg}, character {error.pos}") from error
    except ValueError as error:  # NaN; a number of thousands of digits
        raise Malformed(f"not JSON: {error}") from error


def _past(text: str, at: int, character: str) -> int:
    if text[at : at + 1] != character:
        raise Malformed(f"not JSON: {character!r} is missing at character {at}")
    return at + 1


def _expect_end(text: str, at: int) -> None:
    at = after_white(text, at)
    if at < len(text):
        raise Malformed(f"more text after the JSON at character {at}")
