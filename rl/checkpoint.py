"""Checkpoints: all state of a run at an optimiser step, whole or not there (algorithms §5).

``checkpoints/<step>/`` holds ``state.pt`` (weights, optimiser, schedule, random state) and
``meta.json`` (step, policy version, which is also the store's cursor). A folder is written under
another name and renamed, so a half-written one is recognised by its name and never used. Several
ranks write ``shards/`` instead of ``state.pt`` (``rl.sharded``).
"""

import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from rl.errors import CheckpointError, NoSpaceError
from rl.space import no_space

log = logging.getLogger(__name__)
_PART = ".part"


@dataclass(frozen=True)
class CheckpointMeta:
    """What the controller needs to go on.

    Attributes:
        step: optimiser steps of the RL phase taken; also the cursor of the store.
        version: policy version published with these weights.
        warmed: the warm start is behind.
    """

    step: int
    version: int
    warmed: bool


def save(folder: Path, meta: CheckpointMeta, state: dict[str, Any], keep: int) -> Path:
    """Write ``folder/<step>`` atomically and remove all but the last ``keep``.

    Raises:
        NoSpaceError, CheckpointError: it could not be written; earlier checkpoints are untouched.
    """
    with writing(folder, meta, keep) as part:
        torch.save(state, part / "state.pt")
    return folder / part.stem


@contextmanager
def writing(folder: Path, meta: CheckpointMeta, keep: int) -> Iterator[Path]:
    """Give a folder to write the state into; it becomes ``folder/<step>`` when all is on the disk,
    and vanishes when anything fails.

    Raises:
        NoSpaceError, CheckpointError: see ``save``.
    """
    target = folder / f"{meta.step:06d}"
    part = target.with_name(target.name + _PART)
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        (part / "meta.json").write_text(json.dumps(asdict(meta)))
        for path in (*(p for p in part.rglob("*") if p.is_file()), part):
            _sync(path)
        if target.exists():
            shutil.rmtree(target)
        part.rename(target)
        _sync(folder)
    except (OSError, RuntimeError) as error:
        full = no_space(error, part)  # asked while what filled the disk is there
        shutil.rmtree(part, ignore_errors=True)
        if full is not None:
            raise NoSpaceError(str(target)) from error
        raise CheckpointError(f"{target}: could not be written: {error}") from error
    for old in sorted(whole(folder))[:-keep]:
        shutil.rmtree(old, ignore_errors=True)


def candidates(folder: Path) -> list[tuple[CheckpointMeta, Path]]:
    """Return the whole checkpoints, newest first; half-written ones are reported and left out."""
    found = []
    for part in sorted(folder.glob(f"*{_PART}")):
        log.warning("%s was never finished (the run was killed while writing); not used", part)
    for path in sorted(whole(folder), reverse=True):
        try:
            found.append((CheckpointMeta(**json.loads((path / "meta.json").read_text())), path))
        except (OSError, ValueError, TypeError) as error:
            log.warning("%s is not readable (%s); not used", path, error)
    return found


def load_state(path: Path) -> dict[str, Any]:
    """Return the tensors of a checkpoint.

    Raises:
        CheckpointError: the file is missing or damaged.
    """
    try:
        state: dict[str, Any] = torch.load(path / "state.pt", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    return state


def whole(folder: Path) -> list[Path]:
    """Return the finished checkpoints, in no order; where there is no folder there are none."""
    return [p for p in folder.glob("*") if p.name.isdigit() and (p / "meta.json").exists()]


def _sync(path: Path) -> None:
    """Have a file or folder on the disk before the next step."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
