"""Which tokens of a prefix tree see which, block by block.

A tree flattened in the order its sequences were added is a row of segments: each sequence's new
nodes lie together, and their ancestors lie before them. Attention is computed per block of
neighbouring segments, over the block's own nodes and the union of their ancestors, so that replies
do not pay for other replies. Segments too short to be worth a call of their own are merged.

Left out: the attention itself (``rl.attention``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rl.types import BoolArray, IntArray

CALL_PAIRS = 4096  # (query, key) pairs that cost as much as one more call


@dataclass(frozen=True)
class Segment:
    """Nodes ``start … stop - 1``, a chain; ``ancestors_A`` are the nodes above it, root first."""

    start: int
    stop: int
    ancestors_A: IntArray


@dataclass(frozen=True)
class Block:
    """Queries ``start … stop - 1`` (R of them) and what they see.

    Attributes:
        start, stop: the queries.
        keys_K: nodes that some query sees, ascending; None: the queries alone, each seeing all
            before it (a chain from the root).
        mask_RK: True where the query sees the key; None with ``keys_K``.
    """

    start: int
    stop: int
    keys_K: IntArray | None = None
    mask_RK: BoolArray | None = None

    @property
    def pairs(self) -> int:
        """(query, key) pairs computed."""
        rows = self.stop - self.start
        return rows * rows if self.keys_K is None else rows * len(self.keys_K)


def blocks(segments: Sequence[Segment]) -> tuple[Block, ...]:
    """Cut a tree's segments into blocks; together they hold every node once, in order."""
    made: list[Block] = []
    run: list[Segment] = []
    for segment in segments:
        if run and _pairs([*run, segment]) > _pairs(run) + _pairs([segment]) + CALL_PAIRS:
            made.append(_block(run))
            run = []
        run.append(segment)
    return (*made, _block(run)) if run else ()


def _keys(run: Sequence[Segment]) -> IntArray:
    """Return what some node of the run sees."""
    own = np.arange(run[0].start, run[-1].stop)
    above = np.concatenate([s.ancestors_A[s.ancestors_A < run[0].start] for s in run])
    return np.concatenate([np.unique(above), own]).astype(np.int64)


def _pairs(run: Sequence[Segment]) -> int:
    return (run[-1].stop - run[0].start) * len(_keys(run))


def _block(run: Sequence[Segment]) -> Block:
    start, stop = run[0].start, run[-1].stop
    if len(run) == 1 and not len(run[0].ancestors_A):
        return Block(start, stop)
    keys_K = _keys(run)
    mask_RK = np.zeros((stop - start, len(keys_K)), np.bool_)
    own = len(keys_K) - (stop - start)  # column of the first query
    for segment in run:
        rows = slice(segment.start - start, segment.stop - start)
        mask_RK[rows, np.searchsorted(keys_K, segment.ancestors_A)] = True
        columns = slice(own + segment.start - start, own + segment.stop - start)
        size = segment.stop - segment.start
        mask_RK[rows, columns] = np.tri(size, dtype=np.bool_)
    return Block(start, stop, keys_K, mask_RK)
