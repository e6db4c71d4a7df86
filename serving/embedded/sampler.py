"""From logits to tokens: temperature, nucleus, inverse-CDF sampling with a counter-based uniform.

The uniform number of a token depends only on the request's seed and the token's index, so equal
seed, prompt and weights give equal tokens however requests are batched. Matrix products of another
batch shape round differently; a token changes when its uniform number falls within that rounding
(about 1e-6) of a boundary between two tokens, or a greedy choice is a tie to that precision.

Axes: ``_B`` rows, ``_V`` vocabulary.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..types import Top

_MASK = (1 << 64) - 1


class Draw(NamedTuple):
    """How one row is sampled.

    Attributes:
        temperature: 0 is greedy, with log-probs at temperature 1.
        top_p: nucleus; it truncates what is sampled, not the log-prob reported.
        uniform: a number in [0, 1).
        num_top: how many of the most probable tokens to list.
        allowed_V: True where a token may be sampled, or None for all; like ``top_p`` it does not
            change the log-prob reported.
    """

    temperature: float
    top_p: float
    uniform: float
    num_top: int = 0
    allowed_V: Tensor | None = None


class Pick(NamedTuple):
    """What was sampled in one row: see ``types.Token``."""

    id: int
    logprob: float
    top: Top


def uniform(seed: int, index: int) -> float:
    """Return the number in [0, 1) for token ``index`` of a request seeded ``seed``."""
    bits = _mix(_mix(seed & _MASK) ^ (index * 0x9E3779B97F4A7C15 & _MASK))
    return float((bits >> 11) * 2.0**-53)


def _mix(x: int) -> int:
    """SplitMix64's finaliser (Steele, Lea, Flood 2014)."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
    return x ^ (x >> 31)


def sample(logits: Tensor, draws_B: Sequence[Draw]) -> list[Pick]:
    """Sample one token per row of logits [B, V], with log-probs under softmax(logits / t)."""
    if any(draw.temperature not in (0, 1) for draw in draws_B):
        scale_B = torch.tensor([draw.temperature or 1.0 for draw in draws_B])
        scaled = logits / scale_B.unsqueeze(1)
    else:
        scaled = logits
    logprobs = torch.log_softmax(scaled, dim=-1)
    probs = logprobs.exp()
    for row, draw in enumerate(draws_B):
        if draw.allowed_V is not None:  # anew from the logits: what is allowed may be improbable
            probs[row] = scaled[row].masked_fill(~draw.allowed_V, -torch.inf).softmax(dim=-1)
        if draw.top_p < 1.0 and draw.temperature > 0:
            probs[row] = _nucleus(probs[row], draw.top_p)
    cdf = probs.cumsum(dim=-1)
    total_B = cdf[:, -1]
    points_B = torch.tensor([draw.uniform for draw in draws_B], dtype=torch.float64) * total_B
    # strictly below the end, whatever rounding did, so that the token found has mass
    points_B = torch.minimum(points_B.float(), torch.nextafter(total_B, torch.zeros(())))
    ids = torch.searchsorted(cdf, points_B.unsqueeze(1), right=True).squeeze(1)
    if any(draw.temperature <= 0 for draw in draws_B):
        greedy = torch.tensor([draw.temperature <= 0 for draw in draws_B])
        ids = torch.where(greedy, _most_probable(logits, draws_B), ids)
    chosen = logprobs.gather(1, ids.unsqueeze(1)).squeeze(1)
    tops = _tops(logprobs, draws_B)
    return [Pick(*pick) for pick in zip(ids.tolist(), chosen.tolist(), tops, strict=True)]


def _nucleus(probs_V: Tensor, top_p: float) -> Tensor:
    """Zero all but the most probable tokens whose mass reaches ``top_p`` (at least one)."""
    ordered, order = probs_V.sort(descending=True)
    keep = ordered.cumsum(dim=0) - ordered < top_p
    keep[0] = True
    return torch.zeros_like(probs_V).scatter_(0, order[keep], ordered[keep])


def _most_probable(logits: Tensor, draws_B: Sequence[Draw]) -> Tensor:
    if all(draw.allowed_V is None for draw in draws_B):
        return logits.argmax(dim=-1)
    logits = logits.clone()
    for row, draw in enumerate(draws_B):
        if draw.allowed_V is not None:
            logits[row].masked_fill_(~draw.allowed_V, -torch.inf)
    return logits.argmax(dim=-1)


def _tops(logprobs: Tensor, draws_B: Sequence[Draw]) -> list[Top]:
    most = max(draw.num_top for draw in draws_B)
    if most == 0:
        return [()] * len(draws_B)
    values, ids = logprobs.topk(most, dim=-1)
    return [
        tuple(zip(ids_k[: draw.num_top], values_k[: draw.num_top], strict=True))
        for ids_k, values_k, draw in zip(ids.tolist(), values.tolist(), draws_B, strict=True)
    ]
