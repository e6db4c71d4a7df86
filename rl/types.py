"""Records of learning.

Axis suffixes: ``_L`` position in one sequence, ``_T`` sampled token of one turn, ``_K`` one of a
teacher's likeliest tokens, ``_G`` member of a group, ``_N`` node of a packed batch, ``_E`` trained
token (loss entry) of a packed batch.

Example: a two-turn episode whose second prompt continues the first exactly is one ``Sample``::

    token_ids_L  = prompt1 + output1 + (tool result, separators) + output2
    trained_L    = 0…0      1…1        0…0                         1…1
    turns_L      = -1…-1    0…0        -1…-1                       1…1
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agents.types import ImageRef

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

Term = Literal["pg", "distill", "ce", "kl"]
TERMS: tuple[Term, ...] = ("pg", "distill", "ce", "kl")


@dataclass(frozen=True)
class TermWeights:
    """How much each term of the loss counts: one number for all trained tokens, or one each.

    A token is active in a term where its weight is not 0. ``pg``: policy gradient on
    ``advantages_L``. ``distill``: to the teacher. ``ce``: cross-entropy. ``kl``: the k3 anchor.
    """

    pg: FloatArray | float = 0.0
    distill: FloatArray | float = 0.0
    ce: FloatArray | float = 0.0
    kl: FloatArray | float = 0.0

    def along(self, term: Term, length: int) -> FloatArray:
        """Return a term's weight at each of ``length`` positions."""
        return np.broadcast_to(np.asarray(getattr(self, term), np.float64), (length,))


@dataclass(frozen=True)
class TopK:
    """A teacher's likeliest tokens at some positions; rows of one length K.

    Attributes:
        token_ids_TK: ids, K per sampled token.
        logprobs_TK: the teacher's log-probs of them; what is left of 1 is the tail.
    """

    token_ids_TK: IntArray
    logprobs_TK: FloatArray

    def __post_init__(self) -> None:
        if self.token_ids_TK.ndim != 2 or self.token_ids_TK.shape != self.logprobs_TK.shape:
            raise ValueError(
                f"top-K ids {self.token_ids_TK.shape} and log-probs {self.logprobs_TK.shape} differ"
            )

    @classmethod
    def stack(cls, parts: "Sequence[TopK]") -> "TopK":
        """Put rows under each other; shorter ones are padded with log-prob -inf: never drawn."""
        width = max(part.token_ids_TK.shape[1] for part in parts)
        pads = [((0, 0), (0, width - part.token_ids_TK.shape[1])) for part in parts]
        ids = [np.pad(p.token_ids_TK, pad) for p, pad in zip(parts, pads, strict=True)]
        logprobs = [
            np.pad(p.logprobs_TK, pad, constant_values=-np.inf)
            for p, pad in zip(parts, pads, strict=True)
        ]
        return cls(np.concatenate(ids), np.concatenate(logprobs))


@dataclass(frozen=True)
class Hint:
    """What should have been done in a turn, and what the policy says when told so beforehand.

    Attributes:
        text: one to three sentences.
        teacher_logprobs_T: log π_T of the turn's sampled tokens under prompt + hint; "" hints have
            none. As long as the turn's ``token_ids_T``, first token included.
        topk: the teacher's likeliest tokens at the same positions.
    """

    text: str
    teacher_logprobs_T: tuple[float, ...] = ()
    topk: TopK | None = None


@dataclass(frozen=True)
class TurnSignal:
    """What is known about one turn besides its reward; ``None`` or empty means nobody said so.

    Keyed by (episode id, turn index); written by judges, users and teachers, read by methods.

    Example: the user answered "no, in a table please" to turn 2 of a chat, two of three votes
    judged it a failure, and the hinted policy scored the three tokens that had been sampled::

        TurnSignal("chat-7", 2, score=-1, confidence=2 / 3, subject="user:ada",
                   hints=(Hint("Answer with a table.", (-4.1, -0.2, -3.0)),))

    Attributes:
        episode_id, turn: which turn; counted from 0.
        score: +1 good, -1 bad, 0 judged without a verdict, None not judged.
        confidence: share of votes that agreed, in [0, 1].
        subject: whose habits the score is compared with (a user or a skill).
        process: score of the step by itself, for ``stepwise``.
        hints: accepted ones, best first; a teacher's numbers come with each.
        student_topk_ids_TK: the sampling policy's own likeliest tokens, to choose a hint by.
        reason: the judge's, for people.
    """

    episode_id: str
    turn: int
    score: int | None = None
    confidence: float = 1.0
    subject: str = ""
    process: float | None = None
    hints: tuple[Hint, ...] = ()
    student_topk_ids_TK: IntArray | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if self.score not in (None, -1, 0, 1):
            raise ValueError(f"turn {self.turn} of {self.episode_id}: score {self.score}")

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; of hints their words alone, since a teacher's numbers age."""
        names = ("episode_id", "turn", "score", "confidence", "subject", "process", "reason")
        kept: dict[str, Any] = {name: getattr(self, name) for name in names}
        return {**kept, "hints": [hint.text for hint in self.hints]}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "TurnSignal":
        """Return the signal that ``to_json`` wrote."""
        return cls(**{**row, "hints": tuple(Hint(text) for text in row["hints"])})


