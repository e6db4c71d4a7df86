"""Turns and feedback kept over restarts, in one SQLite file. A ``sessions.Sink``.

Writing happens in a thread of its own that commits what has gathered, so that a reply never waits
for the disk; ``flush`` waits until all is safe. The file is made readable for its owner alone: it
holds what people said.
"""

import contextlib
import json
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from .turns import Feedback, Turn

logger = logging.getLogger(__name__)

FILE = "turns.db"
MOST_PER_COMMIT = 256
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
"""

_Write = Callable[[sqlite3.Connection], object]


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
        self._database.executescript(_SCHEMA)
        self._writes: queue.SimpleQueue[_Write | threading.Event | None] = queue.SimpleQueue()
        self.num_lost = 0  # writes the disk refused
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def turn(self, turn: Turn) -> None:
        """Keep a turn."""
        row = (turn.id, turn.owner, turn.session, turn.line())
        self._writes.put(
            lambda db: db.execute(
                "INSERT OR REPLACE INTO turns (id, owner, session, body) VALUES (?, ?, ?, ?)", row
            )
        )

    def feedback(self, feedback: Feedback) -> None:
        """Keep feedback."""
        row = (feedback.turn, json.dumps(feedback.to_json(), ensure_ascii=False))
        self._writes.put(
            lambda db: db.execute("INSERT INTO feedback (turn, body) VALUES (?, ?)", row)
        )

    def forget(self, owner: str, session: str) -> None:
        """Remove a session."""

        def write(db: sqlite3.Connection) -> None:
            ours = "owner = ? AND session = ?"
            db.execute(
                f"DELETE FROM feedback WHERE turn IN (SELECT id FROM turns WHERE {ours})",
                (owner, session),
            )
            db.execute(f"DELETE FROM turns WHERE {ours}", (owner, session))

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

    def flush(self) -> None:
        """Wait until everything so far is on disk.

        Raises:
            TimeoutError: the disk did not take it in a minute.
        """
        done = threading.Event()
        self._writes.put(done)
        if self._thread.is_alive() and not done.wait(FLUSH_TIMEOUT_S):
            raise TimeoutError(f"{self.path} was not written in {FLUSH_TIMEOUT_S:g} s")

    def close(self) -> None:
        """Write what is left and close. Idempotent."""
        self._writes.put(None)
        self._thread.join(FLUSH_TIMEOUT_S)
        self._database.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self) -> None:
        while True:
            batch = [self._writes.get()]
            while len(batch) < MOST_PER_COMMIT and not self._writes.empty():
                batch.append(self._writes.get())
            self._write([write for write in batch if callable(write)])
            for item in batch:
                if isinstance(item, threading.Event):
                    item.set()
            if None in batch:
                return

    def _write(self, writes: list[_Write]) -> None:
        if not writes:
            return
        try:
            with self._database:
                for write in writes:
                    write(self._database)
        except Exception as error:  # a full disk or one bad row must not end the conversation
            if len(writes) > 1:
                for write in writes:
                    self._write([write])
                return
            self.num_lost += 1
            logger.error("%s: a turn or feedback is lost: %s", self.path, error)
