"""Turns and feedback kept over restarts, in one SQLite file. A ``sessions.Sink``.

Writing happens in a thread of its own that commits what has gathered, fifty times a second or when
somebody waits: it and the event loop hand the interpreter lock to and fro for each commit, not for
each turn. ``settled`` tells when what was written so far is committed; ``flush`` waits for it. A
commit outlives the process, killed or not: it is in the write-ahead log, which is the kernel's by
then (``synchronous=NORMAL``). Only a machine that loses its power may take the last commits with
it, never the file. The file is made readable for its owner alone: it holds what people said.

Rows are numbered in the order of their commits, a number is never given twice, and a turn is
written once. ``Reader`` is for other processes: it follows these numbers.
"""

import contextlib
import json
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from .turns import Feedback, Turn

logger = logging.getLogger(__name__)

FILE = "turns.db"
MOST_PER_COMMIT = 1024
GATHER_S = 0.02  # for which turns gather before a commit, unless somebody waits for it
FLUSH_TIMEOUT_S = 60.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS turns (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    session TEXT NOT NULL,
    body TEXT NOT NULL                -- JSON of serving.turns.Turn
);
CREATE INDEX IF NOT EXISTS turns_of ON turns (owner, session);
CREATE TABLE IF NOT EXISTS feedback (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    turn TEXT NOT NULL,
    body TEXT NOT NULL                -- JSON of serving.turns.Feedback
);
CREATE INDEX IF NOT EXISTS feedback_on ON feedback (turn);
CREATE TABLE IF NOT EXISTS forgotten (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    turn TEXT NOT NULL                -- id of a turn that was removed
);
"""

_INSERT = (
    "INSERT INTO turns (id, owner, session, body) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (id) DO NOTHING"  # REPLACE would number it anew
)
_TurnRow = tuple[str, str, str, str]
_Write = _TurnRow | Callable[[sqlite3.Connection], object]
_Row = TypeVar("_Row")


class Journal:
    """Turns on disk. A context manager; ``close`` is idempotent.

    Args:
        folder: made if missing.

    Raises:
        OSError, sqlite3.Error: the folder or the file cannot be opened.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = folder / FILE
        self.path.touch(mode=0o600)
        self._database = sqlite3.connect(self.path, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.execute("PRAGMA secure_delete=ON")  # what is removed leaves no bytes
        self._database.executescript(_SCHEMA)
        self._writes: queue.SimpleQueue[_Write | Future[None] | None] = queue.SimpleQueue()
        self._hurry = threading.Event()  # somebody waits
        self.num_lost = 0  # writes the disk refused
        self.refusal = ""  # why the last write was lost; "" once one succeeds
        self._removed = False  # words that were removed may still be in the write-ahead log
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def turn(self, turn: Turn) -> None:
        """Keep a turn; one whose id is known is left as it is."""
        self._writes.put((turn.id, turn.owner, turn.session, turn.line()))

    def feedback(self, feedback: Feedback) -> None:
        """Keep feedback."""
        row = (feedback.turn, json.dumps(feedback.to_json(), ensure_ascii=False))
        self._writes.put(
            lambda db: db.execute("INSERT INTO feedback (turn, body) VALUES (?, ?)", row)
        )

    def forget(self, owner: str, session: str) -> None:
        """Remove a session; the ids of its turns are kept, so that a ``Reader`` learns of it."""
        self._remove("owner = ? AND session = ?", (owner, session))

    def expire(self, oldest: float) -> None:
        """Remove turns from before a time, in seconds since the epoch, as ``forget`` does."""
        self._remove("json_extract(body, '$.created') < ?", (oldest,))

    def _remove(self, which: str, values: tuple[Any, ...]) -> None:
        def write(db: sqlite3.Connection) -> None:
            rows = f"SELECT id FROM turns WHERE {which}"
            db.execute(f"INSERT INTO forgotten (turn) {rows} ORDER BY seq", values)
            db.execute(f"DELETE FROM feedback WHERE turn IN ({rows})", values)
            gone = db.execute(f"DELETE FROM turns WHERE {which}", values).rowcount
            self._removed = self._removed or gone > 0

        self._writes.put(write)

    def read(self, most: int = 8192) -> list[tuple[Turn, list[Feedback]]]:
        """Return the newest turns, oldest first, each with its feedback; unreadable ones are left.

        Waits for what was written before.
        """
        self.flush()
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            rows = database.execute(
                "SELECT id, body FROM turns ORDER BY seq DESC LIMIT ?", (most,)
            ).fetchall()
            found: list[tuple[Turn, list[Feedback]]] = []
            for turn_id, body in reversed(rows):
                said = database.execute(
                    "SELECT body FROM feedback WHERE turn = ? ORDER BY seq", (turn_id,)
                )
                try:
                    turn = Turn.from_json(json.loads(body))
                    feedback = [Feedback(**json.loads(text)) for (text,) in said]
                except (KeyError, TypeError, ValueError) as error:
                    logger.warning("%s: turn %s cannot be read: %r", self.path, turn_id, error)
                    continue
                found.append((turn, feedback))
        return found

    def settled(self) -> "Future[None]":
        """Return what is done when everything so far is on disk, or was refused by it."""
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # who stops waiting must not take it back
        self._writes.put(done)
        self._hurry.set()
        return done

    def flush(self) -> None:
        """Wait until everything so far is on disk.

        Raises:
            TimeoutError: the disk did not take it in a minute.
        """
        done = self.settled()
        if not self._thread.is_alive():
            return
        try:
            done.result(FLUSH_TIMEOUT_S)
        except TimeoutError:
            raise TimeoutError(f"{self.path} was not written in {FLUSH_TIMEOUT_S:g} s") from None

    def close(self) -> None:
        """Write what is left and close. Idempotent."""
        self._writes.put(None)
        self._hurry.set()
        self._thread.join(FLUSH_TIMEOUT_S)
        self._database.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self) -> None:
        while True:
            batch = [self._writes.get()]
            self._hurry.wait(GATHER_S)
            self._hurry.clear()  # what is put after this line sets it again
            while len(batch) < MOST_PER_COMMIT and not self._writes.empty():
                batch.append(self._writes.get())
            self._write([item for item in batch if item and not isinstance(item, Future)])
            self._forget_log()
            for item in batch:
                if isinstance(item, Future):
                    item.set_result(None)
            if None in batch:
                return

    def _forget_log(self) -> None:
        """Empty the write-ahead log of what was removed; tried again while readers hold it."""
        if not self._removed:
            return
        try:
            (busy, _, _) = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._removed = bool(busy)
        except sqlite3.Error as error:
            logger.warning("%s: its log could not be emptied yet: %s", self.path, error)

    def _write(self, writes: list[_Write]) -> None:
        if not writes:
            return
        try:
            with self._database:
                self._apply(writes)
            if self.refusal:
                logger.warning("%s is written again; %d were lost", self.path, self.num_lost)
                self.refusal = ""
        except Exception as error:  # a full disk or one bad row must not end the conversation
            if len(writes) > 1:
                for write in writes:
                    self._write([write])
                return
            self.num_lost += 1
            logger.error("%s: a turn or feedback is lost: %s", self.path, error)
            self.refusal = f"{self.path.parent.name}/{self.path.name} cannot be written: {error}"

    def _apply(self, writes: list[_Write]) -> None:
        """Carry out in order; turns next to one another go in one call."""
        rows: list[_TurnRow] = []
        for write in writes:
            if isinstance(write, tuple):
                rows.append(write)
                continue
            self._database.executemany(_INSERT, rows)
            rows.clear()
            write(self._database)
        self._database.executemany(_INSERT, rows)


