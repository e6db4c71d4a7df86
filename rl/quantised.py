"""A frozen base in 8 or 4 bits under adapters (QLoRA, arXiv 2305.14314, with linear codes).

``quantise`` replaces linear layers by ones that hold integers and scales: a row's own scale for 8
bits, one per 64 numbers of a row for 4 bits, which stand two to a byte. They are turned into
numbers when the layer computes, and again in the backward: never all layers at once. Runs wherever
torch does. Left out: double quantisation and NF4, and shards of it.
"""

from typing import Any, Literal

import torch

Bits = Literal["int8", "int4"]
GROUP = 64  # numbers that share a scale in 4 bits
HEAD = "lm_head"


class QuantisedLinear(torch.nn.Linear):
    """A linear layer with a frozen weight in integers.

    Args:
        layer: whose weight is taken; its bias is kept as it is.
        bits: see the module.
    """

    codes: torch.Tensor
    scales: torch.Tensor

    def __init__(self, layer: torch.nn.Linear, bits: Bits) -> None:
        torch.nn.Module.__init__(self)  # a linear layer by kind, without its weight
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.bias = layer.bias
        self.bits, self.kept = bits, layer.weight.dtype
        codes, scales = encode(layer.weight.detach(), bits)
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales)

    def __getattr__(self, name: str) -> Any:
        return self.dequantised() if name == "weight" else super().__getattr__(name)

    def dequantised(self) -> torch.Tensor:
        """Return the numbers that the integers stand for."""
        return decode(self.codes, self.scales, self.bits, self.in_features).to(self.kept)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return ``input @ W.T + b``."""
        output: torch.Tensor = _Product.apply(input, self)  # type: ignore[no-untyped-call]
        return output if self.bias is None else output + self.bias


class _Product(torch.autograd.Function):
    """A product that keeps the integers for the backward, not what they stand for."""

    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, layer: QuantisedLinear) -> torch.Tensor:
        ctx.layer = layer
        return input @ layer.dequantised().to(input.dtype).T

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (gradient,) = gradients
        return gradient @ ctx.layer.dequantised().to(gradient.dtype), None


def quantise(model: torch.nn.Module, bits: Bits) -> int:
    """Replace every linear layer but the head, in place; return how many."""
    found = [
        (parent, name, layer)
        for path, parent in model.named_modules()
        for name, layer in parent.named_children()
        if type(layer) is torch.nn.Linear and name != HEAD and HEAD not in path
    ]
    for parent, name, layer in found:
        setattr(parent, name, QuantisedLinear(layer, bits))
    return len(found)


def encode(weight_OI: torch.Tensor, bits: Bits) -> tuple[torch.Tensor, torch.Tensor]:
    """Return codes and scales of a matrix.

    Returns:
        codes: int8 [O, I], or uint8 [O, ceil(I/64)·32] with two codes a byte.
        scales: float32 [O, 1], or [O, ceil(I/64)].
    """
    weight_OI = weight_OI.float()
    if bits == "int8":
        scales = weight_OI.abs().amax(1, keepdim=True).clamp(min=1e-12) / 127.0
        return torch.round(weight_OI / scales).to(torch.int8), scales
    rows, columns = weight_OI.shape
    padded = torch.nn.functional.pad(weight_OI, (0, -columns % GROUP)).reshape(rows, -1, GROUP)
    scales = padded.abs().amax(2).clamp(min=1e-12) / 7.0
    codes = (torch.round(padded / scales[:, :, None]) + 8).to(torch.uint8).reshape(rows, -1, 2)
    return codes[:, :, 0] | (codes[:, :, 1] << 4), scales


def decode(codes: torch.Tensor, scales: torch.Tensor, bits: Bits, columns: int) -> torch.Tensor:
    """Return the float32 matrix that ``encode`` took apart, as nearly as its codes say."""
    if bits == "int8":
        return codes.float() * scales
    pairs = torch.stack([codes & 15, codes >> 4], -1).reshape(len(codes), -1, GROUP)
    return ((pairs.float() - 8.0) * scales[:, :, None]).reshape(len(codes), -1)[:, :columns]
