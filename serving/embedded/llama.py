"""Forward pass of Llama-family weights in float32, read top to bottom.

RMSNorm, rotary positions, grouped-query attention, SwiGLU; q/k/v and gate/up are one matrix each.
Covers ``llama``, ``mistral`` (without a sliding window), ``qwen2`` (biases on q/k/v) and ``qwen3``
(norms on q and k). Any other architecture is refused. The attention itself is the caller's
(``Attend``), so one pass serves cached decoding, prefill and scoring.

Left out: dropout, gradients.

Axes: ``_N`` tokens of all sequences of a step laid end to end, ``_V`` vocabulary.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import ModelError
from .matrix import Int8Matrix, Matrix, int8_kernel

EMBEDDING = "model.embed_tokens.weight"
SUPPORTED = ("llama", "mistral", "qwen2", "qwen3")

# attend(layer, q [N, heads, dim], k [N, kv_heads, dim], v [N, kv_heads, dim]) -> [N, heads * dim]
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]


class LowRank(Protocol):
    """What adapters add to the products of a pass (``serving.embedded.lora``)."""

    def add(self, layer: int, matrix: str, x: Tensor, product: Tensor) -> None:
        """Add to product [N, out] of x [N, in], in place; ``matrix`` is a field of ``Layer``."""


@dataclass(frozen=True)
class LlamaShape:
    """Sizes of a model, from its ``config.json``."""

    model_type: str
    num_layers: int
    hidden: int
    ffn: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab: int
    rms_eps: float
    max_len: int
    tied: bool
    attention_bias: bool


@dataclass
class Layer:
    """Weights of one block; the HF names are views into them (see ``LlamaModel.params``)."""

    attn_norm: Tensor  # [hidden]
    qkv: Matrix  # [(heads + 2 kv_heads) * dim, hidden]
    q_norm: Tensor | None  # [dim]
    k_norm: Tensor | None
    out: Matrix  # [hidden, heads * dim]
    mlp_norm: Tensor
    gate_up: Matrix  # [2 ffn, hidden]
    down: Matrix  # [hidden, ffn]


class LlamaModel:
    """The weights and the forward pass.

    Attributes:
        shape: sizes.
        params: HF parameter name → view into the (fused) weights; ``prepared`` changes them.
    """

    def __init__(self, folder: Path, int8: bool = False) -> None:
        """Read ``config.json`` and every ``*.safetensors`` of ``folder``.

        Args:
            folder: model in HF layout.
            int8: multiply with quantised matrices; embeddings and norms stay float32.

        Raises:
            ModelError: unsupported architecture, no safetensors, missing or misshapen tensors, no
                int8 products on this machine.
        """
        if int8 and not int8_kernel():
            raise ModelError("this torch multiplies no int8 on this CPU; use weights=fp32")
        self._matrix_class = Int8Matrix if int8 else Matrix
        config = _read_config(folder)
        self.shape = _shape(config)
        self.params: dict[str, Tensor] = {}
        self._matrices: dict[int, Matrix] = {}  # by address of their storage
        self._layers = [self._new_layer(i) for i in range(self.shape.num_layers)]
        self._embed = self._new(EMBEDDING, self.shape.vocab, self.shape.hidden)
        self._norm = self._new("model.norm.weight", self.shape.hidden)
        self._head = self._matrix(
            self._embed
            if self.shape.tied
            else self._new("lm_head.weight", self.shape.vocab, self.shape.hidden)
        )
        self._cos, self._sin = _rope_table(config, self.shape.max_len)
        self._read(folder)
        self._names: dict[int, list[str]] = {}  # of the parameters in each matrix
        for name, tensor in self.params.items():
            self._names.setdefault(_address(tensor), []).append(name)
        for matrix in self._matrices.values():
            matrix.pack()

    def prepared(self, tensors: Mapping[str, Tensor]) -> Callable[[], None]:
        """Return what puts new values in place, in a moment, between two passes.

        All that takes time happens here, beside the running model: the matrices that change are
        made anew, in every layout they are kept in. One preparation at a time, each followed by its
        change or by none.

        Args:
            tensors: some or all of ``params``, of their shapes.
        """
        small: dict[str, Tensor] = {}
        by_matrix: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            address = _address(self.params[name])
            if address in self._matrices:
                by_matrix.setdefault(address, {})[name] = tensor
            else:
                small[name] = tensor.to(torch.float32, copy=True)  # a file may be mapped no more
        views: dict[str, Tensor] = {}
        renewed: list[tuple[Matrix, Matrix]] = []
        for address, parts in by_matrix.items():
            matrix = self._matrices[address]
            names = self._names[address]
            is_all = parts.keys() >= set(names)
            plain = torch.empty_like(matrix.plain) if is_all else matrix.plain.clone()
            for name in names:
                old = self.params[name]
                view = plain.as_strided(old.size(), old.stride(), old.storage_offset())
                if name in parts:
                    view.copy_(parts[name])
                views[name] = view
            renewed.append((matrix, matrix.renewed(plain)))

        def change() -> None:
            for name, tensor in small.items():
                self.params[name].copy_(tensor)
            for matrix, other in renewed:
                names = self._names.pop(_address(matrix.plain))
                del self._matrices[_address(matrix.plain)]
                matrix.exchange(other)  # the old one is freed by who prepared the new one
                self._matrices[_address(matrix.plain)] = matrix
                self._names[_address(matrix.plain)] = names
            self.params.update(views)
            self._embed = self.params[EMBEDDING]

        return change

    @property
    def num_params(self) -> int:
        """Number of distinct weights."""
        return sum(tensor.numel() for tensor in self.params.values())

    def hidden(
        self, ids_N: Tensor, positions_N: Tensor, attend: Attend, lora: LowRank | None = None
    ) -> Tensor:
        """Return the final normalised hidden states [N, hidden]."""
        s = self.shape
        x = F.embedding(ids_N, self._embed)
        cos, sin = self._cos[positions_N].unsqueeze(1), self._sin[positions_N].unsqueeze(1)
        eps = s.rms_eps
        num_qk = s.num_heads + s.num_kv_heads
        for i, layer in enumerate(self._layers):
            h = _rms_norm(x, layer.attn_norm, eps)
            product = layer.qkv(h)
            if lora is not None:
                lora.add(i, "qkv", h, product)
            qkv = product.view(len(x), -1, s.head_dim)
            qk, v = qkv[:, :num_qk], qkv[:, num_qk:]
            if layer.q_norm is not None and layer.k_norm is not None:
                q = _rms_norm(qk[:, : s.num_heads], layer.q_norm, eps)
                k = _rms_norm(qk[:, s.num_heads :], layer.k_norm, eps)
                qk = torch.cat((q, k), dim=1)
            qk = _rotate(qk, cos, sin)
            mixed = attend(i, qk[:, : s.num_heads], qk[:, s.num_heads :], v)
            product = layer.out(mixed)
            if lora is not None:
                lora.add(i, "out", mixed, product)
            x = product.add_(x)
            h = _rms_norm(x, layer.mlp_norm, eps)
            product = layer.gate_up(h)
            if lora is not None:
                lora.add(i, "gate_up", h, product)
            gate, up = product.chunk(2, dim=-1)
            h = F.silu(gate).mul_(up)
            product = layer.down(h)
            if lora is not None:
                lora.add(i, "down", h, product)
            x = product.add_(x)
        return _rms_norm(x, self._norm, eps)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits [rows, V] of final hidden states [rows, hidden]."""
        return self._head(hidden)

    def _new(self, name: str, *size: int) -> Tensor:
        tensor = torch.empty(*size)
        self.params[name] = tensor
        return tensor

    def _matrix(self, weight: Tensor, bias: Tensor | None = None) -> Matrix:
        matrix = self._matrix_class(weight, bias)
        self._matrices[_address(weight)] = matrix
        return matrix

    def _new_layer(self, index: int) -> Layer:
        s = self.shape
        prefix = f"model.layers.{index}."
        q, kv = s.num_heads * s.head_dim, s.num_kv_heads * s.head_dim
        qkv, gate_up = torch.empty(q + 2 * kv, s.hidden), torch.empty(2 * s.ffn, s.hidden)
        bias = torch.empty(q + 2 * kv) if s.attention_bias else None
        for name, view in zip("qkv", torch.split(qkv, [q, kv, kv]), strict=True):
            self.params[f"{prefix}self_attn.{name}_proj.weight"] = view
        if bias is not None:
            for name, view in zip("qkv", torch.split(bias, [q, kv, kv]), strict=True):
                self.params[f"{prefix}self_attn.{name}_proj.bias"] = view
        for name, view in zip(("gate", "up"), gate_up.chunk(2), strict=True):
            self.params[f"{prefix}mlp.{name}_proj.weight"] = view
        norms = s.model_type == "qwen3"
        return Layer(
            attn_norm=self._new(f"{prefix}input_layernorm.weight", s.hidden),
            qkv=self._matrix(qkv, bias),
            q_norm=self._new(f"{prefix}self_attn.q_norm.weight", s.head_dim) if norms else None,
            k_norm=self._new(f"{prefix}self_attn.k_norm.weight", s.head_dim) if norms else None,
            out=self._matrix(self._new(f"{prefix}self_attn.o_proj.weight", s.hidden, q)),
            mlp_norm=self._new(f"{prefix}post_attention_layernorm.weight", s.hidden),
            gate_up=self._matrix(gate_up),
            down=self._matrix(self._new(f"{prefix}mlp.down_proj.weight", s.hidden, s.ffn)),
        )

    def _read(self, folder: Path) -> None:
        missing = set(self.params)
        for name, tensor in _tensors(folder):
            target = self.params.get(name)
            if target is None:
                if name != "lm_head.weight" and not name.endswith("rotary_emb.inv_freq"):
                    raise ModelError(f"{folder} holds {name}, which this engine does not know")
                continue
            if target.shape != tensor.shape:
                raise ModelError(
                    f"{folder}: {name} is {list(tensor.shape)}, config.json says "
                    f"{list(target.shape)}"
                )
            target.copy_(tensor)
            missing.discard(name)
        if missing:
            raise ModelError(f"{folder} lacks {len(missing)} tensors, such as {min(missing)}")


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm over the last axis; torch's own takes about twice as many operations on a CPU."""
    scale = (x * x).mean(dim=-1, keepdim=True).add_(eps).rsqrt_()
    return (x * scale).mul_(weight)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions in the half-split layout; x [N, heads, dim], cos and sin [N, 1, dim]."""
    return (x * cos).addcmul_(x.roll(x.shape[-1] // 2, dims=-1), sin)


def _rope_table(config: "object", max_len: int) -> tuple[Tensor, Tensor]:
    """Return cosines and sines [max_len, dim]; the sines of the first half are negated."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    fields = config.to_dict()  # type: ignore[attr-defined]
    scaling = fields.get("rope_parameters") or fields.get("rope_scaling") or {}
    rule = scaling.get("rope_type") or scaling.get("type") or "default"
    if rule in ("dynamic", "longrope"):
        raise ModelError(
            f"the torch engine has no {rule} rope scaling: its angles depend on the length of the "
            "sequence. Serve it with engine=sglang"
        )
    rotary = LlamaRotaryEmbedding(config)  # covers transformers' other scaling rules
    angle = torch.arange(max_len).float().unsqueeze(1) * rotary.inv_freq.float()
    cos, sin = angle.cos() * rotary.attention_scaling, angle.sin() * rotary.attention_scaling
    return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)


