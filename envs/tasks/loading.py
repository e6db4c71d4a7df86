"""Loads a task set: an environment's own, a JSONL file or a directory; and selects from it.

Left out: generating and validating tasks (``envs.terminal.tasks``, ``envs.tasks.validation``).

Example:
    >>> tasks = load("terminal", split="train", levels=["trivial"], limit=4)
    >>> [task.split for task in tasks]
    ['train', 'train', 'train', 'train']
"""

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

from envs import registry
from envs.errors import TaskError
from envs.types import Split, Task


def load(
    env: str,
    split: Split | None = None,
    levels: Sequence[str] | None = None,
    families: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    base: str = "",
) -> list[Task]:
    """Return tasks of an environment, a ``.jsonl`` file or a directory that pass the filters.

    The order depends on ``seed`` only and takes the families in turn, so that the first ``limit``
    tasks are spread over as many families as there are.

    Args:
        env: short name of an environment, a path that ends in ``.jsonl`` (tasks, or rows of
            SWE-bench and its kin), or the path of a task
            directory, or of a directory of them, of a public format (``envs.terminal.formats``).
            A relative path that is the name of an environment needs a ``./``.
        split: ``train`` or ``heldout``.
        levels: values of the ``level:`` tag.
        families: families to keep.
        limit: most tasks.
        seed: of the order.
        base: image that stands in where a public task's ``FROM`` cannot be had.

    Raises:
        TaskError: unknown environment, file, directory, split, level or family; a bad row or
            task file; nothing left.
    """
    tasks = _read(env, base)
    if split is not None:
        _require("split", [split], get_args(Split))
    if levels is not None:
        _require("level", levels, {level(task) for task in tasks})
    if families is not None:
        _require("family", families, {task.family for task in tasks})
    chosen = [
        task
        for task in tasks
        if (split is None or task.split == split)
        and (levels is None or level(task) in levels)
        and (families is None or task.family in families)
    ]
    if not chosen:
        raise TaskError(
            f"no task of {env!r} has split={split}, levels={levels}, families={families}"
        )
    return _in_turn(chosen, seed)[:limit]


def _read(source: str, base: str) -> list[Task]:
    if base and not Path(source).is_dir():
        raise TaskError(f"base={base} is for directories of public tasks, and {source!r} is none")
    if source.endswith(".jsonl"):
        from envs.swe.formats.tasks import is_rows, load_rows

        path = Path(source)
        return load_rows(path) if is_rows(path) else read_jsonl(path)
    if source not in registry.names() and ("/" in source or Path(source).is_dir()):
        from envs.terminal.formats.tasks import load_directory  # pydantic: only for who needs it

        known = [entry.gym_id for entry in registry.ENTRIES]
        if source not in known:
            return load_directory(Path(source), base)
    return registry.load_tasks(source)


def level(task: Task) -> str:
    """Return the value of the task's ``level:`` tag, or ``any`` without one."""
    found = (tag.removeprefix("level:") for tag in task.tags if tag.startswith("level:"))
    return next(found, "any")


def read_jsonl(path: Path) -> list[Task]:
    """Read a task set: one task a line, empty lines aside. Ids must be unique.

    Raises:
        TaskError: no such file, or a row that is no task; names the line.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"task set {path} cannot be read: {error}") from error
    tasks: dict[str, Task] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            task = Task.from_json(row)
        except (ValueError, TypeError, AttributeError) as error:
            raise TaskError(f"{path}, line {number}: not a task: {error}") from error
        if task.split not in get_args(Split):
            raise TaskError(f"{path}, line {number}: split={task.split!r}: choose train or heldout")
        if task.id in tasks:
            raise TaskError(f"{path}, line {number}: id {task.id!r} is there twice")
        tasks[task.id] = task
    if not tasks:
        raise TaskError(f"task set {path} is empty")
    return list(tasks.values())


def write_jsonl(tasks: Iterable[Task], path: Path) -> None:
    """Write a task set that ``read_jsonl`` reads."""
    rows = [json.dumps(task.to_json(), ensure_ascii=False) + "\n" for task in tasks]
    path.write_text("".join(rows), "utf-8")


def _require(noun: str, wanted: Iterable[str], legal: Iterable[str]) -> None:
    known = sorted(legal)
    for value in wanted:
        if value not in known:
            raise TaskError(f"no {noun} {value!r}: {registry.nearest(value, known)}")


def _in_turn(tasks: Sequence[Task], seed: int) -> list[Task]:
    """Order tasks so that families alternate; deterministic in ``seed`` and the ids."""
    rng = random.Random(seed)
    queues: dict[str, list[Task]] = {}
    for task in sorted(tasks, key=lambda task: task.id):
        queues.setdefault(task.family, []).append(task)
    groups = [rng.sample(queue, len(queue)) for _, queue in sorted(queues.items())]
    rng.shuffle(groups)
    longest = max(len(group) for group in groups)
    return [group[i] for i in range(longest) for group in groups if i < len(group)]
