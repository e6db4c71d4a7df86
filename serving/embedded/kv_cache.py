"""Keys and values of every sequence held by the engine, one row each.

Rows being decoded are kept first and contiguous, so that one attention call covers them all; a
finished sequence stays in its row as a cache for later prompts until the row is needed. Capacity
grows by doubling; memory is touched only where tokens were written.

Rows that begin with copies of the same keys and values (the members of a group) have that beginning
read once for all of them: decoding is bound by memory, and at 48 rows of 1,000 tokens the cache is
four times the weights of a 135M model. The two parts of a row's attention are put together by their
log-sum-exps, as flash decoding does (Dao et al. 2023; Juravsky et al. 2024 for shared prefixes).

Axes: ``_R`` row, ``_B`` row being decoded (0..B-1), ``_N`` tokens of a step laid end to end.
"""

import functools
import logging
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import EngineError
from .llama import LlamaShape

logger = logging.getLogger(__name__)

FIRST_CAPACITY = 512
WORTH_SHARING = 512  # positions that are not read again, for which two calls replace one


@dataclass(frozen=True)
class Segment:
    """A stretch of one prompt computed in this step: ``num`` tokens from position ``start``."""

    row: int
    start: int
    num: int


@dataclass(frozen=True)
class Run:
    """Decoded rows ``start..stop-1``, whose first ``shared`` positions hold the same."""

    start: int
    stop: int
    shared: int = 0

    @property
    def saved(self) -> int:
        """Positions that need not be read again."""
        return self.shared * (self.stop - self.start - 1)


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
        for layer in (*self._k, *self._v):  # one by one: what is put aside stays in the CPU's cache
            kept = layer[a, :, :len_a].clone() if len_a else None
            layer[a, :, :len_b] = layer[b, :, :len_b]
            if kept is not None:
                layer[b, :, :len_a] = kept


class CachedAttention:
    """Attention of one step: B decoded rows, then prompt segments; writes new keys and values.

    Args:
        cache: the cache.
        lengths_B: tokens each decoded row holds before this step.
        segments: prompt stretches, in the order of their tokens after the first B.
        runs: all decoded rows, in order; None takes them as sharing nothing.
    """

    def __init__(
        self,
        cache: KVCache,
        lengths_B: list[int],
        segments: list[Segment],
        runs: list[Run] | None = None,
    ) -> None:
        self._k, self._v, self._shape = cache._k, cache._v, cache._shape
        self._segments = segments
        self._num_rows = len(lengths_B)
        self._rows_B = torch.arange(self._num_rows)
        self._lengths_B = torch.tensor(lengths_B, dtype=torch.long)
        whole = [Run(0, self._num_rows)] if lengths_B else []
        self._runs = [(run, self._mask(run)) for run in (runs if runs is not None else whole)]
        self._causal = [_causal(segment) for segment in segments]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        s, num = self._shape, self._num_rows
        out = torch.empty(len(q), s.num_heads * s.head_dim)
        k_cache, v_cache = self._k[layer], self._v[layer]
        if num:
            k_cache[self._rows_B, :, self._lengths_B] = k[:num]
            v_cache[self._rows_B, :, self._lengths_B] = v[:num]
        for run, mask in self._runs:
            here = slice(run.start, run.stop)
            # the query heads that share a key head are laid out as query rows
            queries = q[here].view(run.stop - run.start, s.num_kv_heads, -1, s.head_dim)
            attend = _shared_attention if run.shared else _plain_attention
            mixed = attend(queries, k_cache[here], v_cache[here], mask, run.shared)
            out[here] = mixed.reshape(len(mixed), -1)
        at = num
        for segment, causal in zip(self._segments, self._causal, strict=True):
            upto, here = segment.start + segment.num, slice(at, at + segment.num)
            keys, values = k_cache[segment.row, :, :upto], v_cache[segment.row, :, :upto]
            keys[:, segment.start :] = k[here].transpose(0, 1)
            values[:, segment.start :] = v[here].transpose(0, 1)
            out[here] = causal_attention(q[here], keys, values, causal)
            at += segment.num
        return out

    def _mask(self, run: Run) -> Tensor:
        """Return [rows, 1, 1, positions from ``shared`` on], minus infinity beyond a row's end."""
        lengths = self._lengths_B[run.start : run.stop].unsqueeze(1)
        position = torch.arange(run.shared, int(lengths.max()) + 1)
        mask = torch.zeros(len(lengths), len(position))
        return mask.masked_fill_(position > lengths, -torch.inf)[:, None, None]


def _plain_attention(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, _: int) -> Tensor:
    """Return [rows, kv_heads, queries, dim] for q of that shape over the rows' own caches."""
    longest = mask.shape[-1]
    return F.scaled_dot_product_attention(
        q, keys[:, :, :longest], values[:, :, :longest], attn_mask=mask
    )


def _shared_attention(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, shared: int) -> Tensor:
    """As ``_plain_attention``, reading the first ``shared`` positions of the first row only."""
    rows, kv_heads, queries, dim = q.shape
    upto = shared + mask.shape[-1]
    together = q.transpose(0, 1).reshape(1, kv_heads, rows * queries, dim)
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    common, common_lse = flash(together, keys[:1, :, :shared], values[:1, :, :shared])
    own, own_lse = flash(
        q, keys[:, :, shared:upto], values[:, :, shared:upto], 0.0, False, attn_mask=mask
    )
    common = common.view(kv_heads, rows, queries, dim).transpose(0, 1)
    common_lse = common_lse.view(kv_heads, rows, queries).transpose(0, 1)
    share = torch.sigmoid(common_lse - own_lse).unsqueeze(-1)
    mixed: Tensor = own.lerp(common, share)
    return mixed


@functools.cache
def can_share() -> bool:
    """Return whether this torch gives the log-sum-exp of an attention, and gives it right."""
    q, keys, values = torch.randn(3, 2, 2, 8), torch.randn(3, 2, 5, 8), torch.randn(3, 2, 5, 8)
    keys[:, :, :3], values[:, :, :3] = keys[0, :, :3].clone(), values[0, :, :3].clone()
    mask = torch.zeros(3, 1, 1, 5)
    try:
        found = _shared_attention(q, keys, values, mask[..., 3:], 3)
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        logger.info("shared beginnings are read once per row: %s", error)
        return False
    return bool(torch.allclose(found, _plain_attention(q, keys, values, mask, 0), atol=1e-5))


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
