"""A run's folder: what was asked for, of which versions, and what came of it.

``run.json`` settings and versions · ``episodes.jsonl`` every episode · ``summary.json``,
``report.md``, ``report.png`` what they say · ``predictions.jsonl``, ``harbor/`` for other tools.
"""

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.run.records import Key, Record, read_records, settled
from envs.words import UsageError

FORMAT = 1


@dataclass(frozen=True)
class Run:
    """What a folder holds.

    Attributes:
        folder: where it lies.
        facts: ``run.json``: ``settings``, ``versions``, ``tasks`` (how many), ``started``.
        episodes: what counts of each sample.
        tries: all episodes, the lost ones that were played again among them.
    """

    folder: Path
    facts: Mapping[str, Any]
    episodes: Mapping[Key, Record]
    tries: int

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.folder.name

    @property
    def planned(self) -> int:
        """Samples asked for."""
        return int(self.facts["tasks"]) * int(self.facts["settings"]["k"])


def journal_path(folder: Path) -> Path:
    """Return where episodes are appended."""
    return folder / "episodes.jsonl"


def read_facts(folder: Path) -> dict[str, Any]:
    """Return ``run.json``. Raises ``UsageError`` for a folder that is no run."""
    path = folder / "run.json"
    try:
        facts = json.loads(path.read_text("utf-8"))
        if facts["format"] != FORMAT:
            raise UsageError(f"{path} has format {facts['format']}; this program reads {FORMAT}")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UsageError(f"{folder} is no benchmark run: {error}") from error
    return dict(facts)


def read_run(folder: Path) -> Run:
    """Return a run. Raises ``UsageError`` for a folder that is none."""
    facts = read_facts(folder)
    try:
        records = read_records(journal_path(folder))
    except ValueError as error:
        raise UsageError(str(error)) from error
    return Run(folder, facts, settled(records), len(records))


def write_whole(path: Path, text: str) -> None:
    """Replace a file in one step, so that a kill leaves the old or the new one."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, "utf-8")
    part.replace(path)


@contextmanager
def owned(folder: Path, fresh: bool) -> Iterator[None]:
    """Hold a run's folder for this process.

    Raises:
        UsageError: another process is on it, or a new run would go over an old one.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be a run's folder: {error.strerror}") from None
    if fresh and (folder / "run.json").exists():
        raise UsageError(
            f"{folder} holds a run: go on with resume={folder}, or choose another out="
        )
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{folder} is in use by another process") from None
        yield
