"""Loads of new weights: made ready in the caller's thread, put in place by the engine's.

Meanwhile the weights take their size a second time. What a load leaves in the allocator's pools is
given back to the system, where its C library can (glibc): a load of another thread would not find
it there and take as much again.
"""

import contextlib
import ctypes
import threading
from collections.abc import Callable
from pathlib import Path

import torch

from .. import weights
from .llama import LlamaModel

Change = Callable[[], None]


class Loader:
    """Loads weights into a model, one load after the other.

    Args:
        model: whose weights are replaced.
    """

    def __init__(self, model: LlamaModel) -> None:
        self._model = model
        self._order = threading.Lock()

    def load(self, update: Path, put: Callable[[Change], None]) -> None:
        """Read, check and prepare an update; then have it put in place.

        Args:
            update: a safetensors file with all or some of the weights.
            put: runs the change between two passes and returns when it is done.

        Raises:
            EngineError: see ``weights.read``, or as ``put`` raises; the old weights stay.
        """
        with self._order, torch.inference_mode():
            put(self._model.prepared(weights.read(update, self._model.params)))
        _give_back()


def _give_back() -> None:
    """Return freed memory to the system."""
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
