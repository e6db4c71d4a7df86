"""Packing: samples → a prefix tree computed once (algorithms §3).

Members of a group share their prompt, branches of an episode their history. A micro-batch is the
prefix tree of its samples, flattened parent before child: every distinct token is computed once,
attends to its ancestors only, and stands at the position of its depth. The result equals one
forward per sample; ``tokens computed ÷ distinct tokens`` is 1 within a micro-batch.

Left out: the model (``rl.model``) and what the losses are (``rl.losses``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agents.types import ImageRef
from rl.blocks import Block, Segment, blocks
from rl.errors import SampleError
from rl.types import TERMS, FloatArray, IntArray, Sample, Term, TopK


@dataclass(frozen=True)
class PackedBatch:
    """A micro-batch.

    Attributes:
        token_ids_N: token of each node.
        positions_N: depth of each node: its rotary position.
        blocks: which node attends to which (itself and its ancestors).
        source_E: node whose output predicts the trained token.
        target_E: the trained token's id.
        sample_E: index into the step's samples.
        old_logprobs_E, advantages_E, temperature_E, version_E: of the trained token.
        weight_E: of the trained token in each term; 0 where it is not in it.
        teacher_E, ref_E: log-probs of teacher and start policy, NaN where missing.
        topk_E: row of ``topk`` of the trained token, -1 where it has none.
        topk: the teachers' likeliest tokens, padded with log-prob -inf; None without any.
        num_unshared: tokens that a forward per sample would have computed.
        images: once each, in the order of their nodes; ``start`` is the first of them.
        paths: the nodes of every sample that holds an image, root first.
    """

    token_ids_N: IntArray
    positions_N: IntArray
    blocks: tuple[Block, ...]
    source_E: IntArray
    target_E: IntArray
    sample_E: IntArray
    old_logprobs_E: FloatArray
    advantages_E: FloatArray
    temperature_E: FloatArray
    version_E: IntArray
    weight_E: dict[Term, FloatArray]
    teacher_E: FloatArray
    ref_E: FloatArray
    topk_E: IntArray
    topk: TopK | None
    num_unshared: int
    images: tuple[ImageRef, ...] = ()
    paths: tuple[IntArray, ...] = ()

    @property
    def num_nodes(self) -> int:
        """Distinct tokens of the micro-batch."""
        return len(self.token_ids_N)


class _Tree:
    """A prefix tree under construction; ``path`` returns the node of every token of a sequence."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.depths: list[int] = []
        self.segments: list[Segment] = []
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

    def path(self, keys: Sequence[int], tokens: Sequence[int] | None = None) -> list[int]:
        """Add a sequence; return its nodes, root first. Equal prefixes of keys are shared."""
        node, nodes, first = -1, [], len(self.tokens)
        for depth, (key, token) in enumerate(zip(keys, tokens or keys, strict=True)):
            child = self._children.get((node, key))
            if child is None:
                child = len(self.tokens)
                self._children[node, key] = child
                self.tokens.append(token)
                self.depths.append(depth)
            node = child
            nodes.append(node)
        if len(self.tokens) > first:
            above_A = np.asarray(nodes[: self.depths[first]], np.int64)
            self.segments.append(Segment(first, len(self.tokens), above_A))
        return nodes


def pack(samples: Sequence[Sample], token_budget: int, share: bool = True) -> list[PackedBatch]:
    """Cut a step's samples into micro-batches of at most ``token_budget`` distinct tokens.

    A group that fits into a micro-batch is not cut: its prompt would be computed twice. A sample
    longer than the budget gets a micro-batch of its own. Samples without an active token are left
    out.

    Args:
        share: False gives every sample a micro-batch of its own, for models whose state cannot
            branch.

    Raises:
        SampleError: a sample's first token carries loss, or a distilled one has no teacher.
    """
    return [_flatten(samples, members) for members in _cuts(samples, token_budget, share)]


