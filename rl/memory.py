"""What a run needs of memory, part by part, before anything is started.

Weights are counted from the headers of the model's files, so nothing is loaded. Activations are
what a decoder layer keeps for its backward, all fp32; the estimate for 882 tokens of the 135M model
is 1.8 GB; a measured peak less half a gigabyte of interpreter and libraries was about as much. Left
out: the interpreters themselves.
"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rl.settings import RunConfig

BYTES = 4  # of a number in fp32
GIB = 2**30
HIDDEN_KEPT, INNER_KEPT = 12, 4  # rows of hidden and of inner width a layer keeps per token
LOGITS_KEPT = 4  # logits, their softmax and the gradients of both


@dataclass(frozen=True)
class Memory:
    """Bytes by part; ``kv_cache`` is what it takes when every slot is full."""

    weights: int
    gradients: int
    optimiser: int
    reference: int
    activations: int
    logits: int
    engine: int
    kv_cache: int

    @property
    def total(self) -> int:
        """All of it."""
        return sum(int(getattr(self, part.name)) for part in fields(self))

    def __str__(self) -> str:
        parts = ", ".join(
            f"{part.name.replace('_', ' ')} {getattr(self, part.name) / GIB:.2f}"
            for part in fields(self)
            if getattr(self, part.name)
        )
        return f"memory at most {self.total / GIB:.1f} GiB: {parts}"


def needed(config: RunConfig, folder: Path) -> Memory | None:
    """Return the plan of a run with the model in ``folder``; None where its files do not say."""
    shapes = tensor_shapes(folder)
    try:
        model = json.loads((folder / "config.json").read_text())
        model = model.get("text_config", model)
        hidden, layers = int(model["hidden_size"]), int(model["num_hidden_layers"])
        heads = int(model["num_attention_heads"])
        inner, vocabulary = int(model["intermediate_size"]), int(model["vocab_size"])
    except (OSError, ValueError, KeyError):
        return None
    if not shapes:
        return None
    width = int(model.get("head_dim") or hidden // heads)
    kv_width = int(model.get("num_key_value_heads") or heads) * width
    weights = sum(math.prod(shape) for shape in shapes.values())
    trained = _trained(config, shapes) if config.lora.enabled else weights
    tokens = config.trainer.token_budget
    kept = layers * (HIDDEN_KEPT * hidden + INNER_KEPT * inner)
    if config.trainer.activation_checkpointing:
        kept = layers * hidden + HIDDEN_KEPT * hidden + INNER_KEPT * inner
    frozen = weights if config.algorithm.kl_coef > 0 and not config.lora.enabled else 0
    cached = config.engine.max_slots * config.engine.context * layers * 2 * kv_width
    counts = {
        "weights": weights + (trained if config.lora.enabled else 0),
        "gradients": trained,
        "optimiser": 2 * trained,
        "reference": frozen,
        "activations": tokens * kept,
        "logits": min(tokens, config.trainer.logit_chunk) * vocabulary * LOGITS_KEPT,
        "engine": weights,
        "kv_cache": cached,
    }
    return Memory(**{name: BYTES * count for name, count in counts.items()})


def tensor_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor of a model, from its safetensors headers alone."""
    found: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            header: Mapping[str, Any] = json.loads(file.read(size))
        found |= {n: tuple(t["shape"]) for n, t in header.items() if n != "__metadata__"}
    return found


def _trained(config: RunConfig, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Return the numbers in adapters on all linear layers but the head."""
    linear = [
        shape
        for name, shape in shapes.items()
        if len(shape) == 2 and "embed" not in name and "lm_head" not in name
    ]
    return sum(config.lora.rank * sum(shape) for shape in linear)
