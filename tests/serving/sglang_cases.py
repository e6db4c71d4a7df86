"""What the tests of the SGLang engine share: short ways to ask, to publish and to wait."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from serving import weights
from serving.embedded.engine import TorchEngine
from serving.engine import EngineOptions
from serving.sglang.engine import SglangEngine
from serving.sglang.fleet import Limits
from serving.types import Generation, Sampling, Token

PROMPT = list(range(3, 90))
LIMITS = Limits(reply_s=60, server_s=5, change_s=20, probe_every_s=0.1, cancel_s=2)


def run(engine: SglangEngine, prompt: list[int], **fields: Any) -> Generation:
    return engine.submit(prompt, Sampling(**fields)).future.result(30)


def until(what: Callable[[], object], timeout_s: float = 10.0) -> None:
    end = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def changed(tiny: Path, folder: Path, version: int, scale: float = 1.1) -> Path:
    """All weights, some of them others than before."""
    state = load_file(tiny / "model.safetensors")
    state = {name: tensor * scale if "norm" in name else tensor for name, tensor in state.items()}
    return weights.publish(state, folder, version)


def own(tiny: Path, prompt: list[int], update: Path | None = None, **fields: Any) -> Generation:
    """What our embedded engine samples."""
    engine = TorchEngine(tiny, EngineOptions(threads=1))
    try:
        if update is not None:
            engine.load(update, 1)
        return engine.submit(prompt, Sampling(**fields)).future.result(30)
    finally:
        engine.close()


class Stream:
    """Collects the tokens of a streamed reply."""

    def __init__(self, engine: SglangEngine, prompt: list[int], **fields: Any) -> None:
        self.tokens: list[Token] = []
        self.ticket = engine.submit(prompt, Sampling(**fields), self.tokens.append)

    def result(self) -> Generation:
        generation = self.ticket.future.result(60)
        assert tuple(token.id for token in self.tokens) == generation.token_ids_T
        assert tuple(token.logprob for token in self.tokens) == generation.logprobs_T
        return generation


def adapter(folder: Path, seed: int) -> Path:
    """A LoRA adapter on the tiny model, in peft's layout."""
    folder.mkdir()
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    draw = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in range(2):
        for name, width in (("q_proj", 64), ("v_proj", 32)):
            stem = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            tensors[f"{stem}.lora_A.weight"] = torch.randn(4, 64, generator=draw)
            tensors[f"{stem}.lora_B.weight"] = torch.randn(width, 4, generator=draw)
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder
