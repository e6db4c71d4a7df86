"""Forgetting: nothing of a user's words is left in any file, and weights are learned anew."""

from dataclasses import replace
from pathlib import Path

import pytest

from rl import checkpoint, forget
from rl.checkpoint import CheckpointMeta
from rl.settings import RunConfig
from rl.store import Store
from serving.journal import Journal
from tests.rl.fleets import FakeFleet
from tests.rl.talk import said
from tests.rl.test_live import ByWord, config, dialogue, run, talk

SECRET = "good heavens, my locker is 48151623"


def a_run(folder: Path) -> FakeFleet:
    """Two users' turns in one batch each, learned from and saved."""
    ada = [replace(t, id=f"ada-{t.id}", owner="ada", session="a", node=f"ada-{t.id}",
                   parent=t.parent and f"ada-{t.parent}", messages=(said(SECRET),))
           for t in dialogue(3)]  # fmt: skip
    talk(folder, *ada)
    run(folder, FakeFleet(), ByWord())
    checkpoint.save(folder / "checkpoints", CheckpointMeta(1, 1, True), {}, 2)
    talk(folder, *dialogue(3))
    fleet = FakeFleet()
    run(folder, fleet, ByWord(), steps(2))
    checkpoint.save(folder / "checkpoints", CheckpointMeta(2, 2, True), {}, 2)
    return fleet


def steps(number: int) -> RunConfig:
    settings = config()
    return settings.model_copy(
        update={"optim": settings.optim.model_copy(update={"steps": number})}
    )


def words_left(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]


def test_no_file_keeps_a_word_and_the_rest_is_learned_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert a_run(tmp_path).trained == [["chat:t0", "chat:t1"]]
    assert words_left(tmp_path)
    assert forget.main([f"run={tmp_path}", "user=ada"]) == 0
    assert "3 turns removed, 2 of them judged, 2 learned from" in capsys.readouterr().out
    assert words_left(tmp_path) == []
    assert not (tmp_path / "checkpoints").exists()
    fleet = FakeFleet()
    run(tmp_path, fleet, ByWord())
    assert fleet.trained == [["chat:t0", "chat:t1"]]


def test_a_call_that_was_cut_short_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "remove", lambda *_: (_ for _ in ()).throw(OSError("no space")))
        assert forget.main([f"run={tmp_path}", "user=ada"]) == 1
    assert words_left(tmp_path)
    assert forget.main([f"run={tmp_path}", "user=ada"]) == 0
    assert words_left(tmp_path) == []


def test_what_a_user_removed_is_dropped_from_the_weights_too(tmp_path: Path) -> None:
    a_run(tmp_path)
    with Journal(tmp_path / "gateway") as journal:
        journal.forget("ada", "a")
    assert forget.main([f"run={tmp_path}", "session=a"]) == 0
    assert not (tmp_path / "checkpoints").exists()
    assert words_left(tmp_path) == []


def test_weights_may_be_kept(tmp_path: Path) -> None:
    a_run(tmp_path)
    assert forget.main([f"run={tmp_path}", "session=a", "weights=keep"]) == 0
    assert (tmp_path / "checkpoints").exists()
    assert words_left(tmp_path) == []


def test_the_past_may_be_forgotten(tmp_path: Path) -> None:
    a_run(tmp_path)
    assert forget.main([f"run={tmp_path}", "older_than_days=1"]) == 0
    with Store(tmp_path) as store:
        assert len(store.ids()) == 4
    assert forget.main([f"run={tmp_path}", "older_than_days=0"]) == 0
    with Store(tmp_path) as store:
        assert store.ids() == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["user=ada"],
        ["run={}"],
        ["run={}", "user=ada", "session=a"],
        ["run={}", "older_than_days=soon"],
        ["run={}", "user=ada", "weights=sell"],
        ["run={}", "usr=ada"],
        ["run={}/nowhere", "user=ada"],
    ],
)
def test_wrong_use_is_said_and_changes_nothing(tmp_path: Path, arguments: list[str]) -> None:
    Store(tmp_path).close()
    assert forget.main([a.format(tmp_path) for a in arguments]) == 2
