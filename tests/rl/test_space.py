"""A full disk is called that, whoever meets it, and leaves nothing that looks whole."""

import os
import pickle
from pathlib import Path

import pytest
import torch

from rl import checkpoint, metrics
from rl.checkpoint import CheckpointMeta
from rl.errors import NoSpaceError, StoreError
from rl.metrics import Metrics
from rl.space import no_space
from rl.store import Store
from tests.rl.disks import fill, small_disk
from tests.rl.records import episode, turn
from tests.rl.runs import NEVER_SAVED, Run


def test_other_failures_keep_their_names(tmp_path: Path) -> None:
    """ "Free some space" is no help against a folder that may not be written."""
    assert no_space(PermissionError(13, "Permission denied"), tmp_path) is None
    assert no_space(RuntimeError("unexpected pos 3 vs 1"), tmp_path) is None
    crossed = pickle.loads(pickle.dumps(NoSpaceError("/a/b")))  # an actor meets it, the driver says
    assert str(crossed) == "no space left on /a/b"


def test_checkpoint_that_does_not_fit_is_not_there(tmp_path: Path) -> None:
    """torch says only that a position is unexpected; half a checkpoint must not be resumed from,
    and the earlier one stays."""
    small, large = {"w": torch.ones(1000)}, {"w": torch.ones(1 << 21)}
    with small_disk(tmp_path / "disk", 4) as disk:
        checkpoint.save(disk, CheckpointMeta(1, 1, True), small, keep=1)
        with pytest.raises(NoSpaceError, match=r"no space left on .*000002"):
            checkpoint.save(disk, CheckpointMeta(2, 2, True), large, keep=1)
        assert [meta.step for meta, _ in checkpoint.candidates(disk)] == [1]
        assert [path.name for path in disk.iterdir()] == ["000001"]


def test_store_and_metrics_go_on_once_there_is_space(tmp_path: Path) -> None:
    """What was refused is in neither; what is written again stands there once."""
    long = episode([turn(range(3000), list(os.urandom(4000)))], name="g000001.m0")
    with small_disk(tmp_path / "disk", 4) as disk, Store(disk) as store:
        log = Metrics(disk)
        log.write("rl", 1, {"reward": 0.5})
        filler = fill(disk)
        with pytest.raises(NoSpaceError):
            for i in range(50):
                store.append(episode(long.turns, name=f"g{i:06d}.m1"))
        with pytest.raises(NoSpaceError):
            for _ in range(50):
                log.write("rl", 2, {"reward": 0.5, "reason": "x" * 4096})
        rows = len(metrics.read(disk))
        filler.unlink()
        assert store.append(long)
        log.write("rl", 3, {"reward": 0.5})
        assert [row["step"] for row in metrics.read(disk)[rows:]] == [3]
        assert (disk / "metrics.jsonl").read_text().endswith("\n")
        log.close()


def test_store_on_a_full_disk_cannot_be_opened(tmp_path: Path) -> None:
    """Nor does it look like a damaged one."""
    with small_disk(tmp_path / "disk", 1) as disk:
        fill(disk)
        with pytest.raises(NoSpaceError):
            Store(disk)
    assert not issubclass(NoSpaceError, StoreError)


@pytest.mark.docker
@pytest.mark.ray
@pytest.mark.slow
def test_run_that_fills_its_disk_says_how_to_go_on_and_does(tmp_path: Path) -> None:
    """One line with the place and the remedy; with space again the same run goes on."""
    with small_disk(tmp_path / "run", 64) as folder:
        settings = [*NEVER_SAVED, "optim.steps=400"]
        with Run(folder, "env=terminal", f"run={folder}", *settings) as run:
            run.until(lambda: len(run.steps()) >= 1)
            filler = fill(folder, but=1 << 16)
            assert run.wait(200) == 1
        filler.unlink()
        errors = [line for line in run.text().splitlines() if line.startswith("error:")]
        assert len(errors) == 1 and str(folder) in errors[0] and "no space left on" in errors[0]
        assert errors[0].endswith(f"free some, then: python -m rl.train resume={folder}")
        assert "Traceback" not in run.text()
        filler = fill(folder)
        with Run(folder, f"resume={folder}") as refused:
            assert refused.wait(100) == 1
        filler.unlink()
        last = refused.text().splitlines()[-1]
        assert f"no space left on {folder}" in last
        assert last.endswith(f"free some, then: python -m rl.train resume={folder}")
        done = run.steps()
        with Run(folder, f"resume={folder}", f"optim.steps={len(done) + 2}") as resumed:
            assert resumed.wait(200) == 0, resumed.text()
