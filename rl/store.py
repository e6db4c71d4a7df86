"""The store: every episode once, durable before it is acknowledged (design, contract 6).

SQLite in WAL mode is the truth; ``log.jsonl`` beside it is for people and tools. A batch is a set
of group ids bound to an optimiser step; the cursor is that step, and it is part of the checkpoint:
``rewind(step)`` after a resume frees the batches the lost weights had seen, so each episode is
trained exactly once in the history of the weights. ``kill -9`` at any moment loses nothing
acknowledged and repeats nothing.

Used by one process (the controller); reading from others is safe.
"""

import json
import sqlite3
import threading
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from agents.types import Episode
from rl.errors import StoreError
from rl.space import no_space
from rl.types import TurnSignal

SCHEMA_VERSION = 3  # 1: without the learner's state; 2: without signals
_SCHEMA = """
CREATE TABLE IF NOT EXISTS episodes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,              -- 'train', 'demo' or 'eval:<label>@<step>'
    group_id TEXT NOT NULL,
    reward REAL,                     -- NULL: the machine failed
    stop_reason TEXT NOT NULL,
    error TEXT NOT NULL,
    payload BLOB NOT NULL            -- zlib of the episode's JSON
);
CREATE INDEX IF NOT EXISTS by_group ON episodes (kind, group_id);
CREATE TABLE IF NOT EXISTS admitted (
    group_id TEXT PRIMARY KEY,
    task_id TEXT NOT NULL            -- what the schedule chose, before anything was played
);
CREATE TABLE IF NOT EXISTS batches (
    group_id TEXT PRIMARY KEY,
    step INTEGER NOT NULL,           -- the optimiser step that consumed it
    outcome TEXT NOT NULL            -- 'trained', or why the group was dropped
);
CREATE TABLE IF NOT EXISTS signals (
    episode_id TEXT NOT NULL,
    turn INTEGER NOT NULL,
    body TEXT NOT NULL,              -- JSON of rl.types.TurnSignal
    PRIMARY KEY (episode_id, turn)
);
CREATE TABLE IF NOT EXISTS learner (
    step INTEGER PRIMARY KEY,
    state TEXT NOT NULL              -- JSON: baselines and the like after this optimiser step
);
"""
_REMEMBER = "INSERT OR REPLACE INTO learner VALUES (?, ?)"
_SIGNAL = "INSERT OR REPLACE INTO signals VALUES (?, ?, ?)"

# forgiven failures of training episodes count as such
_OF_KIND = "(kind = ? OR (kind = 'forgiven' AND ? = 'train'))"


