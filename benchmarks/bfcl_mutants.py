"""Answers to compare two checkers on: right ones from the allowed values, wrong, malformed."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MALFORMED = (
    "", "[]", "I cannot help with that.", "[f(]", "[f(a=1)", "f(a=1))", "```[g(x=1)]```", "[[]]",
    "{}", "[{'f': {'a': 1}}]", "f", "[f]", "[f(1, 2)]", "[f(a=g(1))]", "[f(a=g(b=1))]", "None",
    "[f(a={'b': 1}, **c)]", "[f(a=1) if b else g()]", "[f(a=[i for i in x])]", "f(a=1); g(b=2)",
    "[f(a=-1, b=2 + 3, c=x[0], d=...)]", "'[f(a=1)]'", "[f(a=not True)]", "[f(a=lambda: 1)]",
    "[f(a='x' 'y', b=b'z')]", "[f(a=1, a=2)]", "(f(a=1))", "[f(a=+3)]", "[f(a=3 * 'ab')]",
    "[a.b.c(d=1)]",
)  # fmt: skip


def answers_to(
    gold: Any, functions: Sequence[Mapping[str, Any]], rng: random.Random
) -> Iterator[tuple[str, str]]:
    """Yield kinds and texts of answers.

    Args:
        gold: the allowed calls; None where none or any call is right.
        functions: described in the question.
    """
    yield "malformed", rng.choice(MALFORMED)
    if gold is None:
        yield "call", f"[{functions[0]['name']}()]" if functions else "[f(a=1)]"
        yield "prose", rng.choice(("None of these fits.", "Sorry: no function can do that.", ""))
        return
    calls = [_chosen(each, rng) for each in gold]
    yield "right", _text(calls)
    yield "other", _text([_chosen(each, rng, first=False) for each in gold])
    yield "shuffled", _text(rng.sample(calls, len(calls)))
    yield "fewer", _text(calls[:-1])
    yield "more", _text([*calls, calls[0]])
    for _ in range(3):
        place = rng.randrange(len(calls))
        kind, changed = _changed(*calls[place], rng)
        yield kind, _text([*calls[:place], changed, *calls[place + 1 :]])


Call = tuple[str, dict[str, Any]]


def _chosen(gold: Mapping[str, Any], rng: random.Random, first: bool = True) -> Call:
    """Return a call of allowed values."""
    ((name, parameters),) = gold.items()
    given = {}
    for key, values in parameters.items():
        if not values:
            continue
        value = values[0] if first else rng.choice(values)
        if value == "" and len(values) > 1 and first:
            value = next(each for each in values if each != "")
        if value != "":
            given[key] = _plain(value, rng)
    return name, given


def _plain(value: Any, rng: random.Random) -> Any:
    """Turn allowed values of a record, which are lists, into one of them each."""
    if isinstance(value, dict):
        picked = {key: values for key, values in value.items() if isinstance(values, list)}
        found = {key: rng.choice(values) for key, values in picked.items() if values}
        return {key: item for key, item in found.items() if item != ""} or value
    if isinstance(value, list):
        return [_plain(item, rng) for item in value]
    return value


def _changed(name: str, given: Mapping[str, Any], rng: random.Random) -> tuple[str, Call]:
    """Spoil a call in one way."""
    made = dict(given)
    key = rng.choice(sorted(made)) if made else ""
    kind = rng.choice(("name", "missing", "extra", "type", "value", "case", "variable", "nested"))
    if kind == "name":
        return kind, (f"{name}_x", made)
    if kind == "extra" or not key:
        return "extra", (name, {**made, "surplus": 1})
    value = made[key]
    if kind == "missing":
        del made[key]
    elif kind == "type":
        made[key] = rng.choice((str(value), [value], 1, 1.0, True, None, {"a": 1}, (1, 2), "", []))
    elif kind == "value":
        made[key] = _other(value, rng)
    elif kind == "case":
        made[key] = value.upper().replace(" ", "-") if isinstance(value, str) else value
    elif kind == "variable":
        made[key] = "some_name"
    else:
        made[key] = [value, value] if not isinstance(value, list) else [*value, "x"]
    return kind, (name, made)


def _other(value: Any, rng: random.Random) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + rng.choice((1, 0.5, -value))
        case str():
            return value + rng.choice(("x", ".", " ", "'", "é"))
        case list():
            return value[::-1]
        case dict():
            return {**value, "surplus": json.loads("1")}
    return value


def _text(calls: Sequence[Call]) -> str:
    written = [
        f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})"
        for name, given in calls
    ]
    return f"[{', '.join(written)}]"
