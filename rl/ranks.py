"""Ranks: the processes that hold one policy together, each a shard of it (FSDP2).

Every rank is given the same samples and packs them alike; it computes its own micro-batches and
hears what the others measured, so that all of them take the same decisions. A process by itself is
``ALONE``. Left out: how a model is cut into shards (``rl.sharding``), and who starts ranks
(``rl.rankgroup``).
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

T = TypeVar("T")
JOIN_TIMEOUT_S = 300.0
WAIT_TIMEOUT_S = 1800.0  # for a rank that computes


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this one is.

    Attributes:
        rank: counted from 0; rank 0 writes what is written once.
        size: processes that share the policy.
        device: of the shards, ``cpu`` or ``cuda``.
    """

    rank: int = 0
    size: int = 1
    device: str = "cpu"

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes."""
        return self.rank == 0

    def gather(self, value: T) -> list[T]:
        """Return what every rank passed, in order of rank; all must call it."""
        if self.size == 1:
            return [value]
        import torch.distributed as dist

        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def leave(self) -> None:
        """Leave the group. Idempotent."""
        import torch.distributed as dist

        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


ALONE = Ranks()


class Meeting:
    """Where ranks find each other: a store on the first rank's machine. Keep it while they work."""

    def __init__(self, host: str, port: int = 0, size: int = 1, *, first: bool = True) -> None:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        self.size = size
        self.store = TCPStore(
            host, port, size, first, timedelta(seconds=JOIN_TIMEOUT_S), wait_for_workers=False
        )
        self.address = (host, int(self.store.port))

    def join(self, rank: int, device: str = "cpu") -> Ranks:
        """Wait for the others and become one of them."""
        import torch.distributed as dist

        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo",
            store=self.store,
            rank=rank,
            world_size=self.size,
            timeout=timedelta(seconds=WAIT_TIMEOUT_S),
        )
        return Ranks(rank, self.size, device)


def own_address() -> str:
    """Return the address at which other machines reach this one; loopback where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("10.255.255.255", 1))  # sends nothing: asks for the route
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def share_out(sizes: Sequence[int], ranks: int) -> list[list[int | None]]:
    """Return which micro-batches each rank computes, as many turns for all.

    Collective operations are made in every turn, so a rank without a micro-batch (None) takes part
    with one that adds nothing. Largest first to whom has least to do; a rank's own stay in order.

    Args:
        sizes: tokens of each micro-batch.

    Example: ``share_out([5, 9, 4], 2)`` is ``[[1, None], [0, 2]]``.
    """
    turns = -(-len(sizes) // ranks)
    own: list[list[int]] = [[] for _ in range(ranks)]
    for index in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        open_ = [rank for rank in range(ranks) if len(own[rank]) < turns]
        least = min(open_, key=lambda rank: (sum(sizes[i] for i in own[rank]), rank))
        own[least].append(index)
    return [[*sorted(mine), *[None] * (turns - len(mine))] for mine in own]
