"""Tasks from what ``python -m envs.swe build`` left in the cache."""

import hashlib
import json
import logging
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from envs.errors import TaskError
from envs.swe.releases import Pair, load_pairs
from envs.types import Split, Task, TaskLimits

log = logging.getLogger(__name__)

_BLOBS = {"source.tar.gz": "source", "tests.tar.gz": "tests_tar", "gold.patch": "gold"}
LIMITS = TaskLimits(
    max_steps=30,
    step_timeout_s=60.0,
    verifier_timeout_s=180.0,
    output_bytes=16384,
    disk_bytes=128 * 2**20,
)


def release_tasks(split: Split = "heldout") -> list[Task]:
    """Return the tasks of the pairs that have been built; a line in the log names the others.

    Args:
        split: the split they are given; held out by default.
    """
    tasks, missing = [], []
    for pair in load_pairs():
        if (pair.folder / "task.json").exists():
            tasks.append(_task(pair, split))
        else:
            missing.append(pair.name)
    if missing:
        log.info(
            "%d release tasks are not built: python -m envs.swe build %s",
            len(missing),
            " ".join(missing),
        )
    return tasks


def _task(pair: Pair, split: Split) -> Task:
    facts = json.loads((pair.folder / "task.json").read_text("utf-8"))
    blobs = {
        _BLOBS[name]: {"path": str(pair.folder / name), "sha256": digest}
        for name, digest in facts["sha256"].items()
    }
    tags = ["source:release", "level:hard"]
    if split == "heldout":
        tags.append("heldout:template")
    return Task(
        id=f"swe/{pair.package}/{pair.buggy}-{pair.fixed}",
        env="swe",
        family=f"release-{pair.package}",
        split=split,
        instruction=facts["statement"],
        image="swe",
        limits=LIMITS,
        data={
            "kind": "tests",
            "folder": f"/workspace/{pair.package}",
            "import_root": pair.import_root,
            "sources": list(pair.sources),
            "tests": list(pair.tests),
            "fail_to_pass": facts["fail_to_pass"],
            "facts": str(pair.folder / "task.json"),
            **blobs,
        },
        tags=tuple(tags),
    )


def read_blob(blob: Mapping[str, Any]) -> bytes:
    """Return the bytes of ``{"path", "sha256"}``.

    Raises:
        TaskError: the file is gone or is not the one the task was made from.
    """
    return _read_blob(str(blob["path"]), str(blob["sha256"]))


@lru_cache(maxsize=32)
def _read_blob(path: str, digest: str) -> bytes:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise TaskError(f"cannot read {path}: {error}. Run python -m envs.swe build") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise TaskError(f"{path} is not what its task was made from: remove its folder and rebuild")
    return data


@lru_cache(maxsize=32)
def pass_to_pass(facts: str) -> tuple[str, ...]:
    """Return the node ids that must keep passing, from the task's facts file."""
    try:
        return tuple(json.loads(Path(facts).read_text("utf-8"))["pass_to_pass"])
    except OSError as error:
        raise TaskError(f"cannot read {facts}: {error}. Run python -m envs.swe build") from error
