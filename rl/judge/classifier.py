"""The third evidence where no judge model is at hand: a classifier that takes milliseconds.

A multinomial logistic regression over ``rl.judge.features`` of the next user message, trained on
hand-written exchanges (``rl.judge.data``) by ``python -m rl.judge train``. It reads how the user
reacted, not whether the reply was true. Next states without a user's message it leaves at 0: what
can be said of tool results for sure, the rules have said.

Left out: hints; it cannot write. ``rl.hints`` takes the user's words.
"""

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rl.judge.features import HASHED, MEANING, Embed, Texts, features
from rl.judge.toolresults import text_of
from rl.judge.types import Exchange, Judgement, Score

SOURCE = "default"
WEIGHTS = Path(__file__).with_name("classifier.npz")
SCORES: tuple[Score, ...] = (-1, 0, 1)  # the columns of the weights
WORDS = {-1: "the user was not served", 0: "the user's message tells nothing", 1: "accepted"}


@dataclass(frozen=True)
class Linear:
    """Weights over the features; groups are scaled before they are weighed.

    Attributes:
        weights_FC: one row per feature, one column per score.
        bias_C: per score.
    """

    weights_FC: NDArray[np.float32]
    bias_C: NDArray[np.float32]

    @classmethod
    def load(cls, path: Path = WEIGHTS) -> "Linear":
        """Return the weights in a file that ``save`` wrote."""
        with np.load(path) as stored:
            return cls(stored["weights_FC"].astype(np.float32), stored["bias_C"])

    def save(self, path: Path) -> None:
        """Write the weights; half precision, as the file is kept in the repository."""
        np.savez_compressed(path, weights_FC=self.weights_FC.astype(np.float16), bias_C=self.bias_C)

    def probabilities(self, rows_BF: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the probability of each of ``SCORES``, one row per row."""
        logits_BC = (rows_BF @ self.weights_FC + self.bias_C).astype(np.float64)
        exp_BC = np.exp(logits_BC - logits_BC.max(axis=-1, keepdims=True))
        return np.asarray(exp_BC / exp_BC.sum(axis=-1, keepdims=True))


def scales(meaning: float, letters: float, signs: float, num_features: int) -> NDArray[np.float32]:
    """Return the factor of every feature, by group."""
    num_signs = num_features - MEANING - HASHED
    sizes = (MEANING, HASHED, num_signs)
    return np.repeat(np.asarray((meaning, letters, signs), np.float32), sizes)


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
        embed: text to embedding; default MiniLM, loaded by ``open`` or at the first exchange.
    """

    def __init__(self, confidence: float = 0.5, embed: Embed | None = None) -> None:
        self._confidence = confidence
        self._embed = embed
        self._linear = Linear.load()
        self._loading = threading.Lock()

    async def __call__(self, exchange: Exchange) -> Judgement:
        """Return the likeliest score; the work is done in a thread.

        Raises:
            JudgeUnavailable: the embedding model cannot be fetched.
        """
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
        probability_C = self._linear.probabilities(row_F[None])[0]
        best = int(probability_C.argmax())
        score, sure = SCORES[best], float(probability_C[best])
        if sure < self._confidence:
            return Judgement(0, sure, f"not sure: {WORDS[score]}", SOURCE)
        return Judgement(score, sure, WORDS[score], SOURCE)

    def _load(self) -> Embed:
        with self._loading:
            if self._embed is None:
                from rl.judge.embeddings import Embedder, fetch

                self._embed = Embedder(fetch())
            return self._embed
