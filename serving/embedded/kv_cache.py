"""Keys and values of every sequence held by the engine, one row each.

Rows being decoded are kept first and contiguous, so that one attention call covers them all; a
finished sequence stays in its row as a cache for later prompts until the row is needed. Capacity
grows by doubling; memory is touched only where tokens were written.

Axes: ``_R`` row, ``_B`` row being decoded (0..B-1), ``_N`` tokens of a step laid end to end.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import EngineError
from .llama import LlamaShape

FIRST_CAPACITY = 512


@dataclass(frozen=True)
class Segment:
    """A stretch of one prompt computed in this step: ``num`` tokens from position ``start``."""

    row: int
    start: int
    num: int


class KVCache:
    """Tensors [layers, rows, kv_heads, capacity, head_dim] for keys and for values."""

    def __init__(self, shape: LlamaShape, num_rows: int, max_len: int) -> None:
        self._shape = shape
        self._num_rows = num_rows
        self._max_len = max_len
        self.capacity = min(FIRST_CAPACITY, max_len)
        self._k = self._allocate(self.capacity)
        self._v = self._allocate(self.capacity)

    def _allocate(self, capacity: int) -> Tensor:
        s = self._shape
        size = (s.num_layers, self._num_rows, s.num_kv_heads, capacity, s.head_dim)
        try:
            # zeros, since a masked NaN is still NaN; calloc touches no page before it is written
            return torch.from_numpy(np.zeros(size, np.float32))
        except MemoryError as error:
            raise EngineError(
                f"no memory for {self._num_rows} sequences of {capacity} tokens; "
                "lower max_slots or max_len"
            ) from error

    def reserve(self, length: int, lengths_R: list[int]) -> None:
        """Make room for ``length`` tokens per row; ``lengths_R`` says what each row holds."""
        if length <= self.capacity:
            return
        capacity = self.capacity
        while capacity < length:
            capacity *= 2
        capacity = min(capacity, self._max_len)
        for name in ("_k", "_v"):
            old, new = getattr(self, name), self._allocate(capacity)
            for row, used in enumerate(lengths_R):
                new[:, row, :, :used] = old[:, row, :, :used]
            setattr(self, name, new)
        self.capacity = capacity

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` positions of row ``source`` to row ``target``."""
        for cache in (self._k, self._v):
            cache[:, target, :, :length] = cache[:, source, :, :length]

    def swap(self, a: int, b: int, len_a: int, len_b: int) -> None:
        """Exchange two rows holding ``len_a`` and ``len_b`` tokens."""
        for cache in (self._k, self._v):
            kept = cache[:, a, :, :len_a].clone() if len_a else None
            cache[:, a, :, :len_b] = cache[:, b, :, :len_b]
            if kept is not None:
                cache[:, b, :, :len_a] = kept


class CachedAttention:
    """Attention of one step: B decoded rows, then prompt segments; writes new keys and values.

    Args:
        cache: the cache.
        lengths_B: tokens each decoded row holds before this step.
        segments: prompt stretches, in the order of their tokens after the first B.
    """

    def __init__(self, cache: KVCache, lengths_B: list[int], segments: list[Segment]) -> None:
        self._k, self._v, self._shape = cache._k, cache._v, cache._shape
        self._segments = segments
        self._num_rows = len(lengths_B)
        self._rows_B = torch.arange(self._num_rows)
        self._lengths_B = torch.tensor(lengths_B, dtype=torch.long)
        self._longest = max(lengths_B, default=0) + 1
        beyond = torch.arange(self._longest) > self._lengths_B.unsqueeze(1)
        self._mask = torch.zeros(beyond.shape).masked_fill_(beyond, -torch.inf)[:, None, None]
        self._causal = [_causal(segment) for segment in segments]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        s, num = self._shape, self._num_rows
        out = torch.empty(len(q), s.num_heads * s.head_dim)
        k_cache, v_cache = self._k[layer], self._v[layer]
        if num:
            k_cache[self._rows_B, :, self._lengths_B] = k[:num]
            v_cache[self._rows_B, :, self._lengths_B] = v[:num]
            # the query heads that share a key head are laid out as query rows
            mixed = F.scaled_dot_product_attention(
                q[:num].view(num, s.num_kv_heads, -1, s.head_dim),
                k_cache[:num, :, : self._longest],
                v_cache[:num, :, : self._longest],
                attn_mask=self._mask,
            )
            out[:num] = mixed.reshape(num, -1)
        at = num
        for segment, mask in zip(self._segments, self._causal, strict=True):
            upto, here = segment.start + segment.num, slice(at, at + segment.num)
            keys, values = k_cache[segment.row, :, :upto], v_cache[segment.row, :, :upto]
            keys[:, segment.start :] = k[here].transpose(0, 1)
            values[:, segment.start :] = v[here].transpose(0, 1)
            out[here] = causal_attention(q[here], keys, values, mask)
            at += segment.num
        return out


def causal_attention(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Return [n, heads * dim] for q [n, heads, dim] over keys and values [kv_heads, m, dim].

    Args:
        mask: [n, m] added to the scores; None is the square causal mask.
    """
    num, heads, dim = q.shape
    groups = heads // len(keys)
    mixed = F.scaled_dot_product_attention(
        q.transpose(0, 1).reshape(len(keys), groups, num, dim),
        keys.unsqueeze(1).expand(-1, groups, -1, -1),
        values.unsqueeze(1).expand(-1, groups, -1, -1),
        attn_mask=mask,
        is_causal=mask is None,
    )
    return mixed.reshape(heads, num, dim).transpose(0, 1).reshape(num, heads * dim)


def _causal(segment: Segment) -> Tensor | None:
    if segment.start == 0:
        return None
    key = torch.arange(segment.start + segment.num)
    query = torch.arange(segment.start, segment.start + segment.num).unsqueeze(1)
    return torch.zeros(len(query), len(key)).masked_fill_(key > query, -torch.inf)
