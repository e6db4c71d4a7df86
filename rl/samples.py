"""From an episode to samples: exact prefix merging (algorithms §3).

A turn whose prompt starts with everything before it, token for token, continues the sequence; any
other starts a new branch. Each output is trained once. Forking costs compute, never correctness.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from agents.types import Episode, ImageRef, Turn
from rl.types import Sample


class Continuation(StrEnum):
    """How a turn's prompt relates to all tokens before it."""

    EXACT = "exact"
    REALIGNED = "realigned"  # every sampled run is still there; only tokens between them differ
    FORKED = "forked"


@dataclass
class _Branch:
    """A sequence being grown; lists of equal length L."""

    token_ids: list[int] = field(default_factory=list)
    trained: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    images: tuple[ImageRef, ...] = ()

    def continues(self, turn: Turn) -> bool:
        """Whether a turn's prompt starts with everything here, its images too."""
        size = len(self.token_ids)
        return list(turn.prompt_ids_P[:size]) == self.token_ids and self.images == tuple(
            image for image in turn.images if image.start < size
        )

    def extend_unsampled(self, token_ids: Sequence[int]) -> None:
        self.token_ids += token_ids
        self.trained += [False] * len(token_ids)
        self.logprobs += [float("nan")] * len(token_ids)
        self.versions += [-1] * len(token_ids)
        self.turns += [-1] * len(token_ids)

    def extend_sampled(self, turn: Turn, index: int, trained: bool) -> None:
        self.token_ids += turn.token_ids_T
        self.trained += [trained] * len(turn.token_ids_T)
        self.logprobs += turn.logprobs_T or [float("nan")] * len(turn.token_ids_T)
        self.versions += turn.versions_T or [-1] * len(turn.token_ids_T)
        self.turns += [index] * len(turn.token_ids_T)


def merge(
    episode: Episode, *, train_truncated: bool = True
) -> tuple[list[Sample], Counter[Continuation]]:
    """Return an episode's samples and how its turns were joined.

    Args:
        train_truncated: whether a reply cut by the token limit carries loss.

    Advantages and weights are 0 until a method fills them. Log-probs that were never recorded (a
    demonstration) are NaN; a policy-gradient method must refuse such samples.
    """
    branches: list[_Branch] = []
    classes: Counter[Continuation] = Counter()
    for index, turn in enumerate(episode.turns):
        prompt = list(turn.prompt_ids_P)
        current = branches[-1] if branches else None
        if current is None:
            branches.append(_Branch())
            branches[-1].extend_unsampled(prompt)
        elif current.continues(turn):
            classes[Continuation.EXACT] += 1
            current.extend_unsampled(prompt[len(current.token_ids) :])
        else:
            classes[_drift(episode.turns, turn)] += 1
            branches.append(_Branch())
            branches[-1].extend_unsampled(prompt)
        branches[-1].images = turn.images
        trained = train_truncated or turn.finish_reason != "length"
        branches[-1].extend_sampled(turn, index, trained)
    return [_sample(episode, branch) for branch in branches], classes


def _drift(turns: Sequence[Turn], turn: Turn) -> Continuation:
    """Tell a prompt that kept every sampled run from one that changed history."""
    start, prompt = 0, turn.prompt_ids_P
    for earlier in turns:
        if earlier is turn:
            break
        start = _find(prompt, earlier.token_ids_T, start)
        if start < 0:
            return Continuation.FORKED
    return Continuation.REALIGNED


def _find(haystack: Sequence[int], needle: Sequence[int], start: int) -> int:
    """Return the index after the first occurrence of ``needle`` from ``start`` on, or -1."""
    for i in range(start, len(haystack) - len(needle) + 1):
        if haystack[i : i + len(needle)] == needle:
            return i + len(needle)
    return -1


def _sample(episode: Episode, branch: _Branch) -> Sample:
    return Sample(
        episode_id=episode.id,
        group_id=episode.group_id,
        token_ids_L=np.asarray(branch.token_ids, np.int64),
        trained_L=np.asarray(branch.trained, np.bool_),
        old_logprobs_L=np.asarray(branch.logprobs, np.float64),
        versions_L=np.asarray(branch.versions, np.int64),
        advantages_L=np.zeros(len(branch.token_ids)),
        temperature=episode.temperature,
        turns_L=np.asarray(branch.turns, np.int64),
        images=branch.images,
    )
