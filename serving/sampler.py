"""From logits to tokens: temperature, nucleus, inverse-CDF sampling with a counter-based uniform.

The uniform number of a token depends only on the request's seed and the token's index, so equal
seed, prompt and weights give equal tokens however requests are batched. Matrix products of another
batch shape round differently; a token changes when its uniform number falls within that rounding
(about 1e-6) of a boundary between two tokens, or a greedy choice is a tie to that precision.

Axes: ``_B`` rows, ``_V`` vocabulary.
"""

import torch
from torch import Tensor

_MASK = (1 << 64) - 1


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


def sample(
    logits: Tensor, temperature_B: list[float], top_p_B: list[float], uniform_B: list[float]
) -> tuple[list[int], list[float]]:
    """Return the sampled ids and their log-probs under softmax(logits / temperature).

    Args:
        logits: [B, V] float32.
        temperature_B: 0 is greedy, with log-probs at temperature 1.
        top_p_B: nucleus; it truncates what is sampled, not the log-prob reported.
        uniform_B: one number in [0, 1) per row.
    """
    if any(t not in (0, 1) for t in temperature_B):
        scale_B = torch.tensor([t if t > 0 else 1.0 for t in temperature_B])
        scaled = logits / scale_B.unsqueeze(1)
    else:
        scaled = logits
    logprobs = torch.log_softmax(scaled, dim=-1)
    probs = logprobs.exp()
    for row, top_p in enumerate(top_p_B):
        if top_p < 1.0 and temperature_B[row] > 0:
            probs[row] = _nucleus(probs[row], top_p)
    cdf = probs.cumsum(dim=-1)
    total_B = cdf[:, -1]
    points_B = torch.tensor(uniform_B, dtype=torch.float64) * total_B
    # strictly below the end, whatever rounding did, so that the token found has mass
    points_B = torch.minimum(points_B.float(), torch.nextafter(total_B, torch.zeros(())))
    ids = torch.searchsorted(cdf, points_B.unsqueeze(1), right=True).squeeze(1)
    if any(t <= 0 for t in temperature_B):
        greedy = torch.tensor([t <= 0 for t in temperature_B])
        ids = torch.where(greedy, logits.argmax(dim=-1), ids)
    chosen = logprobs.gather(1, ids.unsqueeze(1)).squeeze(1)
    return ids.tolist(), chosen.tolist()


def _nucleus(probs_V: Tensor, top_p: float) -> Tensor:
    """Zero all but the most probable tokens whose mass reaches ``top_p`` (at least one)."""
    ordered, order = probs_V.sort(descending=True)
    keep = ordered.cumsum(dim=0) - ordered < top_p
    keep[0] = True
    return torch.zeros_like(probs_V).scatter_(0, order[keep], ordered[keep])