class Store:
    """Episodes of one run. A context manager; ``close`` is idempotent.

    Args:
        folder: the run folder; ``store.db`` and ``log.jsonl`` are made inside.

    A store of an older version is brought up to date as it is opened.

    Raises:
        StoreError: it cannot be opened, or a newer version wrote it.
        NoSpaceError: the disk is full; of every method that writes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(folder / "store.db", check_same_thread=False, timeout=30)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA secure_delete=ON")  # what is removed leaves no bytes
            (written,) = self._db.execute("PRAGMA user_version").fetchone()
            if written > SCHEMA_VERSION:
                self._db.close()
                raise StoreError(
                    f"{folder}: the store has version {written}, this program knows up to "
                    f"{SCHEMA_VERSION}: continue the run with the program that wrote it"
                )
            self._db.executescript(_SCHEMA)
            self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
            self._log = _open_log(folder / "log.jsonl")
        except (OSError, sqlite3.Error) as error:
            full = no_space(error, folder)
            raise full or StoreError(f"{folder}: cannot open the store: {error}") from error

    def append(
        self, episode: Episode, kind: str = "train", signals: Sequence[TurnSignal] = ()
    ) -> bool:
        """Write an episode and what is known about its turns; when this returns it survives a
        crash.

        Returns:
            False when an episode of this id was there already; nothing is written then. Only one
            that the machine had lost is replaced, by one that has a reward.

        Raises:
            StoreError: it could not be written (disk full, read-only).
        """
        row = episode.to_json()
        payload = zlib.compress(json.dumps(row).encode(), 1)
        values = (episode.id, kind, episode.group_id, episode.reward, episode.stop_reason.value)
        with self._writing(f"episode {episode.id} could not be stored"):
            with self._db:
                cursor = self._db.execute(
                    "INSERT INTO episodes "
                    "(id, kind, group_id, reward, stop_reason, error, payload) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
                    "reward = excluded.reward, stop_reason = excluded.stop_reason, "
                    "error = excluded.error, payload = excluded.payload "
                    "WHERE episodes.reward IS NULL AND excluded.reward IS NOT NULL",
                    (*values, episode.error, payload),
                )
                if cursor.rowcount:
                    self._db.executemany(_SIGNAL, _signal_rows(signals))
            if cursor.rowcount:
                self._log.write(json.dumps(_for_people(episode, kind)) + "\n")
                self._log.flush()
        return bool(cursor.rowcount)

    def say(self, signals: Sequence[TurnSignal]) -> None:
        """Replace what is known about turns.

        Raises:
            StoreError: the disk refused.
        """
        with self._writing(f"{len(signals)} signals could not be kept"), self._db:
            self._db.executemany(_SIGNAL, _signal_rows(signals))

    def signals(self, episode_id: str) -> dict[int, TurnSignal]:
        """Return what is known about an episode's turns, by turn index."""
        rows = self._query("SELECT turn, body FROM signals WHERE episode_id = ?", (episode_id,))
        return {turn: TurnSignal.from_json(json.loads(body)) for turn, body in rows}

    def ids(self, kind: str = "train") -> set[str]:
        """Return the ids of all episodes of a kind."""
        return {name for (name,) in self._query("SELECT id FROM episodes WHERE kind = ?", (kind,))}

    def remove(self, episode_ids: Sequence[str]) -> int:
        """Remove episodes and what was said of them, for good, from the log for people too; return
        how many there were. That their groups were trained stays on record, without a word of what
        was in them.

        Raises:
            StoreError: the disk refused.
        """
        rows = [(name,) for name in episode_ids]
        with self._writing(f"{len(rows)} episodes could not be removed"):
            known = "SELECT 1 FROM episodes WHERE id = ?"
            if not any(self._db.execute(known, row).fetchone() for row in rows):
                return 0
            self._scrub({*episode_ids})  # first: tried again after a failure, it is done again
            with self._db:
                self._db.executemany("DELETE FROM signals WHERE episode_id = ?", rows)
                removed = self._db.executemany("DELETE FROM episodes WHERE id = ?", rows).rowcount
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return removed

    def _scrub(self, episode_ids: set[str]) -> None:
        """Write the log for people again without some episodes."""
        path = Path(self._log.name)
        part = path.with_suffix(".part")
        with path.open(encoding="utf-8") as old, part.open("w", encoding="utf-8") as new:
            new.writelines(line for line in old if _id_in(line) not in episode_ids)
        self._log.close()
        part.replace(path)
        self._log = _open_log(path)

    def group(self, group_id: str, kind: str = "train") -> list[Episode]:
        """Return a group's stored episodes in order of arrival, failed ones included."""
        rows = self._query(
            "SELECT payload FROM episodes WHERE kind = ? AND group_id = ? ORDER BY seq",
            (kind, group_id),
        )
        return [_decode(payload) for (payload,) in rows]

    def episodes(self, kind: str) -> list[Episode]:
        """Return all episodes of a kind in order of arrival."""
        rows = self._query("SELECT payload FROM episodes WHERE kind = ? ORDER BY seq", (kind,))
        return [_decode(payload) for (payload,) in rows]

    def evaluations(self) -> dict[str, list[Episode]]:
        """Return the episodes of the last evaluation of each label (``start``, ``final``…)."""
        kinds: dict[str, str] = {}
        for (kind,) in self._query(
            "SELECT DISTINCT kind FROM episodes WHERE kind LIKE 'eval:%' ORDER BY kind", ()
        ):
            kinds[kind.removeprefix("eval:").partition("@")[0]] = kind
        return {label: self.episodes(kind) for label, kind in kinds.items()}

    def group_ids(self, kind: str = "train") -> list[str]:
        """Return the ids of groups that have an episode, in order of their first arrival."""
        rows = self._query(
            "SELECT group_id FROM episodes WHERE kind = ? GROUP BY group_id ORDER BY MIN(seq)",
            (kind,),
        )
        return [group_id for (group_id,) in rows]

    def admit(self, group_id: str, task_id: str) -> None:
        """Write down which task a new group plays.

        Raises:
            StoreError: the disk refused.
        """
        with self._writing(f"group {group_id} could not be admitted"), self._db:
            self._db.execute("INSERT INTO admitted VALUES (?, ?)", (group_id, task_id))

    def admitted(self) -> dict[str, str]:
        """Return ``group id → task id`` of every group that was started."""
        return dict(self._query("SELECT group_id, task_id FROM admitted", ()))

    def consume(
        self, step: int, outcomes: dict[str, str], state: dict[str, Any] | None = None
    ) -> None:
        """Bind groups to an optimiser step: ``group id → "trained"`` or the reason it was dropped.

        Args:
            state: the learner's own after the step (JSON values), kept in the same transaction.

        Raises:
            StoreError: a group was consumed before, or the disk refused.
        """
        rows = [(group_id, step, outcome) for group_id, outcome in outcomes.items()]
        with self._writing(f"step {step} could not claim its groups"), self._db:
            self._db.executemany("INSERT INTO batches VALUES (?, ?, ?)", rows)
            if state is not None:
                self._db.execute(_REMEMBER, (step, json.dumps(state)))

    def consumed(self) -> dict[str, int]:
        """Return ``group id → step`` of every consumed group."""
        return dict(self._query("SELECT group_id, step FROM batches", ()))

    def remember(self, step: int, state: dict[str, Any]) -> None:
        """Replace the learner's state of a step (JSON values).

        Raises:
            StoreError: the disk refused.
        """
        with self._writing(f"step {step}: its state could not be kept"), self._db:
            self._db.execute(_REMEMBER, (step, json.dumps(state)))

    def learner_state(self) -> dict[str, Any]:
        """Return the learner's state after the last step that kept one; empty before."""
        rows = self._query("SELECT state FROM learner ORDER BY step DESC LIMIT 1", ())
        state: dict[str, Any] = json.loads(rows[0][0]) if rows else {}
        return state

    def rewind(self, step: int) -> dict[int, list[str]]:
        """Free the groups consumed after ``step``, and forget evaluations of lost weights.

        Returns:
            step → its groups in the order they were consumed, so that the same batches can be
            formed again.
        """
        freed: dict[int, list[str]] = {}
        with self._writing(f"step {step} could not be gone back to"), self._db:
            rows = self._db.execute(
                "SELECT step, group_id FROM batches WHERE step > ? ORDER BY step, rowid", (step,)
            ).fetchall()
            self._db.execute("DELETE FROM batches WHERE step > ?", (step,))
            self._db.execute("DELETE FROM learner WHERE step > ?", (step,))
            self._db.execute(
                "DELETE FROM episodes WHERE kind LIKE 'eval:%@%' "
                "AND CAST(substr(kind, instr(kind, '@') + 1) AS INTEGER) > ?",
                (step,),
            )
        for consumed_at, group_id in rows:
            freed.setdefault(consumed_at, []).append(group_id)
        return freed

    def forgive(self) -> int:
        """Let members that the machine failed be played again; return how many episodes.

        For a resume: the attempts of groups no step has consumed start anew, since what failed
        them (a full disk, memory taken by others) may be over. The failures stay on record.
        """
        with self._writing("lost episodes could not be freed"), self._db:
            return self._db.execute(
                "UPDATE episodes SET kind = 'forgiven', id = id || '~' || seq "
                "WHERE kind = 'train' AND reward IS NULL "
                "AND group_id NOT IN (SELECT group_id FROM batches)"
            ).rowcount

    def endings(self, kind: str = "train") -> Counter[str]:
        """Count episodes by stop reason."""
        rows = self._query(
            f"SELECT stop_reason, COUNT(*) FROM episodes WHERE {_OF_KIND} GROUP BY stop_reason",
            (kind, kind),
        )
        return Counter(dict(rows))

    def losses(self, kind: str = "train") -> list[tuple[str, str, str]]:
        """Return ``(episode id, stop reason, first cause)`` of every episode the machine failed."""
        return list(
            self._query(
                "SELECT id, stop_reason, error FROM episodes "
                f"WHERE {_OF_KIND} AND reward IS NULL ORDER BY seq",
                (kind, kind),
            )
        )

    def close(self) -> None:
        """Close files. Idempotent."""
        with self._lock:
            self._db.close()
            with suppress(OSError):  # what could not be written was said when it was tried
                self._log.close()

    @contextmanager
    def _writing(self, failed: str) -> Iterator[None]:
        """Hold the lock; name what the disk refuses."""
        with self._lock:
            try:
                yield
            except (OSError, sqlite3.Error) as error:
                full = no_space(error, self._folder)
                raise full or StoreError(f"{failed}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def _query(self, sql: str, values: tuple[str, ...]) -> list[Any]:
        with self._lock:
            return self._db.execute(sql, values).fetchall()


def _open_log(path: Path) -> TextIO:
    """Open for appending; a line torn by a crash is closed first."""
    torn = False
    if path.exists() and path.stat().st_size > 0:
        with path.open("rb") as tail:
            tail.seek(-1, 2)
            torn = tail.read(1) != b"\n"
    log = path.open("a", encoding="utf-8")
    if torn:
        log.write("\n")
    return log


def _id_in(line: str) -> str:
    """Return the episode id of a line of the log; "" for a torn one."""
    try:
        return str(json.loads(line)["id"])
    except (ValueError, LookupError, TypeError):
        return ""


def _decode(payload: bytes) -> Episode:
    """Read an episode.

    Raises:
        StoreError: its fields are not those this program knows, or it is damaged.
    """
    try:
        return Episode.from_json(json.loads(zlib.decompress(payload)))
    except (TypeError, KeyError, ValueError, zlib.error) as error:
        raise StoreError(f"an episode of the store cannot be read: {error}") from error


def _signal_rows(signals: Sequence[TurnSignal]) -> list[tuple[str, int, str]]:
    return [(s.episode_id, s.turn, json.dumps(s.to_json())) for s in signals]


def _for_people(episode: Episode, kind: str) -> dict[str, object]:
    """Return what a person wants to read: words, not tokens."""
    return {
        "id": episode.id,
        "kind": kind,
        "task": episode.task_id,
        "reward": episode.reward,
        "stop": episode.stop_reason.value,
        "error": episode.error,
        "seconds": round(episode.duration_s, 3),
        "turns": [
            {
                "reply": turn.text,
                "observation": turn.observation,
                "tokens": len(turn.token_ids_T),
                "versions": sorted(set(turn.versions_T)),
                "parse_error": turn.parse_error,
            }
            for turn in episode.turns
        ],
    }