def _read_config(folder: Path) -> "object":
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder)
    except (OSError, ValueError, json.JSONDecodeError) as error:
        raise ModelError(f"{folder}/config.json cannot be read: {error}") from error


def _shape(config: "object") -> LlamaShape:
    fields = config.to_dict()  # type: ignore[attr-defined]
    kind = fields["model_type"]
    if kind not in SUPPORTED:
        raise ModelError(
            f"the torch engine runs {', '.join(SUPPORTED)}; this model is {kind!r}. "
            "Serve it with engine=sglang"
        )
    sliding = fields.get("use_sliding_window", kind == "mistral") and fields.get("sliding_window")
    if sliding or fields.get("mlp_bias") or fields.get("hidden_act") != "silu":
        raise ModelError("the torch engine has no sliding window, no MLP bias, and only silu")
    if fields.get("attention_bias") and kind != "qwen2":
        raise ModelError(f"the torch engine has no attention biases for {kind}")
    heads = fields["num_attention_heads"]
    return LlamaShape(
        model_type=kind,
        num_layers=fields["num_hidden_layers"],
        hidden=fields["hidden_size"],
        ffn=fields["intermediate_size"],
        num_heads=heads,
        num_kv_heads=fields.get("num_key_value_heads") or heads,
        head_dim=fields.get("head_dim") or fields["hidden_size"] // heads,
        vocab=fields["vocab_size"],
        rms_eps=fields["rms_norm_eps"],
        max_len=fields["max_position_embeddings"],
        tied=bool(fields.get("tie_word_embeddings")),
        attention_bias=kind == "qwen2",
    )


def _tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    from safetensors import safe_open

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelError(f"{folder} holds no *.safetensors; convert the weights to safetensors")
    for path in files:
        with safe_open(path, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118  (not a mapping)
                yield name, opened.get_tensor(name)
