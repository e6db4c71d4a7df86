"""A policy cut into shards: FSDP2 (``fully_shard``), one group of parameters per decoder layer.

Tensors of a sharded model are ``DTensor``s: each rank holds a part of the rows. ``whole`` puts one
together (all ranks must ask), ``as_part_of`` cuts a whole one as another is cut. Both leave plain
tensors alone, so that code around them need not know. Left out: which ranks there are
(``rl.ranks``), sharded checkpoints (``rl.sharded``).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from rl.ranks import Ranks


def shard(
    root: torch.nn.Module,
    layers: Iterable[torch.nn.Module],
    ranks: Ranks,
    compute: torch.dtype | None = None,
) -> None:
    """Cut every parameter of ``root`` over the ranks, in place; nothing happens to a rank alone.

    A layer's parameters are whole only while it computes. The gradient of a loss is the sum over
    ranks once each multiplies its own by their number: the reduction takes the mean.

    Args:
        root: called as a module for every forward, or its own parameters stay in parts.
        layers: gathered one at a time.
        compute: dtype of gathered parameters; gradients are reduced and kept in float32.
    """
    if ranks.size == 1:
        return
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    if ranks.device == "cuda":
        torch.cuda.set_device(torch.cuda.current_device())
    options: dict[str, Any] = {
        "mesh": init_device_mesh(ranks.device, (ranks.size,)),
        # the root too: what a forward without a backward gathered would outlive an update
        "reshard_after_forward": True,
    }
    if compute is not None:
        options["mp_policy"] = MixedPrecisionPolicy(
            param_dtype=compute, reduce_dtype=torch.float32, cast_forward_inputs=False
        )
    for layer in layers:
        fully_shard(layer, **options)
    fully_shard(root, **options)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with all its parts; every rank must ask."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def as_part_of(like: torch.Tensor, full: torch.Tensor) -> torch.Tensor:
    """Return this rank's part of ``full``, cut as ``like`` is; ranks need not talk for it."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(like, DTensor) or isinstance(full, DTensor):
        return full
    return distribute_tensor(
        full.to(like.device), like.device_mesh, like.placements, src_data_rank=None
    )


def clip(parameters: Sequence[torch.nn.Parameter], most: float) -> float:
    """Scale gradients down to a norm of at most ``most``, over all shards; return what it was."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = whole(torch.nn.utils.get_total_norm(gradients))
    torch.nn.utils.clip_grads_with_norm_(parameters, most, norm)
    return float(norm)