def share_of(samples: Sequence[Sample], token_budget: int, ranks: int) -> int:
    """Return the least budget at which a step has one micro-batch for each rank, if that is less
    than ``token_budget``: none of them shall wait while another computes all of it."""
    if ranks == 1:
        return token_budget
    share = max(1, -(-num_distinct(samples) // ranks))
    while share < token_budget and len(_cuts(samples, share, True)) > ranks:
        share += share // 8 + 1  # prompts that are cut apart are computed twice, groups are uneven
    return min(token_budget, share)


def _cuts(samples: Sequence[Sample], token_budget: int, share: bool) -> list[list[int]]:
    """Return the indices of each micro-batch's samples."""
    cuts: list[list[int]] = []
    tree, members = _Tree(), list[int]()
    for group in _by_group(samples):
        whole = num_distinct([samples[index] for index in group])
        fits = len(tree.tokens) + whole <= token_budget
        if members and not fits and whole <= token_budget:
            cuts.append(members)
            tree, members = _Tree(), []
        for index in group:
            tokens = samples[index].keys_L.tolist()
            if members and (not share or len(tree.tokens) + tree.missing(tokens) > token_budget):
                cuts.append(members)
                tree, members = _Tree(), []
            tree.path(tokens)
            members.append(index)
    if members:
        cuts.append(members)
    return cuts


def num_distinct(samples: Iterable[Sample]) -> int:
    """Return how many distinct prefixes, that is tokens to compute, samples have together."""
    tree = _Tree()
    for sample in samples:
        tree.path(sample.keys_L.tolist())
    return len(tree.tokens)


def _by_group(samples: Sequence[Sample]) -> list[list[int]]:
    """Return indices of trainable samples by group, in order of first appearance."""
    groups: dict[str, list[int]] = {sample.group_id: [] for sample in samples}
    for index, sample in enumerate(samples):
        if sample.active_L.any():
            groups[sample.group_id].append(index)
    return list(groups.values())


@dataclass
class _Entries:
    """The trained tokens of a micro-batch under construction, one list item per sample."""

    ints: list[tuple[IntArray, ...]]
    floats: list[tuple[FloatArray, ...]]
    topk: list[TopK]


def _flatten(samples: Sequence[Sample], members: Sequence[int]) -> PackedBatch:
    tree, entries = _Tree(), _Entries([], [], [])
    images: dict[int, ImageRef] = {}
    paths: list[IntArray] = []
    for index in members:
        sample = samples[index]
        path = tree.path(sample.keys_L.tolist(), sample.token_ids_L.tolist())
        nodes_L = np.asarray(path, np.int64)
        _add(entries, sample, index, nodes_L)
        for image in sample.images:
            images[path[image.start]] = replace(image, start=path[image.start])
        if sample.images:
            paths.append(nodes_L)
    source_E, target_E, sample_E, version_E, topk_E = (
        np.concatenate(c) for c in zip(*entries.ints, strict=True)
    )
    old_E, advantages_E, temperature_E, teacher_E, ref_E, *weights = (
        np.concatenate(c) for c in zip(*entries.floats, strict=True)
    )
    return PackedBatch(
        token_ids_N=np.asarray(tree.tokens, np.int64),
        positions_N=np.asarray(tree.depths, np.int64),
        blocks=blocks(tree.segments),
        source_E=source_E,
        target_E=target_E,
        sample_E=sample_E,
        old_logprobs_E=old_E,
        advantages_E=advantages_E,
        temperature_E=temperature_E,
        version_E=version_E,
        weight_E=dict(zip(TERMS, weights, strict=True)),
        teacher_E=teacher_E,
        ref_E=ref_E,
        topk_E=topk_E,
        topk=TopK.stack(entries.topk) if entries.topk else None,
        num_unshared=sum(len(samples[i].token_ids_L) for i in members),
        images=tuple(images[node] for node in sorted(images)),
        paths=tuple(paths),
    )


def _add(entries: _Entries, sample: Sample, index: int, nodes_L: IntArray) -> None:
    """Add a sample's active tokens."""
    size = len(sample.token_ids_L)
    at = np.flatnonzero(sample.active_L)
    if at[0] == 0:
        raise SampleError(f"sample of {sample.episode_id}: its first token cannot be trained")
    weights = [sample.weights.along(term, size)[at] for term in TERMS]
    teacher_E = _stream(sample.teacher_logprobs_L, at)
    row_E = _topk_rows(sample, at)
    bare_E = (weights[TERMS.index("distill")] != 0) & np.isnan(teacher_E) & (row_E < 0)
    if bare_E.any():
        raise SampleError(
            f"sample of {sample.episode_id}: {int(bare_E.sum())} distilled tokens have no teacher"
        )
    offset = sum(len(topk.token_ids_TK) for topk in entries.topk)
    if sample.topk is not None:
        entries.topk.append(sample.topk)
    entries.ints.append(
        (
            nodes_L[at - 1],
            sample.token_ids_L[at],
            np.full(len(at), index, np.int64),
            sample.versions_L[at],
            np.where(row_E >= 0, row_E + offset, -1),
        )
    )
    entries.floats.append(
        (
            sample.old_logprobs_L[at],
            sample.advantages_L[at],
            np.full(len(at), sample.temperature),
            teacher_E,
            _stream(sample.ref_logprobs_L, at),
            *weights,
        )
    )


def _stream(values_L: FloatArray | None, at: IntArray) -> FloatArray:
    return np.full(len(at), np.nan) if values_L is None else values_L[at]


def _topk_rows(sample: Sample, at: IntArray) -> IntArray:
    """Return the row of the sample's top-K for each position, -1 where there is none."""
    row_L = np.full(len(sample.token_ids_L), -1, np.int64)
    if sample.topk_at is not None:
        row_L[sample.topk_at] = np.arange(len(sample.topk_at))
    return row_L[at]
