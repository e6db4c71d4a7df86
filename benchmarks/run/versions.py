"""What a result is a result of: versions of code, task set, images and model."""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from envs.types import Task

ROOT = Path(__file__).parents[2]
_CHUNK_BYTES = 1 << 20


def code() -> dict[str, Any]:
    """Return package version, commit and whether tracked files differ from it."""
    try:
        package = version("clawgym")
    except PackageNotFoundError:
        package = "unknown"
    commit = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return {
        "package": package,
        "commit": commit or "unknown",
        "dirty": None if commit is None else bool(changed),
        "python": platform.python_version(),
    }


def task_digest(task: Task) -> str:
    """Return the SHA-256 of a task's JSON, the same on every machine: a file it names counts by
    what it holds, not by where it lies."""
    text = json.dumps(_portable(task.to_json()), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def taskset_digest(digests: Iterable[str]) -> str:
    """Return the SHA-256 over the tasks' digests, whatever their order."""
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()


def folder_digest(folder: Path) -> str:
    """Return the SHA-256 over names and contents of a model folder's files."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        digest.update(_file_digest(path).encode())
    return digest.hexdigest()


def images(tasks: Sequence[Task]) -> dict[str, dict[str, str]]:
    """Return reference and digest of every image the tasks use.

    Raises:
        MissingDependency: no engine answers, or an image is not there.
    """
    names = sorted({task.image for task in tasks if task.image})
    if not names:
        return {}
    from envs.images import resolve
    from envs.sandbox.engine import connect

    found = {}
    for name in names:
        reference = resolve(name)
        api = connect()
        try:
            facts = api.inspect_image(reference)  # type: ignore[no-untyped-call]
        finally:
            api.close()
        found[name] = {"reference": reference, "digest": str(facts["Id"])}
    return found


def _portable(value: Any) -> Any:
    """Return JSON without paths of this machine."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not (k == "path" and "sha256" in value)}
        if "directory" in kept and "dockerfile" in kept:  # a public task: its image's tag says more
            kept = {k: v for k, v in kept.items() if k not in ("directory", "dockerfile")}
        return {key: _portable(part) for key, part in kept.items()}
    if isinstance(value, list | tuple):
        return [_portable(part) for part in value]
    if isinstance(value, str) and value.startswith(str(_cache())):
        return f"sha256:{_file_digest(Path(value))}" if Path(value).is_file() else value
    return value


def _cache() -> Path:
    return Path(os.environ.get("CLAWGYM_CACHE") or Path.home() / ".cache" / "clawgym")


def _file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