@dataclass(frozen=True)
class Sample:
    """One branch of one episode as a single sequence; all arrays have the same length L.

    Attributes:
        episode_id, group_id: where it came from; groups are formed by id, never by position.
        token_ids_L: every token as the engine saw or sampled it.
        trained_L: True exactly where a sampled token may carry loss.
        old_logprobs_L: log-prob at sampling; NaN where there is none. Never read where not trained.
        versions_L: policy version that sampled the token; -1 where it was not sampled.
        advantages_L: filled by a method; 0 until then.
        temperature: of the sampler, applied by the learner too.
        turns_L: index of the turn that sampled the token; -1 where it was not sampled.
        weights: of the terms of the loss; all 0 until a method has filled them.
        teacher_logprobs_L, ref_logprobs_L: of the same tokens, NaN where missing; None: nowhere.
        topk, topk_at: the teacher's likeliest tokens and the positions (rows of ``topk``) they are
            predictions for.
        images: whose placeholders the sequence holds; by reference, and never trained.
    """

    episode_id: str
    group_id: str
    token_ids_L: IntArray
    trained_L: BoolArray
    old_logprobs_L: FloatArray
    versions_L: IntArray
    advantages_L: FloatArray
    temperature: float = 1.0
    turns_L: IntArray | None = None
    weights: TermWeights = TermWeights()
    teacher_logprobs_L: FloatArray | None = None
    ref_logprobs_L: FloatArray | None = None
    topk: TopK | None = None
    topk_at: IntArray | None = None
    images: tuple[ImageRef, ...] = ()

    def __post_init__(self) -> None:
        streams = (
            self.trained_L, self.old_logprobs_L, self.versions_L, self.advantages_L, self.turns_L,
            self.teacher_logprobs_L, self.ref_logprobs_L,
            *(w for t in TERMS if isinstance(w := getattr(self.weights, t), np.ndarray)),
        )  # fmt: skip
        lengths = {len(self.token_ids_L)} | {len(s) for s in streams if s is not None}
        if len(lengths) != 1:
            raise ValueError(f"sample of {self.episode_id}: arrays of lengths {sorted(lengths)}")
        for image in self.images:
            if self.trained_L[image.start : image.start + image.length].any():
                raise ValueError(
                    f"sample of {self.episode_id}: tokens of an image cannot be trained"
                )

    @property
    def keys_L(self) -> IntArray:
        """What makes a token the same as another in a prefix tree: its id, and under an image's
        placeholder the image, which no token id is."""
        if not self.images:
            return self.token_ids_L
        keys_L = self.token_ids_L.copy()
        for image in self.images:
            keys_L[image.start : image.start + image.length] = -1 - int(image.digest[:15], 16)
        return keys_L

    @property
    def num_trained(self) -> int:
        """Tokens that may carry loss."""
        return int(self.trained_L.sum())

    @property
    def active_L(self) -> BoolArray:
        """True where a token is in some term of the loss."""
        size = len(self.token_ids_L)
        weighed = [self.weights.along(term, size) != 0 for term in TERMS]
        active_L: BoolArray = self.trained_L & np.logical_or.reduce(weighed)
        return active_L

    def with_advantage(self, advantage: float, kl: float = 0.0) -> "Sample":
        """Return the sample with one advantage on every trained token."""
        return replace(
            self,
            advantages_L=np.where(self.trained_L, advantage, 0.0),
            weights=replace(self.weights, pg=1.0, kl=kl),
        )


@dataclass(frozen=True)
class StepMetrics:
    """What one optimiser step did; ``values`` are plain floats for ``metrics.jsonl``."""

    values: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the values."""
        return dict(self.values)
