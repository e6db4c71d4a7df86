"""Packing: samples → a prefix tree computed once (algorithms §3).

Members of a group share their prompt, branches of an episode their history. A micro-batch is the
prefix tree of its samples, flattened parent before child: every distinct token is computed once,
attends to its ancestors only, and stands at the position of its depth. The result equals one
forward per sample; ``tokens computed ÷ distinct tokens`` is 1 within a micro-batch.

Left out: the model (``rl.model``) and what the losses are (``rl.losses``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rl.types import BoolArray, FloatArray, IntArray, Sample


@dataclass(frozen=True)
class PackedBatch:
    """A micro-batch.

    Attributes:
        token_ids_N: token of each node.
        positions_N: depth of each node: its rotary position.
        mask_NN: True where the row's node attends to the column's (itself and its ancestors).
        source_E: node whose output predicts the trained token.
        target_E: the trained token's id.
        sample_E: index into the step's samples.
        old_logprobs_E, advantages_E, temperature_E, version_E: of the trained token.
        num_unshared: tokens that a forward per sample would have computed.
    """

    token_ids_N: IntArray
    positions_N: IntArray
    mask_NN: BoolArray
    source_E: IntArray
    target_E: IntArray
    sample_E: IntArray
    old_logprobs_E: FloatArray
    advantages_E: FloatArray
    temperature_E: FloatArray
    version_E: IntArray
    num_unshared: int

    @property
    def num_nodes(self) -> int:
        """Distinct tokens of the micro-batch."""
        return len(self.token_ids_N)


class _Tree:
    """A prefix tree under construction; ``path`` returns the node of every token of a sequence."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        self._children: dict[tuple[int, int], int] = {}

    def missing(self, tokens: Sequence[int]) -> int:
        """Return how many nodes adding a sequence would make."""
        node = -1
        for depth, token in enumerate(tokens):
            child = self._children.get((node, token))
            if child is None:
                return len(tokens) - depth
            node = child
        return 0

    def path(self, tokens: Sequence[int]) -> list[int]:
        """Add a sequence; return its nodes, root first."""
        node, nodes = -1, []
        for depth, token in enumerate(tokens):
            child = self._children.get((node, token))
            if child is None:
                child = len(self.tokens)
                self._children[node, token] = child
                self.tokens.append(token)
                self.parents.append(node)
                self.depths.append(depth)
            node = child
            nodes.append(node)
        return nodes

    def mask(self) -> BoolArray:
        """Return the ancestor-or-self relation."""
        size = len(self.tokens)
        mask_NN = np.zeros((size, size), np.bool_)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                mask_NN[node, : parent + 1] = mask_NN[parent, : parent + 1]
            mask_NN[node, node] = True
        return mask_NN


def pack(samples: Sequence[Sample], token_budget: int) -> list[PackedBatch]:
    """Cut a step's samples into micro-batches of at most ``token_budget`` distinct tokens.

    Samples that share a group stay together where they fit. A sample longer than the budget gets a
    micro-batch of its own. Samples without a trained token are left out.
    """
    batches: list[PackedBatch] = []
    tree, members = _Tree(), list[int]()
    for index in _by_group(samples):
        tokens = samples[index].token_ids_L.tolist()
        if members and len(tree.tokens) + tree.missing(tokens) > token_budget:
            batches.append(_flatten(samples, members))
            tree, members = _Tree(), []
        tree.path(tokens)
        members.append(index)
    if members:
        batches.append(_flatten(samples, members))
    return batches


def _by_group(samples: Sequence[Sample]) -> Iterable[int]:
    """Yield indices of trainable samples, groups together, in order of first appearance."""
    order: dict[str, int] = {}
    for sample in samples:
        order.setdefault(sample.group_id, len(order))
    indices = [i for i, sample in enumerate(samples) if sample.num_trained]
    return sorted(indices, key=lambda i: (order[samples[i].group_id], i))


def _flatten(samples: Sequence[Sample], members: Sequence[int]) -> PackedBatch:
    tree = _Tree()
    columns: list[tuple[IntArray, ...]] = []
    floats: list[tuple[FloatArray, ...]] = []
    for index in members:
        sample = samples[index]
        nodes_L = np.asarray(tree.path(sample.token_ids_L.tolist()), np.int64)
        at = np.flatnonzero(sample.trained_L)
        if len(at) and at[0] == 0:
            raise ValueError(f"sample of {sample.episode_id}: its first token cannot be trained")
        columns.append(
            (
                nodes_L[at - 1],
                sample.token_ids_L[at],
                np.full(len(at), index, np.int64),
                sample.versions_L[at],
            )
        )
        floats.append(
            (
                sample.old_logprobs_L[at],
                sample.advantages_L[at],
                np.full(len(at), sample.temperature),
            )
        )
    source_E, target_E, sample_E, version_E = (
        np.concatenate(c) for c in zip(*columns, strict=True)
    )
    old_E, advantages_E, temperature_E = (np.concatenate(c) for c in zip(*floats, strict=True))
    return PackedBatch(
        token_ids_N=np.asarray(tree.tokens, np.int64),
        positions_N=np.asarray(tree.depths, np.int64),
        mask_NN=tree.mask(),
        source_E=source_E,
        target_E=target_E,
        sample_E=sample_E,
        old_logprobs_E=old_E,
        advantages_E=advantages_E,
        temperature_E=temperature_E,
        version_E=version_E,
        num_unshared=sum(len(samples[i].token_ids_L) for i in members),
    )
