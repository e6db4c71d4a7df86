"""What a run needs of memory, part by part and place by place, before anything is started.

Weights are counted from the headers of the model's files, so nothing is loaded. Activations are
what a decoder layer keeps for its backward; the estimate for 882 tokens of the 135M model in fp32
is 1.8 GB; a measured peak less half a gigabyte of interpreter and libraries was about as much. Left
out: the interpreters themselves, CUDA's own 0.5 GiB or so a process, and a judge's server.
"""

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rl.settings import RunConfig

FULL, HALF = 4, 2  # bytes of a number in fp32 and bf16
GIB = 2**30
HIDDEN_KEPT, INNER_KEPT = 12, 4  # rows of hidden and of inner width a layer keeps per token
LOGITS_KEPT = 4  # logits, their softmax and the gradients of both
QUANTISED = {"none": 0.0, "int8": 1.0, "int4": 0.5 + 4 / 64}  # bytes of a number of the base


@dataclass(frozen=True)
class Memory:
    """Bytes by part; ``kv_cache`` is what it takes when every slot is full, ``gathered`` the whole
    layers that a shard computes with."""

    weights: int = 0
    gradients: int = 0
    optimiser: int = 0
    reference: int = 0
    gathered: int = 0
    activations: int = 0
    logits: int = 0
    engine: int = 0
    kv_cache: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return sum(int(getattr(self, part.name)) for part in fields(self))

    @property
    def standing(self) -> int:
        """What is there all the time, whatever is computed."""
        return self.weights + self.gradients + self.optimiser + self.reference + self.engine

    def __add__(self, other: "Memory") -> "Memory":
        return Memory(*(getattr(self, p.name) + getattr(other, p.name) for p in fields(self)))

    def times(self, count: int) -> "Memory":
        """Return what so many need."""
        return Memory(*(count * getattr(self, part.name) for part in fields(self)))

    def __str__(self) -> str:
        parts = ", ".join(
            f"{part.name.replace('_', ' ')} {getattr(self, part.name) / GIB:.2f}"
            for part in fields(self)
            if getattr(self, part.name)
        )
        return f"memory at most {self.total / GIB:.1f} GiB: {parts}"


@dataclass(frozen=True)
class Place:
    """Where memory is needed.

    Attributes:
        name: for people.
        needs: there; of one GPU where there are several alike.
        size: bytes there are for it; None: not known.
    """

    name: str
    needs: Memory
    size: int | None

    def __str__(self) -> str:
        has = f"; {self.size / GIB:.1f} GiB there" if self.size is not None else ""
        return f"{self.name}: {self.needs}{has}"


@dataclass(frozen=True)
class _Model:
    """Numbers of a model."""

    weights: int
    linear: int  # in layers that can be quantised
    adapters: int
    largest: int  # gathered at once when the model is sharded
    hidden: int
    inner: int
    layers: int
    vocabulary: int
    cached: int  # per token of the cache


def needed(config: RunConfig, folder: Path) -> Memory | None:
    """Return what trainer and engine need together; None where the model's files do not say."""
    model = _read(config, folder)
    if model is None:
        return None
    engine = _engine(config, model) if config.engine.name == "torch" else Memory()
    return _rank(config, model).times(config.num_ranks) + engine


def places(config: RunConfig, folder: Path, machine: int, gpu: int | None) -> list[Place]:
    """Return where memory is needed; empty where the model's files do not say.

    Args:
        machine: bytes of memory available here.
        gpu: bytes of one GPU; None: not known.
    """
    model, gpus = _read(config, folder), config.gpus
    if model is None:
        return []
    rank, engine = _rank(config, model), _engine(config, model)
    if gpus.memory_gib is not None:
        gpu = int(gpus.memory_gib * GIB)
    found = []
    if gpus.shared:
        found.append(Place("each GPU, trainer and engine together", rank + engine, gpu))
    elif gpus.actor:
        found.append(Place(f"each of {gpus.actor} trainer GPUs (gpus.actor)", rank, gpu))
    if gpus.rollout and not gpus.shared:
        size = None if gpu is None else int(gpu * config.engine.memory_share)
        found.append(Place(f"each of {gpus.rollout} engine GPUs (gpus.rollout)", engine, size))
    here = Memory() if gpus.actor else rank.times(config.num_ranks)
    if config.engine.name == "torch":
        here += engine
    if here.total and config.ray.address is None:
        found.append(Place("this machine", here, machine))
    return found


