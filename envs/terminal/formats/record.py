"""What the records of the formats share: frozen, keys nobody knows kept aside, errors with a name.

The official readers ignore unknown keys, and a task that loads there must load here. So they are
kept, in ``model_extra`` of the record they stand in, and ``unknown_keys`` lists them for people.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from envs.errors import TaskError

Record = TypeVar("Record", bound="FormatRecord")


class FormatRecord(BaseModel):
    """A part of a task file. Converts as the official readers do: ``"900"`` is a number."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)


def validated(kind: type[Record], value: Any, source: str) -> Record:
    """Return the record of a parsed file. Raises ``TaskError`` with source, key and reason."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'the whole'}: "
            f"{fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors(include_url=False)
        ]
        raise TaskError(f"{source}: {'; '.join(faults)}") from error
    except RecursionError as error:
        raise TaskError(f"{source}: nested too deeply") from error


def unknown_keys(record: FormatRecord) -> tuple[str, ...]:
    """Return the dotted names of keys that the format does not know, sorted."""
    return tuple(sorted(_unknown(record, "")))


def _unknown(value: object, path: str) -> Iterator[str]:
    if isinstance(value, FormatRecord):
        yield from (f"{path}{key}" for key in value.model_extra or {})
        for name in type(value).model_fields:
            yield from _unknown(getattr(value, name), f"{path}{name}.")
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _unknown(item, f"{path}{index}.")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _unknown(item, f"{path}{key}.")


def read_text(path: Path) -> str:
    """Return a file's text. Raises ``TaskError`` that names the file."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path} cannot be read: {error}") from error
