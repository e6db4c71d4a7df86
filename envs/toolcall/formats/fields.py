"""Reading rows of others: what is not supported is refused by its name."""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from envs.errors import TaskError


def only(row: Any, known: Collection[str], where: str) -> Mapping[str, Any]:
    """Return a row whose fields are all known. Raises ``TaskError``, which names the others."""
    if not isinstance(row, Mapping):
        raise TaskError(f"{where}: an object is needed, not {type(row).__name__}")
    strange = sorted(set(row) - set(known))
    if strange:
        raise TaskError(f"{where}: not supported: {', '.join(map(str, strange))}")
    return row


def text_of(row: Mapping[str, Any], key: str, where: str) -> str:
    """Return a field that is text, "" when missing. Raises ``TaskError``."""
    value = row.get(key) or ""
    if not isinstance(value, str):
        raise TaskError(f"{where}: {key} must be text; parts of other kinds are not supported")
    return value


def listed(row: Mapping[str, Any], key: str, where: str) -> list[Any]:
    """Return a field that is a list, empty when missing. Raises ``TaskError``."""
    value = row.get(key) or []
    if not isinstance(value, list):
        raise TaskError(f"{where}: {key} must be a list")
    return value


def rows_of(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield where and what: the objects of a JSON list, or of lines. Raises ``TaskError``."""
    try:
        text = path.read_text("utf-8")
        if text.lstrip().startswith("["):
            values = json.loads(text)
        else:
            values = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (OSError, ValueError, RecursionError) as error:
        raise TaskError(f"{path} cannot be read: {error}") from None
    for number, value in enumerate(values, 1):
        yield f"{path.name}, row {number}", value
