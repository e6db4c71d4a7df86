"""Attention over a prefix tree, as a function that Hugging Face models call.

A model made with ``attn_implementation=NAME`` takes a ``Tree`` through its forward's keyword
arguments and computes each of its blocks by ``scaled_dot_product_attention``. Sliding windows are
measured in depth, which is the token's position in its own sequence.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from rl.blocks import Block
from rl.errors import RunError
from rl.types import IntArray

NAME = "prefix_tree"


class Tree:
    """A packed batch's blocks on a device.

    Args:
        blocks: of the tree.
        positions_N: depth of each node.
        device, dtype: of queries and keys.
    """

    def __init__(
        self, blocks: Sequence[Block], positions_N: IntArray, device: str, dtype: torch.dtype
    ) -> None:
        self._blocks = blocks
        self._positions_N = torch.from_numpy(positions_N)
        self._depth = int(positions_N.max()) + 1 if len(positions_N) else 0
        self._device, self._dtype = device, dtype
        self._masks: dict[int | None, list[torch.Tensor | None]] = {}
        seen = [block.keys_K for block in blocks if block.keys_K is not None]
        self._seen_sizes = [len(keys_K) for keys_K in seen]
        self._seen = torch.from_numpy(np.concatenate(seen)).to(device) if seen else None

    def attend(
        self,
        query_HND: torch.Tensor,
        key_HND: torch.Tensor,
        value_HND: torch.Tensor,
        scale: float | None,
        window: int | None,
    ) -> torch.Tensor:
        """Return each node's attention over its ancestors and itself; all with a batch of one."""
        if window is not None and window >= self._depth:
            window = None
        grouped = query_HND.shape[1] != key_HND.shape[1]
        queries = torch.split(query_HND, [block.stop - block.start for block in self._blocks], 2)
        seen = iter(self._gathered(key_HND, value_HND))
        parts = []
        for block, part_HRD, mask_RK in zip(
            self._blocks, queries, self._window(window), strict=True
        ):
            own = slice(block.start, block.stop)
            key_HKD, value_HKD = (
                (key_HND[:, :, own], value_HND[:, :, own]) if block.keys_K is None else next(seen)
            )
            parts.append(
                scaled_dot_product_attention(
                    part_HRD,
                    key_HKD,
                    value_HKD,
                    attn_mask=mask_RK,
                    is_causal=mask_RK is None,
                    scale=scale,
                    enable_gqa=grouped,
                )
            )
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)

    def _gathered(
        self, key_HND: torch.Tensor, value_HND: torch.Tensor
    ) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
        """Return keys and values of each block that sees more than itself; taken together, since
        each taking costs its backward a pass over all nodes."""
        if self._seen is None:
            return ()
        keys, values = (
            torch.split(t.index_select(2, self._seen), self._seen_sizes, 2)
            for t in (key_HND, value_HND)
        )
        return zip(keys, values, strict=True)

    def _window(self, window: int | None) -> list[torch.Tensor | None]:
        """Return additive masks, one per block; None where it is the plain causal one."""
        if window not in self._masks:
            self._masks[window] = [self._mask(block, window) for block in self._blocks]
        return self._masks[window]

    def _mask(self, block: Block, window: int | None) -> torch.Tensor | None:
        rows = torch.arange(block.start, block.stop)
        if block.keys_K is None or block.mask_RK is None:
            if window is None:
                return None
            keys, seen_RK = rows, torch.ones(len(rows), len(rows), dtype=torch.bool).tril()
        else:
            keys, seen_RK = torch.from_numpy(block.keys_K), torch.from_numpy(block.mask_RK)
        if window is not None:
            behind_RK = self._positions_N[rows][:, None] - self._positions_N[keys][None]
            seen_RK = seen_RK & (behind_RK < window)
        mask_RK = torch.zeros(seen_RK.shape, dtype=self._dtype)
        return mask_RK.masked_fill(~seen_RK, -torch.inf).to(self._device)


def tree_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    tree: Tree | None = None,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Attend over ``tree``; see ``transformers.AttentionInterface`` for the arguments.

    Raises:
        RunError: no tree came through the model, or its attention has a part that is not computed
            here (sinks, soft capping, dropout): refused rather than computed wrongly.
    """
    odd = [name for name in ("s_aux", "softcap", "position_bias") if others.get(name) is not None]
    if dropout > 0.0:
        odd.append("attention_dropout")
    if tree is None:
        odd.append("no tree passed on")
    if odd or tree is None:
        raise RunError(f"{type(module).__name__} cannot be trained here: {', '.join(odd)}")
    attended = tree.attend(query, key, value, scaling, sliding_window)
    return attended.transpose(1, 2).contiguous(), None


def register() -> str:
    """Make the function known to Hugging Face models; returns its name. Idempotent."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(NAME, tree_attention)
    AttentionMaskInterface.register(NAME, _no_mask)
    return NAME


def _no_mask(*_: Any, **__: Any) -> None:
    """The tree is the mask."""
