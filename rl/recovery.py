"""When batches are refused in a row: which weights were the last good ones, and when to return.

A version is proven once a batch it sampled was accepted: its replies were within the guard rails.
Plain bookkeeping; loading and publishing are the controller's. Its state is kept in the store with
the step that changed it.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rl.checkpoint import CheckpointMeta
from rl.errors import BatchRefused, RunError
from rl.settings import GuardsConfig
from rl.types import Sample

log = logging.getLogger(__name__)


class Recovery:
    """Counts refusals and remembers what was good.

    Attributes:
        proven: newest version of which a batch was accepted; -1 before any.
        floor: tokens of versions below it come from weights that were given up.
        refused: batches refused in a row.
        rollbacks: since a batch was last accepted.
    """

    def __init__(self, settings: GuardsConfig) -> None:
        self.settings = settings
        self.proven = -1
        self.floor = 0
        self.refused = 0
        self.rollbacks = 0

    def accept(self, samples: Sequence[Sample]) -> None:
        """A batch was learned from."""
        newest = [int(s.versions_L[s.active_L].max()) for s in samples if s.active_L.any()]
        self.proven = max([self.proven, *newest])
        self.refused = self.rollbacks = 0

    @property
    def due(self) -> bool:
        """Whether it is time to roll back."""
        return self.refused >= self.settings.patience

    def refuse(self, error: BatchRefused) -> None:
        """A batch was refused.

        Raises:
            RunError: rolling back has not helped as often as the settings allow.
        """
        self.refused += 1
        patience = self.settings.patience
        log.warning("batch skipped (%d of %d in a row): %s", self.refused, patience, error)
        if self.due and self.rollbacks >= self.settings.max_rollbacks:
            raise RunError(
                f"{patience} batches in a row were refused after {self.rollbacks} rollbacks; "
                f"the last: {error}"
            )

    def choose(self, found: Sequence[tuple[CheckpointMeta, Path]]) -> tuple[CheckpointMeta, Path]:
        """Return the checkpoint to go back to: the newest proven one, else the oldest there is.

        Raises:
            RunError: there is none.
        """
        if not found:
            raise RunError("batches are refused in a row and there is no checkpoint to go back to")
        good = [entry for entry in found if entry[0].version <= self.proven]
        return max(good or found[-1:], key=lambda entry: entry[0].version)

    def rolled_back(self, version: int) -> None:
        """The good weights are served again, as ``version``."""
        self.floor = self.proven = version
        self.refused = 0
        self.rollbacks += 1

    def state(self) -> dict[str, Any]:
        """Return what is kept with a step."""
        names = ("proven", "floor", "refused", "rollbacks")
        return {name: getattr(self, name) for name in names}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from ``state``."""
        for name, value in state.items():
            setattr(self, name, int(value))
