"""New weights are made ready beside the old ones and put in place between two passes."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, Qwen2Config

from serving import weights
from serving.embedded.engine import TorchEngine
from serving.embedded.llama import LlamaModel
from serving.embedded.scoring import score_batch

from .conftest import OPTIONS
from .test_torch_engine import reference

IDS = list(range(3, 40))


@pytest.fixture
def biased(tmp_path: Path) -> Path:
    """A model with fused matrices, biases and an untied head."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=120, hidden_size=48, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=False, eos_token_id=1,
        initializer_range=0.2, max_position_embeddings=64,
    )  # fmt: skip
    folder = tmp_path / "biased"
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


def scores(model: LlamaModel) -> list[float]:
    with torch.inference_mode():
        return score_batch(model, [IDS], 1.0)[0]


def exact(folder: Path, state: dict[str, torch.Tensor], place: Path) -> list[float]:
    """Return what transformers gives with these weights."""
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.load_state_dict(state, strict=False)
    model.save_pretrained(place)
    return reference(place, IDS[:1], tuple(IDS[1:]))


def test_nothing_changes_before_the_change_and_all_of_it_then(biased: Path, tmp_path: Path) -> None:
    """Bug prevented: a part of a fused matrix, a bias or the embedding left at its old values, or
    changed while a pass runs."""
    model, state = LlamaModel(biased), load_file(biased / "model.safetensors")
    torch.manual_seed(1)
    changed = {name: tensor + torch.randn_like(tensor) * 0.1 for name, tensor in state.items()}
    groups = [
        [name for name in changed if "q_proj" in name or "up_proj" in name],
        [name for name in changed if "bias" in name or "norm" in name],
        ["model.embed_tokens.weight"],
        list(changed),
    ]
    now = dict(state)
    before = scores(model)
    for at, names in enumerate(groups):
        with torch.inference_mode():
            change = model.prepared({name: changed[name] for name in names})
            assert scores(model) == before
            change()
        now |= {name: changed[name] for name in names}
        before = scores(model)
        assert before == pytest.approx(exact(biased, now, tmp_path / str(at)), abs=1e-4)
        assert all(torch.equal(model.params[name], now[name]) for name in now)


def test_loads_at_once_lose_nothing(tiny: Path, tmp_path: Path) -> None:
    """Bug prevented: two loads of parts of one matrix, each made ready from the same old one."""
    engine = TorchEngine(tiny, OPTIONS)
    state = load_file(tiny / "model.safetensors")
    names = [f"model.layers.0.self_attn.{part}_proj.weight" for part in "qkv"]
    files = [
        weights.publish({name: state[name] + 1}, tmp_path / str(at), 1)
        for at, name in enumerate(names)
    ]
    try:
        threads = [threading.Thread(target=engine.load, args=(file, 1)) for file in files]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert engine.stats()["loads"] == 3
        for name in names:
            assert torch.equal(engine._model.params[name], state[name] + 1)
    finally:
        engine.close()
