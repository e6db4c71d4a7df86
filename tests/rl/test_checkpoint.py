"""Checkpoints: whole or not there."""

import logging
from pathlib import Path

import pytest
import torch

from rl import checkpoint
from rl.checkpoint import CheckpointMeta
from rl.errors import CheckpointError


def test_last_whole_one_is_used_and_the_torn_one_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A run killed while writing step 2 resumes at step 1 and says so."""
    checkpoint.save(tmp_path, CheckpointMeta(1, 2, True), {"w": torch.ones(2)}, keep=2)
    torn = tmp_path / "000002.part"
    torn.mkdir()
    (torn / "state.pt").write_bytes(b"half")
    with caplog.at_level(logging.WARNING):
        found = checkpoint.candidates(tmp_path)
    assert [meta for meta, _ in found] == [CheckpointMeta(1, 2, True)]
    assert "never finished" in caplog.text
    assert torch.equal(checkpoint.load_state(found[0][1])["w"], torch.ones(2))


def test_old_ones_are_removed(tmp_path: Path) -> None:
    """Disk use is bounded by ``keep``."""
    for step in range(5):
        checkpoint.save(tmp_path, CheckpointMeta(step, step, True), {}, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000003", "000004"]


def test_damaged_state_is_a_named_error(tmp_path: Path) -> None:
    """A truncated file must not be loaded in part."""
    path = checkpoint.save(tmp_path, CheckpointMeta(1, 1, True), {"w": torch.ones(99)}, keep=1)
    data = (path / "state.pt").read_bytes()
    (path / "state.pt").write_bytes(data[: len(data) // 2])
    with pytest.raises(CheckpointError, match="cannot be read"):
        checkpoint.load_state(path)


def test_nothing_there_is_empty(tmp_path: Path) -> None:
    """A fresh run is not an error."""
    assert checkpoint.candidates(tmp_path / "checkpoints") == []
