"""JSON as models write it, read strictly: what Python's reader lets pass is refused by name.

Refused: a key twice, NaN and Infinity, numbers that no longer are, half surrogate pairs, more than
so many bytes or levels. Left out: repairs.
"""

import json
import math
from typing import Any, NoReturn

from envs.toolcall.failures import FailureKind

MAX_BYTES = 64 * 1024
MAX_DEPTH = 64


class BadJson(ValueError):
    """Text that is not JSON as required.

    Attributes:
        kind: of the failure.
        message: for the model.
    """

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(kind, message)
        self.kind, self.message = kind, message

    def __str__(self) -> str:
        return self.message


def loads(text: str, max_bytes: int = MAX_BYTES) -> Any:
    """Return the value of a JSON text.

    Raises:
        BadJson: names what is wrong.
    """
    if len(text) > max_bytes or (not text.isascii() and _num_bytes(text) > max_bytes):
        raise BadJson(
            FailureKind.TOO_LARGE, f"{len(text)} characters; at most {max_bytes} bytes are read"
        )
    try:
        value = _DECODER.decode(text)
    except BadJson:
        raise
    except json.JSONDecodeError as error:
        raise BadJson(
            FailureKind.NOT_JSON, f"not JSON: {error.msg}, character {error.pos}"
        ) from None
    except RecursionError:
        raise BadJson(FailureKind.TOO_DEEP, f"nested deeper than {MAX_DEPTH} levels") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and depth_of(value) > MAX_DEPTH:
        raise BadJson(FailureKind.TOO_DEEP, f"nested deeper than {MAX_DEPTH} levels")
    if not text.isascii() or "\\u" in text:
        _check_unicode(value)
    return value


def depth_of(value: Any, most: int = MAX_DEPTH) -> int:
    """Return how many levels of lists and objects a value has; counting ends past ``most``."""
    level: list[Any] = [value]
    depth = 0
    while level and depth <= most:
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
        if not any(isinstance(each, dict | list) for each in level):
            break
        depth += 1
        level = inner
    return depth


def shown(value: Any, most: int = 80) -> str:
    """Return a value as JSON in at most ``most`` characters."""
    if isinstance(value, str):
        value = value[: most + 1]
    elif isinstance(value, list):
        value = value[:most]
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (RecursionError, ValueError):
        text = f"({type(value).__name__})"
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _num_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise BadJson(FailureKind.DUPLICATE_KEY, f"the key {shown(key)} is there twice")
        seen.add(key)
    raise AssertionError("a key is there twice")


def _constant(name: str) -> NoReturn:
    raise BadJson(FailureKind.NOT_A_NUMBER, f"{name} is not a JSON number")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise BadJson(FailureKind.NUMBER_TOO_LARGE, f"the number {text[:40]} is too large")
    return value


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:  # Python refuses thousands of digits
        message = f"a number of {len(text)} digits is too large"
        raise BadJson(FailureKind.NUMBER_TOO_LARGE, message) from None


def _check_unicode(value: Any) -> None:
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, dict):
            rest.extend(each)
            rest.extend(each.values())
        elif isinstance(each, list):
            rest.extend(each)
        elif isinstance(each, str):
            try:
                each.encode()
            except UnicodeEncodeError:
                message = "a text holds half of a surrogate pair, which is no character"
                raise BadJson(FailureKind.BAD_UNICODE, message) from None


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float, parse_int=_int
)
