"""Labelled exchanges: one JSON object a line.

Example of a row::

    {"id": "a1", "kind": "correction", "style": "terse", "label": -1,
     "history": [{"role": "user", "content": "Name two rivers."}],
     "reply": {"role": "assistant", "content": "1. Nile 2. Rhine"},
     "next_state": [{"role": "user", "content": "no numbers"}]}

``relation``, ``finish_reason``, ``tools`` and ``feedback`` may be given as in
``rl.judge.types.Exchange``; ``kind``, ``style`` and ``label`` are not read when judging.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rl.judge.types import Exchange, Relation
from serving.turns import Feedback


def exchange_of(row: Mapping[str, Any]) -> Exchange:
    """Return the exchange of a row.

    Raises:
        ValueError: a field is missing or of the wrong kind; the message names it.
    """
    try:
        return Exchange(
            id=str(row.get("id", "")),
            history=_messages(row, "history"),
            reply=_message(row["reply"], "reply"),
            next_state=_messages(row, "next_state"),
            relation=Relation(row.get("relation", "continued")),
            finish_reason=str(row.get("finish_reason", "stop")),
            tools=tuple(row.get("tools") or ()),
            feedback=tuple(Feedback(**{"turn": "", **said}) for said in row.get("feedback") or ()),
        )
    except KeyError as error:
        raise ValueError(f"{error.args[0]} is missing") from None
    except TypeError as error:
        raise ValueError(str(error)) from None


def read(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Return each row with the number of its line; empty lines are passed over.

    Raises:
        ValueError: a line that is no JSON object; the message has its number.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"line {number}: not JSON ({error})") from None
        if not isinstance(row, dict):
            raise ValueError(f"line {number}: not a JSON object")
        yield number, row


def _messages(row: Mapping[str, Any], key: str) -> tuple[Mapping[str, Any], ...]:
    value = row[key]
    if not isinstance(value, list):
        raise ValueError(f"{key} must be a list of messages")
    return tuple(_message(message, key) for message in value)


def _message(value: Any, key: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not isinstance(value.get("role"), str):
        raise ValueError(f'{key} must hold messages {{"role": ..., "content": ...}}')
    return value
