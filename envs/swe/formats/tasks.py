"""Rows of SWE-bench, SWE-smith and SWE-rebench as tasks of ``env=swe``.

``tasks.path=ROWS.jsonl`` plays them. A row's ``split`` counts where it has one. Else SWE-bench's
rows are held out, as evaluation data is never trained on, and of the others every fifth is.
"""

import json
from pathlib import Path
from typing import Any

from envs.errors import TaskError
from envs.swe.formats.rows import Row, parse_row
from envs.types import Split, Task, TaskLimits

LIMITS = TaskLimits(
    max_steps=100,
    step_timeout_s=60.0,
    verifier_timeout_s=1800.0,
    output_bytes=10_000,
    memory_bytes=2 << 30,
    pids=512,
    disk_bytes=10 << 30,
)


def is_rows(path: Path) -> bool:
    """True when a file's first line is a row of these formats."""
    try:
        with path.open(encoding="utf-8") as file:
            first = json.loads(next((line for line in file if line.strip()), "null"))
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and "instance_id" in first and "FAIL_TO_PASS" in first


def load_rows(path: Path) -> list[Task]:
    """Return the tasks of a file of rows. Raises ``TaskError`` that names row and key."""
    try:
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise TaskError(f"{path} cannot be read as rows: {error}") from error
    tasks = [_task(row, f"{path}, row {n}", n) for n, row in enumerate(rows, 1)]
    ids = [task.id for task in tasks]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise TaskError(f"{path}: instance ids that are there twice: {', '.join(twice)}")
    return tasks


def _task(raw: dict[str, Any], source: str, number: int) -> Task:
    row = parse_row(raw, source)
    split = _split(raw, row, number, source)
    tags = ["source:row", f"format:{row.kind}", "level:hard"]
    if split == "heldout":
        tags.append("heldout:template")
    return Task(
        id=f"swe/{row.instance_id}",
        env="swe",
        family=row.repo or row.instance_id.rpartition("-")[0],
        split=split,
        instruction=row.problem_statement,
        image="swe",
        limits=LIMITS,
        data={"kind": "row", "row": raw, "instance_id": row.instance_id},
        tags=tuple(tags),
    )


def _split(raw: dict[str, Any], row: Row, number: int, source: str) -> Split:
    given = raw.get("split")
    if given in ("train", "heldout"):
        return "train" if given == "train" else "heldout"
    if given is not None:
        raise TaskError(f"{source}: split={given!r}: choose train or heldout")
    if row.kind.startswith("swe-bench"):
        return "heldout"
    return "heldout" if number % 5 == 0 else "train"