def purge(folder: Path, turn_ids: Sequence[str]) -> None:
    """Remove turns of a journal that no gateway has open, and what was said of them.

    Args:
        folder: the journal's; one without a file has nothing to remove.
        turn_ids: of the turns.

    Raises:
        OSError, sqlite3.Error: the file cannot be changed.
    """
    if not (folder / FILE).exists():
        return
    with Journal(folder) as journal, contextlib.closing(sqlite3.connect(journal.path)) as database:
        database.execute("PRAGMA secure_delete=ON")
        rows = [(turn_id,) for turn_id in turn_ids]
        with database:
            database.executemany("INSERT INTO forgotten (turn) VALUES (?)", rows)
            database.executemany("DELETE FROM feedback WHERE turn = ?", rows)
            database.executemany("DELETE FROM turns WHERE id = ?", rows)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class Reader:
    """The journal seen from another process, which follows it by numbers. A context manager, safe
    from any thread; closed, it reads as empty.

    Never writes; a file that is not there yet reads as empty. Numbers grow in the order of the
    commits, with gaps; a row that is there stays under its number until its session is forgotten.

    Example:
        >>> with Reader(Path("sessions")) as reader:
        ...     for seq, turn in reader.turns_after(0, most=100):
        ...         print(seq, turn.id)

    Args:
        folder: the journal's.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._database: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._closed = False

    def turns_after(self, seq: int, most: int) -> list[tuple[int, Turn]]:
        """Return the turns behind a number, oldest first; unreadable ones are left out.

        Raises:
            sqlite3.Error: the file is damaged.
        """
        return self._after("turns", "body", seq, most, lambda text: Turn.from_json(_fields(text)))

    def feedback_after(self, seq: int, most: int) -> list[tuple[int, Feedback]]:
        """Return the feedback behind a number, oldest first; raises as ``turns_after`` does."""
        return self._after("feedback", "body", seq, most, lambda text: Feedback(**_fields(text)))

    def forgotten_after(self, seq: int, most: int) -> list[tuple[int, str]]:
        """Return the ids of removed turns behind a number; raises as ``turns_after`` does.

        Whoever has copies of them has to remove these.
        """
        return self._after("forgotten", "turn", seq, most, str)

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._lock:  # a read that goes on in another thread ends first
            self._closed = True
            if self._database is not None:
                self._database.close()
                self._database = None

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _after(
        self, table: str, column: str, seq: int, most: int, parse: Callable[[str], _Row]
    ) -> list[tuple[int, _Row]]:
        found: list[tuple[int, _Row]] = []
        while rows := self._select(table, column, seq, most):
            for seq, text in rows:
                try:
                    found.append((seq, parse(text)))
                except (KeyError, TypeError, ValueError) as error:
                    logger.warning("%s: %s %d cannot be read: %r", self.path, table, seq, error)
            if found:
                break
        return found

    def _select(self, table: str, column: str, seq: int, most: int) -> list[tuple[int, str]]:
        with self._lock:
            return [] if self._closed else self._read(table, column, seq, most)

    def _read(self, table: str, column: str, seq: int, most: int) -> list[tuple[int, str]]:
        if self._database is None:
            if not self.path.exists():
                return []
            address = f"file:{quote(str(self.path))}?mode=ro"
            self._database = sqlite3.connect(address, uri=True, check_same_thread=False)
        try:
            return self._database.execute(
                f"SELECT seq, {column} FROM {table} WHERE seq > ? ORDER BY seq LIMIT ?", (seq, most)
            ).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):  # its server is about to make it
                return []
            raise


def _fields(text: str) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = json.loads(text)
    return fields
