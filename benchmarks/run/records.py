"""What a run writes down: one record per finished episode, on disk before it counts.

``episodes.jsonl`` is appended to and never changed. A line that a crash cut short is dropped when
the file is opened again; its episode is played again.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agents.types import StopReason

Key = tuple[str, int]


@dataclass(frozen=True)
class TurnRecord:
    """One reply and what the world said.

    Attributes:
        text: the reply.
        action: what the parser made of it; None when nothing.
        observation: the next message to the model.
        parse_error: the parser's reason, or "".
        finish_reason: ``stop`` or ``length``.
        prompt_tokens, reply_tokens: as the server counted them; 0 where it did not.
    """

    text: str
    action: str | None
    observation: str
    parse_error: str = ""
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    reply_tokens: int = 0


@dataclass(frozen=True)
class Record:
    """One finished episode.

    Attributes:
        task_id, env, family, split: of the task.
        task_digest: of the task's JSON; two runs are compared on tasks that are the same.
        level: value of the ``level:`` tag, or ``any``.
        kind: value of the ``heldout:`` tag, or "".
        instance_id: name of the task in SWE-bench's files; "" for a task that is none.
        instruction: what was asked.
        sample: which of the k samples of the task, from 0.
        attempt: which try at this sample, from 1; further ones follow failures of the machine.
        seed: of world and sampling.
        reward: in [0, 1]; None exactly when the machine failed.
        stop_reason: why it ended.
        error: first cause when the machine failed, ``Class: message``.
        started_at, duration_s: seconds since the epoch, seconds.
        turns: in order.
        patch: what was changed in a source tree, as a unified diff; None where there is none.
    """

    task_id: str
    task_digest: str
    env: str
    family: str
    split: str
    level: str
    kind: str
    sample: int
    attempt: int
    seed: int
    reward: float | None
    stop_reason: StopReason
    error: str = ""
    instance_id: str = ""
    instruction: str = ""
    started_at: float = 0.0
    duration_s: float = 0.0
    turns: tuple[TurnRecord, ...] = field(default=())
    patch: str | None = None

    @property
    def key(self) -> Key:
        """Which sample of which task."""
        return self.task_id, self.sample

    @property
    def lost(self) -> bool:
        """True when the machine ended it: no reward, in no denominator."""
        return self.reward is None

    @property
    def solved(self) -> bool:
        """True when the verifier gave the full reward."""
        return self.reward is not None and self.reward >= 1.0

    @property
    def prompt_tokens(self) -> int:
        """Tokens read, over all turns."""
        return sum(turn.prompt_tokens for turn in self.turns)

    @property
    def reply_tokens(self) -> int:
        """Tokens sampled."""
        return sum(turn.reply_tokens for turn in self.turns)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; ``from_json`` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Record":
        """Build a record. Raises ``TypeError`` or ``ValueError`` for what is none."""
        values = dict(row)
        values["stop_reason"] = StopReason(values["stop_reason"])
        values["turns"] = tuple(TurnRecord(**turn) for turn in values["turns"])
        return cls(**values)


class Journal:
    """Appends records durably. A context manager.

    Args:
        path: the file; made if missing, freed of a line cut short.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab+")
        self._file.seek(0)
        data = self._file.read()
        self._file.truncate(data.rfind(b"\n") + 1)

    def append(self, record: Record) -> None:
        """Write one record; on disk when this returns."""
        line = json.dumps(record.to_json(), ensure_ascii=True, separators=(",", ":"))
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_records(path: Path) -> list[Record]:
    """Return what a journal holds; nothing for a file that is not there.

    Raises:
        ValueError: a line that is no record; names it.
    """
    if not path.exists():
        return []
    data = path.read_bytes()
    records = []
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        try:
            records.append(Record.from_json(json.loads(line)))
        except (ValueError, TypeError, KeyError) as error:
            known = ", ".join(f.name for f in fields(Record))
            raise ValueError(
                f"{path}, line {number}: not a record ({error}); fields: {known}"
            ) from error
    return records


def settled(records: Iterable[Record]) -> dict[Key, Record]:
    """Return what counts of each sample: its scored episode, else the last that was lost."""
    chosen: dict[Key, Record] = {}
    for record in records:
        before = chosen.get(record.key)
        if before is None or before.lost:
            chosen[record.key] = record
    return chosen
