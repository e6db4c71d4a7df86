"""Exported weights are the checkpoint's, adapters merged, and load where models are served."""

import json
from pathlib import Path

import pytest
import torch

from rl import checkpoint, export
from rl.checkpoint import CheckpointMeta
from rl.config import validate
from rl.trainerhost import TrainerHost


def trained(folder: Path, *, lora: bool) -> dict[str, torch.Tensor]:
    """A run folder with a checkpoint of changed weights; returns the weights an engine is given."""
    config = validate({"env": "chat", "model": "tiny", "lora": {"enabled": lora, "rank": 2}})
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config.model_dump()))
    host = TrainerHost(config, folder, folder / "publication")
    host.start()
    with torch.no_grad():
        for parameter in host.trainer.policy.trainable:
            parameter.add_(0.05)
    checkpoint.save(folder / "checkpoints", CheckpointMeta(3, 3, True), host.trainer.state(), 2)
    return {name: tensor.clone() for name, tensor in host.trainer.policy.weights().items()}


@pytest.mark.parametrize("lora", [False, True])
def test_exported_weights_are_those_that_were_served(tmp_path: Path, lora: bool) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    served = trained(tmp_path / "run", lora=lora)
    assert export.main([f"run={tmp_path / 'run'}", f"out={tmp_path / 'out'}"]) == 0
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out").state_dict()
    for name, tensor in served.items():
        torch.testing.assert_close(loaded[name], tensor, rtol=1e-6, atol=1e-6)
    assert AutoTokenizer.from_pretrained(tmp_path / "out").get_chat_template()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_cannot_be_exported_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path / "run", lora=False)
    assert export.main([f"run={tmp_path / 'run'}", "step=9"]) == 1
    assert "steps there are: 3" in capsys.readouterr().err
    assert export.main([f"run={tmp_path / 'nowhere'}"]) == 2
    assert export.main([f"run={tmp_path / 'run'}", "step=last"]) == 2
    assert export.main(["rum=x"]) == 2
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("mine")
    assert export.main([f"run={tmp_path / 'run'}", f"out={tmp_path / 'letters'}"]) == 2
    assert (tmp_path / "letters" / "dear.txt").read_text() == "mine"
