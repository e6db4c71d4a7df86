"""The store: durable, once, and honest about what was lost."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from rl.errors import NoSpaceError, StoreError
from rl.store import Store
from tests.rl.records import episode, turn


def test_episode_comes_back_as_it_went_in(tmp_path: Path) -> None:
    """Token ids, log-probs and versions survive the disk exactly."""
    original = episode([turn([1, 2], [3, 4], version=7)], reward=0.25)
    with Store(tmp_path) as store:
        assert store.append(original)
        assert store.group("g000000") == [original]


def test_same_id_is_stored_once(tmp_path: Path) -> None:
    """A retried acknowledgement must not double a sample."""
    with Store(tmp_path) as store:
        assert store.append(episode([turn([1], [2])]))
        assert not store.append(episode([turn([1], [2])]))
        assert len(store.group("g000000")) == 1
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 1


def test_group_is_consumed_once_and_rewound_in_order(tmp_path: Path) -> None:
    """Batches after the checkpoint come back in their old composition; earlier ones stay spent."""
    with Store(tmp_path) as store:
        store.consume(1, {"a": "trained", "b": "zero_variance"})
        store.consume(2, {"d": "trained", "c": "trained"})
        with pytest.raises(StoreError):
            store.consume(3, {"a": "trained"})
        assert store.rewind(1) == {2: ["d", "c"]}
        assert store.consumed() == {"a": 1, "b": 1}


def test_lost_episodes_keep_their_reason(tmp_path: Path) -> None:
    """A report that says '0 trainable' without a reason helps nobody."""
    with Store(tmp_path) as store:
        store.append(episode([], reward=None))
        assert store.losses() == [("g000000.m0", "sandbox_lost", "SandboxLost: gone")]
        assert store.endings() == {"sandbox_lost": 1}


WRITER = """
import sys
from pathlib import Path
from rl.store import Store
from tests.rl.records import episode, turn
store = Store(Path(sys.argv[1]))
for i in range(100000):
    store.append(episode([turn([1], [2])], name=f"g{i:06d}.m0"))
    print(i, flush=True)
"""


def test_kill_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """kill -9 while writing: every episode that was acknowledged is there, once."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    time.sleep(1.5)
    os.kill(writer.pid, signal.SIGKILL)
    acknowledged = [int(line) for line in writer.stdout.read().splitlines() if line.strip()]
    writer.wait()
    writer.stdout.close()
    assert acknowledged, "the writer never started"
    with Store(tmp_path) as store:
        assert len(store.group_ids()) in (len(acknowledged), len(acknowledged) + 1)
        assert store.append(episode([turn([1], [2])], name="later.m0"))
    assert json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])["id"] == "later.m0"


def test_learners_state_belongs_to_its_step(tmp_path: Path) -> None:
    """A baseline that had seen lost batches would see them twice after a resume."""
    with Store(tmp_path) as store:
        assert store.learner_state() == {}
        store.consume(1, {"a": "trained"}, {"baselines": {"ada": 0.1}})
        store.consume(2, {"b": "trained"}, {"baselines": {"ada": 0.2}})
        store.remember(2, {"baselines": {"ada": 0.3}})
        assert store.learner_state() == {"baselines": {"ada": 0.3}}
        store.rewind(1)
        assert store.learner_state() == {"baselines": {"ada": 0.1}}


def test_older_store_is_brought_up_to_date_and_a_newer_one_refused(tmp_path: Path) -> None:
    """A run begun with an earlier version goes on; one from a later version is not half read."""
    with Store(tmp_path) as store:
        store.append(episode([turn([1], [2])]))
    with sqlite3.connect(tmp_path / "store.db") as db:
        db.execute("DROP TABLE learner")
        db.execute("PRAGMA user_version=0")
    with Store(tmp_path) as store:
        store.consume(1, {"g000000": "trained"}, {"baselines": {}})
        assert len(store.group("g000000")) == 1
    with sqlite3.connect(tmp_path / "store.db") as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(StoreError, match="version 99, this program knows up to"):
        Store(tmp_path)


def test_episode_with_unknown_fields_is_a_named_error(tmp_path: Path) -> None:
    """Half an episode must not be trained on as if it were whole."""
    with Store(tmp_path) as store:
        store.append(episode([turn([1], [2])]))
        row = zlib.compress(json.dumps({"id": "x", "turns": [], "colour": 1}).encode())
        store._db.execute("UPDATE episodes SET payload = ?", (row,))
        with pytest.raises(StoreError, match="cannot be read"):
            store.group("g000000")


def test_damaged_database_is_a_named_error(tmp_path: Path) -> None:
    """Rubbish in store.db must not look like an empty run."""
    (tmp_path / "store.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreError, match="cannot open the store"):
        Store(tmp_path)


def test_full_disk_is_named(tmp_path: Path) -> None:
    """What cannot be written must not be acknowledged."""
    with Store(tmp_path) as store:
        store._db.execute("PRAGMA max_page_count=20")
        with pytest.raises(NoSpaceError, match=str(tmp_path)):
            for i in range(500):
                long = turn(range(3000 + i), range(2000))
                store.append(episode([long], name=f"g{i:06d}.m0"))
    with sqlite3.connect(tmp_path / "store.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
