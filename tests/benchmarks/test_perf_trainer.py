"""The trainer's bench compares what it says it compares."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.perf import trainer
from benchmarks.perf.peers import ALL, PEERS, TRAINER
from benchmarks.perf.process import BenchError


def test_cosine_is_of_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients are compared in pieces: a piece left out would hide a difference."""
    monkeypatch.setattr(trainer, "PIECE", 3)
    a = np.arange(1, 9, dtype=np.float32)
    b = a.copy()
    b[7] = -8
    a.tofile(tmp_path / "a")
    b.tofile(tmp_path / "b")
    assert trainer.cosine_of(tmp_path / "a", tmp_path / "a") == pytest.approx(1.0)
    expected = float(a @ b / np.sqrt((a @ a) * (b @ b)))
    assert trainer.cosine_of(tmp_path / "a", tmp_path / "b") == pytest.approx(expected)


def test_turns_apart_train_the_same_tokens(tmp_path: Path) -> None:
    """One sample per turn must train every sampled token once, after the same prefix."""
    plan = trainer.QUICK
    whole, starts = trainer.episode_batches(plan, np.random.default_rng(0))
    path = tmp_path / "whole.npz"
    np.savez(path, allow_pickle=False, **whole)
    with np.load(trainer._as_turns(path, tmp_path, starts, plan)) as apart:
        assert apart["trained"].sum() == whole["trained"].sum() == plan.turns * plan.turn
        cuts = np.cumsum(apart["lengths"])[:-1]
        trained = [
            ids[mask]
            for ids, mask in zip(
                np.split(apart["ids"], cuts), np.split(apart["trained"], cuts), strict=True
            )
        ]
    np.testing.assert_array_equal(np.concatenate(trained), whole["ids"][whole["trained"]])


def test_another_trainer_is_no_gateway() -> None:
    """The gateway's bench goes through its peers; one that serves nothing is not one."""
    assert TRAINER.name not in PEERS and TRAINER.name in ALL
    with pytest.raises(BenchError, match="no gateway"):
        TRAINER.start(TRAINER, "http://127.0.0.1:1")
