"""LoRA adapters (Hu et al. 2021, arXiv:2106.09685) over one base model, many at once.

An adapter is read from peft's folder layout and kept by its name. In a step the base product is
computed for all rows; the rows of each adapter add ``scale * B A x``. The pairs of the matrices
that the model fuses (q/k/v, gate/up) are fused too: the A's are stacked, the B's lie on a block
diagonal, so an adapter costs two small products per matrix. A step without adapters costs nothing.

Left out: DoRA, biases, whole modules saved beside, adapters on embeddings or the head; such a
folder is refused.

Axes: ``_N`` tokens of all sequences of a step laid end to end.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import weights
from ..errors import EngineError
from .llama import LlamaShape

# fields of adapter_config.json that change nothing in the forward pass, or are read below
KNOWN_FIELDS = frozenset(
    (
        "peft_type",
        "r",
        "lora_alpha",
        "target_modules",
        "rank_pattern",
        "alpha_pattern",
        "use_rslora",
        "bias",
        "init_lora_weights",
        "auto_mapping",
        "base_model_name_or_path",
        "peft_version",
        "revision",
        "inference_mode",
        "lora_dropout",
        "task_type",
        "exclude_modules",
        "layers_pattern",
        "layers_to_transform",
        "loftq_config",
        "eva_config",
        "corda_config",
        "lora_ga_config",
        "megatron_config",
        "megatron_core",
        "runtime_config",
        "qalora_group_size",
        "ensure_weight_tying",
    )
)
STARTS_THAT_CHANGE_THE_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
NAME = re.compile(
    r"base_model\.model\.model\.layers\.(\d+)\.(?:self_attn|mlp)\."
    r"(q|k|v|o|gate|up|down)_proj\.lora_([AB])\.weight"
)
FUSED = {"qkv": ("q", "k", "v"), "out": ("o",), "gate_up": ("gate", "up"), "down": ("down",)}
MLP = ("gate", "up", "down")
_SIZES: dict[str, Callable[[LlamaShape], tuple[int, int]]] = {  # part → (in, out)
    "q": lambda s: (s.hidden, s.num_heads * s.head_dim),
    "k": lambda s: (s.hidden, s.num_kv_heads * s.head_dim),
    "v": lambda s: (s.hidden, s.num_kv_heads * s.head_dim),
    "o": lambda s: (s.num_heads * s.head_dim, s.hidden),
    "gate": lambda s: (s.hidden, s.ffn),
    "up": lambda s: (s.hidden, s.ffn),
    "down": lambda s: (s.ffn, s.hidden),
}


@dataclass(frozen=True)
class Pair:
    """The low-rank part of one matrix: ``x @ a.T @ b_t``, the scale within ``b_t``."""

    a: Tensor  # [rank, in]
    b_t: Tensor  # [rank, out]


@dataclass(eq=False)
class Adapter:
    """A loaded adapter; requests hold it, so that replacing it reaches those in flight.

    Attributes:
        name: what ``Sampling.adapter`` calls it.
        version: of what is loaded now.
        load: number of the load among all of the engine; keys the prefix cache with the name.
        pairs: (layer, matrix) → low-rank part.
        is_loaded: False once it was unloaded.
    """

    name: str
    version: int
    load: int
    pairs: dict[tuple[int, str], Pair]
    is_loaded: bool = True

    @property
    def key(self) -> tuple[str, int]:
        """What keys and values computed under it are kept by."""
        return self.name, self.load

    def error(self) -> EngineError | None:
        """Return why its requests cannot go on, or None."""
        if self.is_loaded:
            return None
        return EngineError(f"adapter {self.name!r} was unloaded")


class AdapterTable:
    """The adapters of an engine by name. Changed by the engine's thread alone."""

    def __init__(self) -> None:
        self._adapters: dict[str, Adapter] = {}
        self._num_loads = 0

    def find(self, name: str) -> Adapter | None:
        """Return the adapter of that name, if loaded."""
        return self._adapters.get(name)

    def versions(self) -> dict[str, int]:
        """Return the versions by name."""
        return {name: adapter.version for name, adapter in self._adapters.copy().items()}

    def put(self, name: str, version: int, pairs: dict[tuple[int, str], Pair]) -> Adapter:
        """Add an adapter, or replace the one of that name in place.

        Raises:
            EngineError: the version is older than the one in use.
        """
        known = self._adapters.get(name)
        if known is not None and version < known.version:
            raise EngineError(
                f"adapter {name!r}: version {version} is older than {known.version} in use"
            )
        self._num_loads += 1
        if known is None:
            self._adapters[name] = known = Adapter(name, version, self._num_loads, pairs)
        else:
            known.version, known.load, known.pairs = version, self._num_loads, pairs
        return known

    def remove(self, name: str) -> Adapter | None:
        """Forget an adapter; return it."""
        adapter = self._adapters.pop(name, None)
        if adapter is not None:
            adapter.is_loaded = False
            adapter.pairs = {}
        return adapter


class StepLora:
    """The low-rank parts of one step.

    Args:
        adapters_N: the adapter of each token of the step, None for the base.
    """

    def __init__(self, adapters_N: Sequence[Adapter | None]) -> None:
        places: dict[Adapter, list[int]] = {}
        for at, adapter in enumerate(adapters_N):
            if adapter is not None:
                places.setdefault(adapter, []).append(at)
        self._groups = [(adapter.pairs, _rows(rows)) for adapter, rows in places.items()]

    def add(self, layer: int, matrix: str, x: Tensor, product: Tensor) -> None:
        """Add to the base product [N, out] of x [N, in], in place."""
        for pairs, rows in self._groups:
            pair = pairs.get((layer, matrix))
            if pair is None:
                continue
            if isinstance(rows, slice):
                product[rows].addmm_(x[rows] @ pair.a.T, pair.b_t)
            else:
                product.index_add_(0, rows, x[rows] @ pair.a.T @ pair.b_t)


