"""InterCode records: questions with a gold answer, a JSON list (or JSON lines) in a file.

Left out: playing them, and the official reward, which gives 0.67 for doing nothing on most bash
rows: it is no signal to train on.

Example:
    >>> parse_rows('[{"query": "List all.", "gold": "ls -a"}]', "bash")[0].gold
    'ls -a'
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from envs.errors import TaskError
from envs.terminal.formats.record import FormatRecord, validated

Kind = Literal["bash", "sql", "python", "ctf"]


class BashRow(FormatRecord):
    """nl2bash: ``gold`` is a command that answers ``query``."""

    query: str
    gold: str


class SqlRow(FormatRecord):
    """Spider: ``gold`` is a query on the database ``db``."""

    db: str
    query: str
    gold: str
    hardness: str | None = None
    db_tables: Any = None


class PythonRow(FormatRecord):
    """MBPP: ``tests`` are assertions that ``gold`` passes."""

    query: str
    gold: str
    tests: tuple[str, ...] = ()
    task_id: int | str | None = None
    test_setup_code: str = ""


class CtfRow(FormatRecord):
    """A capture-the-flag problem: ``gold`` is the flag."""

    task_id: int | str
    query: str
    gold: str
    source: str | None = None
    tags: tuple[str, ...] = Field(default=())


ROWS: Mapping[Kind, type[FormatRecord]] = {
    "bash": BashRow,
    "sql": SqlRow,
    "python": PythonRow,
    "ctf": CtfRow,
}


def parse_rows(text: str, kind: Kind, source: str = "records") -> tuple[Any, ...]:
    """Return the records of a file: ``BashRow``, ``SqlRow``, ``PythonRow`` or ``CtfRow``.

    Raises:
        TaskError: no JSON, no list, an unknown kind or a bad record; names source, row and key.
    """
    if kind not in ROWS:
        raise TaskError(f"kind {kind!r}: choose one of {', '.join(ROWS)}")
    try:
        rows = json.loads(text)
    except RecursionError as error:
        raise TaskError(f"{source}: nested too deeply") from error
    except ValueError:
        rows = _lines(text, source)
    if isinstance(rows, dict):
        rows = [rows]
    if not isinstance(rows, list):
        raise TaskError(f"{source}: give a list of records")
    return tuple(
        validated(ROWS[kind], row, f"{source}, record {number}")
        for number, row in enumerate(rows, 1)
    )


def _lines(text: str, source: str) -> list[Any]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise TaskError(f"{source}, line {number}: no JSON: {error}") from error
    return rows