def _rank(config: RunConfig, model: _Model) -> Memory:
    """Return what one rank of the trainer needs."""
    ranks, lora = config.num_ranks, config.lora.enabled
    half = config.trainer.dtype == "bfloat16"
    compute = HALF if half else FULL
    trained = model.adapters if lora else model.weights
    # parts of a sharded model stay in fp32 and are gathered in what it computes in
    stored = compute if ranks == 1 else FULL
    weights = model.weights * stored
    if config.lora.quantize != "none":
        weights += int(model.linear * (QUANTISED[config.lora.quantize] - stored))
    if lora:
        weights += model.adapters * FULL
    elif half and ranks == 1:
        weights += model.weights * FULL  # masters
    frozen = model.weights * stored if config.algorithm.kl_coef > 0 and not lora else 0
    tokens = config.trainer.token_budget
    once = HIDDEN_KEPT * model.hidden + INNER_KEPT * model.inner
    kept = model.layers * once
    if config.trainer.activation_checkpointing:
        kept = model.layers * model.hidden + once
    per_moment = 1 if config.optim.name == "adamw8bit" else FULL
    return Memory(
        weights=-(-weights // ranks),
        gradients=-(-trained * FULL // ranks),
        optimiser=-(-trained * 2 * per_moment // ranks),
        reference=-(-frozen // ranks),
        gathered=model.largest * compute if ranks > 1 else 0,
        activations=tokens * kept * compute,
        logits=min(tokens, config.trainer.logit_chunk) * model.vocabulary * LOGITS_KEPT * FULL,
    )


def _engine(config: RunConfig, model: _Model) -> Memory:
    """Return what one engine needs."""
    number = FULL if config.engine.name == "torch" else HALF
    tokens = config.engine.max_slots * config.engine.context
    return Memory(engine=model.weights * number, kv_cache=tokens * model.cached * number)


def _read(config: RunConfig, folder: Path) -> _Model | None:
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
    linear = [
        shape
        for name, shape in shapes.items()
        if len(shape) == 2 and "embed" not in name and "lm_head" not in name
    ]
    first = sum(math.prod(s) for name, s in shapes.items() if ".layers.0." in name)
    outside = sum(math.prod(s) for name, s in shapes.items() if ".layers." not in name)
    return _Model(
        weights=sum(math.prod(shape) for shape in shapes.values()),
        linear=sum(math.prod(shape) for shape in linear),
        adapters=sum(config.lora.rank * sum(shape) for shape in linear),
        largest=2 * first + outside,
        hidden=hidden,
        inner=inner,
        layers=layers,
        vocabulary=vocabulary,
        cached=layers * 2 * kv_width,
    )


def tensor_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor of a model, from its safetensors headers alone."""
    found: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            header: Mapping[str, Any] = json.loads(file.read(size))
        found |= {n: tuple(t["shape"]) for n, t in header.items() if n != "__metadata__"}
    return found


def thriftier(config: RunConfig) -> Iterator[tuple[str, RunConfig]]:
    """Yield settings that need less memory, each on top of those before it, as arguments and as a
    configuration; what costs nothing but time comes first."""
    changes: list[tuple[str, Any]] = [
        ("trainer.activation_checkpointing", True),
        ("trainer.token_budget", max(64, config.trainer.token_budget // 4)),
        ("engine.max_slots", max(1, config.engine.max_slots // 4)),
        ("trainer.dtype", "bfloat16"),
        ("lora.enabled", True),
        *([("lora.quantize", "int8")] if config.num_ranks == 1 else []),
        *([("lora.quantize", "int4")] if config.num_ranks == 1 else []),
    ]
    given: dict[str, str] = {}
    for key, value in changes:
        section, _, name = key.partition(".")
        old = getattr(config, section)
        if getattr(old, name) == value:
            continue
        config = config.model_copy(update={section: old.model_copy(update={name: value})})
        given[key] = f"{key}={str(value).lower() if isinstance(value, bool) else value}"
        yield " ".join(given.values()), config