def step_lora(adapters_N: Sequence[Adapter | None]) -> StepLora | None:
    """Return the low-rank parts of a step, or None where no token has any."""
    return StepLora(adapters_N) if any(adapters_N) else None


def _rows(places: list[int]) -> slice | Tensor:
    if places[-1] - places[0] + 1 == len(places):
        return slice(places[0], places[-1] + 1)
    return torch.tensor(places)


def read(folder: Path, shape: LlamaShape) -> dict[tuple[int, str], Pair]:
    """Return the low-rank parts of an adapter in peft's layout, after checking everything.

    Raises:
        EngineError: unreadable, not plain LoRA, an unknown target, other shapes, NaN or infinity;
            names what is at fault.
    """
    config = _read_config(folder)
    halves: dict[tuple[int, str], dict[str, Tensor]] = {}  # (layer, part) → A and B
    for name, tensor in weights.read_tensors(folder / "adapter_model.safetensors").items():
        match = NAME.fullmatch(name)
        if match is None or int(match[1]) >= shape.num_layers:
            raise EngineError(
                f"{folder}: unknown target {name!r}; adapters go on {', '.join(_SIZES)} _proj "
                f"of layers 0..{shape.num_layers - 1}"
            )
        if not bool(tensor.isfinite().all()):
            raise EngineError(f"{folder}: {name} holds NaN or infinity")
        halves.setdefault((int(match[1]), match[2]), {})[match[3]] = tensor.float()
    _check_targets(config, {part for _, part in halves}, folder)
    single = {
        (layer, part): _pair(config, layer, part, pair, shape, folder)
        for (layer, part), pair in halves.items()
    }
    return {
        (layer, matrix): _fuse([(part, single.get((layer, part))) for part in parts], shape)
        for layer in sorted({layer for layer, _ in single})
        for matrix, parts in FUSED.items()
        if any((layer, part) in single for part in parts)
    }


def _read_config(folder: Path) -> Mapping[str, Any]:
    path = folder / "adapter_config.json"
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise EngineError(f"cannot read {path}: {error}") from error
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise EngineError(f"{path} describes no LoRA adapter (peft_type must be LORA)")
    for name, value in config.items():
        if name not in KNOWN_FIELDS and value:
            raise EngineError(f"{path}: {name}={value!r} is not supported by the torch engine")
    if config.get("bias", "none") != "none":
        raise EngineError(f"{path}: bias={config['bias']!r} is not supported; use bias='none'")
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(STARTS_THAT_CHANGE_THE_BASE):
        raise EngineError(
            f"{path}: init_lora_weights={start!r} changes the base model; save the adapter "
            "converted (peft: path_initial_model_for_weight_conversion)"
        )
    if not isinstance(config.get("r"), int) or not isinstance(
        config.get("lora_alpha"), int | float
    ):
        raise EngineError(f"{path}: r and lora_alpha must be numbers")
    return config


def _check_targets(config: Mapping[str, Any], parts: set[str], folder: Path) -> None:
    """Refuse a file that lacks what its configuration names, or holds nothing."""
    named = config.get("target_modules")
    missing = [
        target
        for target in (named if isinstance(named, list) else [])
        if target.rsplit(".", 1)[-1].removesuffix("_proj") not in parts
    ]
    if missing:
        raise EngineError(f"{folder}: target_modules names {missing[0]!r}, the weights lack it")


def _pair(
    config: Mapping[str, Any],
    layer: int,
    part: str,
    halves: Mapping[str, Tensor],
    shape: LlamaShape,
    folder: Path,
) -> Pair:
    """Return one matrix's low-rank part, checked and scaled."""
    module = f"model.layers.{layer}.{'mlp' if part in MLP else 'self_attn'}.{part}_proj"
    num_in, num_out = _SIZES[part](shape)
    rank = _by_pattern(config.get("rank_pattern"), module, config["r"])
    wanted = {"A": [rank, num_in], "B": [num_out, rank]}
    for half, size in wanted.items():
        seen = list(halves[half].shape) if half in halves else "missing"
        if seen != size:
            raise EngineError(f"{folder}: lora_{half} of {module} is {seen}, must be {size}")
    alpha = _by_pattern(config.get("alpha_pattern"), module, config["lora_alpha"])
    scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    return Pair(halves["A"], halves["B"].T * scale)


def _by_pattern(pattern: Mapping[str, Any] | None, module: str, default: Any) -> Any:
    """Return the first value whose key ends the module's name, as peft chooses it."""
    for key, value in (pattern or {}).items():
        if re.match(rf"(.*\.)?({key})$", module):
            return value
    return default


def _fuse(parts: Sequence[tuple[str, Pair | None]], shape: LlamaShape) -> Pair:
    """Return the parts of one fused matrix as one: A's stacked, B's on a block diagonal."""
    present = [pair for _, pair in parts if pair is not None]
    ranks = sum(len(pair.a) for pair in present)
    b_t = torch.zeros(ranks, sum(_SIZES[part](shape)[1] for part, _ in parts))
    rank = column = 0
    for part, pair in parts:
        num_out = _SIZES[part](shape)[1]
        if pair is not None:
            b_t[rank : rank + len(pair.a), column : column + num_out] = pair.b_t
            rank += len(pair.a)
        column += num_out
    return Pair(torch.cat([pair.a for pair in present]), b_t)
