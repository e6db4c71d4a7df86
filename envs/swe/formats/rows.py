"""Rows of SWE-bench (v4 and v5), SWE-smith and SWE-rebench: one record for all, told apart by keys.

SWE-smith's ``patch`` makes the bug: the fix is its reverse, and ``reversed`` says so. Lists of test
ids come as lists or as JSON text. Unknown keys are ignored, as officially.

Example:
    >>> row = parse_row({"instance_id": "a__b-1", "repo": "a/b", "base_commit": "c", "patch": "p",
    ...                  "test_patch": "t", "problem_statement": "It fails.", "version": "1.0",
    ...                  "FAIL_TO_PASS": '["t.py::x"]', "PASS_TO_PASS": "[]"})
    >>> row.kind, row.fail_to_pass
    ('swe-bench', ('t.py::x',))
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from envs.errors import TaskError

Kind = Literal["swe-bench", "swe-bench-5", "swe-smith", "swe-rebench"]
_INSTALL_KEYS = ("python", "install", "test_cmd", "log_parser")


@dataclass(frozen=True)
class Row:
    """One instance.

    Attributes:
        kind: which format it is of.
        instance_id, repo, base_commit, version: as in the row; "" where the format has none.
        problem_statement: what the agent is told.
        patch: the reference patch; of a SWE-smith row the one that makes the bug.
        reversed: the fix is ``patch`` applied in reverse.
        test_patch: brings the tests that judge; "" where they are in the tree.
        fail_to_pass, pass_to_pass: test ids, in the row's order.
        image: name of the image, "" when it follows from the id.
        eval_script: v5's script; "" for the other formats.
        log_parser: key of the official parser table, "" when it follows from the repository.
        eval_type: ``pass_and_fail``, or ``fail_only`` for runners that print failures alone.
        install: SWE-rebench's ``install_config``; empty for the others.
    """

    kind: Kind
    instance_id: str
    repo: str
    base_commit: str
    version: str
    problem_statement: str
    patch: str
    test_patch: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    reversed: bool = False
    image: str = ""
    eval_script: str = ""
    log_parser: str = ""
    eval_type: str = "pass_and_fail"
    install: Mapping[str, Any] = field(default_factory=dict)


def parse_row(row: Mapping[str, Any], source: str = "row") -> Row:
    """Return the record of a row. Raises ``TaskError`` that names source and key."""
    install = _install(row, source)
    kind = _kind(row, bool(install))
    smith = kind == "swe-smith"
    return Row(
        kind=kind,
        instance_id=_text(row, "instance_id", source),
        repo=_text(row, "repo", source),
        base_commit=_text(row, "base_commit", source, "" if smith else None),
        version=_text(row, "version", source, ""),
        problem_statement=_text(row, "problem_statement", source, "" if smith else None),
        patch=_text(row, "patch", source),
        test_patch=_text(row, "test_patch", source, "" if smith else None),
        fail_to_pass=_ids(row, "FAIL_TO_PASS", source),
        pass_to_pass=_ids(row, "PASS_TO_PASS", source),
        reversed=smith,
        image=_text(row, "image_name" if smith else "image", source, ""),
        eval_script=_text(row, "eval_script", source, ""),
        log_parser=_text(row, "log_parser", source, "") or str(install.get("log_parser", "")),
        eval_type=_text(row, "eval_type", source, "pass_and_fail"),
        install=install,
    )


def read_rows(path: Path) -> list[Row]:
    """Read JSON lines or a JSON list of rows; ids must differ. Raises ``TaskError``."""
    try:
        text = path.read_text("utf-8")
        whole = json.loads(text) if text.lstrip().startswith("[") else None
        rows = whole or [json.loads(line) for line in text.splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise TaskError(f"{path} cannot be read as rows: {error}") from error
    found = [parse_row(row, f"{path}, row {number}") for number, row in enumerate(rows, 1)]
    ids = [row.instance_id for row in found]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise TaskError(f"{path}: instance ids that are there twice: {', '.join(twice)}")
    return found


def image_names(row: Row, namespace: str = "swebench") -> tuple[str, str]:
    """Return an instance's image as upstream names it: built locally, and in the registry.

    Example:
        >>> row = parse_row({"instance_id": "A__b-1", "repo": "A/b", "patch": "",
        ...                  "FAIL_TO_PASS": [], "PASS_TO_PASS": [], "image_name": "own/x"})
        >>> image_names(row)[0]
        'sweb.eval.x86_64.a__b-1:latest'
    """
    name = row.instance_id.lower()
    public = row.image or f"{namespace}/sweb.eval.x86_64.{name.replace('__', '_1776_')}:latest"
    return f"sweb.eval.x86_64.{name}:latest", public


def _kind(row: Mapping[str, Any], installs: bool) -> Kind:
    if installs:
        return "swe-rebench"
    if "image_name" in row and "test_patch" not in row:
        return "swe-smith"
    return "swe-bench-5" if "eval_script" in row else "swe-bench"


def _install(row: Mapping[str, Any], source: str) -> Mapping[str, Any]:
    """Return SWE-rebench's column; only what it needs to be used is required."""
    value = row.get("install_config")
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TaskError(f"{source}: install_config is no object")
    if lacking := [key for key in _INSTALL_KEYS if key not in value]:
        raise TaskError(f"{source}: install_config lacks {', '.join(lacking)}")
    return dict(value)


def _text(row: Mapping[str, Any], key: str, source: str, default: str | None = None) -> str:
    value = row.get(key, default)
    value = default if value is None else value
    if not isinstance(value, str):
        raise TaskError(f"{source}: {key}={value!r:.80}: give text")
    return value


def _ids(row: Mapping[str, Any], key: str, source: str) -> tuple[str, ...]:
    value = row.get(key)
    try:
        ids = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        ids = None
    if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids):
        raise TaskError(f"{source}: {key}={value!r:.80}: give a list of test ids")
    return tuple(ids)
