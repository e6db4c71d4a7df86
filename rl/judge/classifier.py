"""The third evidence where no judge model is at hand: a classifier that takes milliseconds.

A small network over ``rl.judge.features`` of the next user message, trained on hand-written
exchanges (``rl.judge.data``) by ``python -m rl.judge train``. It reads how the user reacted, not
whether the reply was true. Next states without a user's message it leaves at 0: what can be said of
tool results for sure, the rules have said.

Left out: hints; it cannot write. ``rl.hints`` takes the user's words.
"""

import asyncio
import threading
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rl.judge.features import Embed, Texts, features
from rl.judge.toolresults import text_of
from rl.judge.types import Exchange, Judgement, Score

SOURCE = "default"
WEIGHTS = Path(__file__).with_name("classifier.npz")
SCORES: tuple[Score, ...] = (-1, 0, 1)  # the columns of the weights
WORDS = {-1: "the user was not served", 0: "the user's message tells nothing", 1: "accepted"}


@dataclass(frozen=True)
class Network:
    """One hidden layer; ``_F`` feature, ``_H`` hidden unit, ``_C`` score.

    Attributes:
        hidden_FH, hidden_H: weights and bias of the hidden layer.
        scores_HC, scores_C: weights and bias of the logits; they hold the temperature, too.
    """

    hidden_FH: NDArray[np.float32]
    hidden_H: NDArray[np.float32]
    scores_HC: NDArray[np.float32]
    scores_C: NDArray[np.float32]

    @classmethod
    def load(cls, path: Path = WEIGHTS) -> "Network":
        """Return the weights in a file that ``save`` wrote."""
        with np.load(path) as stored:
            return cls(*(stored[part.name].astype(np.float32) for part in fields(cls)))

    def save(self, path: Path) -> None:
        """Write the weights; half precision, as the file is kept in the repository."""
        np.savez_compressed(
            path,
            **{part.name: getattr(self, part.name).astype(np.float16) for part in fields(self)},
        )

    def logits(self, rows_BF: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return one logit for each of ``SCORES``, one row per row."""
        hidden_BH = np.maximum(rows_BF @ self.hidden_FH + self.hidden_H, 0.0)
        return np.asarray(hidden_BH @ self.scores_HC + self.scores_C, np.float64)

    def probabilities(self, rows_BF: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the probability of each of ``SCORES``, one row per row."""
        return softmax(self.logits(rows_BF))


def softmax(logits_BC: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of logits, one row per row."""
    exp_BC = np.exp(logits_BC - logits_BC.max(axis=-1, keepdims=True))
    return np.asarray(exp_BC / exp_BC.sum(axis=-1, keepdims=True))


def texts_of(exchange: Exchange) -> Texts | None:
    """Return what the classifier reads; None when the user has not spoken since."""
    said = [text_of(m) for m in exchange.next_state if m.get("role") == "user"]
    if not said or not said[0].strip():
        return None
    users = [text_of(m) for m in exchange.history if m.get("role") == "user"]
    return Texts(
        request=users[-1] if users else "",
        reply=text_of(exchange.reply),
        said=said[0],
        earlier=" ".join(users[:-1])[-1000:],
    )


class Classifier:
    """Judges by the user's next message.

    Args:
        confidence: verdicts less probable than this become 0.
        embed: text to embedding; the default is loaded by ``open`` or at the first exchange.
    """

    def __init__(self, confidence: float = 0.5, embed: Embed | None = None) -> None:
        self._confidence = confidence
        self._embed = embed
        self._network = Network.load()
        self._loading = threading.Lock()

    async def __call__(self, exchange: Exchange) -> Judgement:
        """Return the likeliest score; the work is done in a thread."""
        return await asyncio.to_thread(self.judge, exchange)

    async def open(self) -> None:
        """Load the embedding model; safe to call again."""
        await asyncio.to_thread(self._load)

    async def close(self) -> None:
        """Nothing to let go of but memory."""

    def judge(self, exchange: Exchange) -> Judgement:
        """Return the likeliest score of an exchange."""
        texts = texts_of(exchange)
        if texts is None:
            return Judgement(0, reason="no word of the user", source=SOURCE)
        row_F = features(texts, self._load())
        probability_C = self._network.probabilities(row_F[None])[0]
        best = int(probability_C.argmax())
        score, sure = SCORES[best], float(probability_C[best])
        if sure < self._confidence:
            return Judgement(0, sure, f"not sure: {WORDS[score]}", SOURCE)
        return Judgement(score, sure, WORDS[score], SOURCE)

    def _load(self) -> Embed:
        with self._loading:
            if self._embed is None:
                from rl.judge.embeddings import Embedder

                self._embed = Embedder()
            return self._embed
