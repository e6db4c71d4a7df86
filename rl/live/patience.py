"""What a live run does while its disk is full: the conversation goes on, learning waits.

Whoever looks at the console is told, with the place and the remedy.
"""

import asyncio
import logging
import time
from pathlib import Path

from rl.errors import NoSpaceError
from rl.space import is_full

log = logging.getLogger(__name__)

RETRY_S = 5.0
REMIND_S = 60.0


class Patience:
    """Waits for space. Awaited with the failure by what could not write.

    Args:
        folder: of the run.

    Attributes:
        reason: why learning waits; "" when it does not.
    """

    def __init__(self, folder: Path, retry_s: float = RETRY_S) -> None:
        self.folder, self.retry_s = folder, retry_s
        self.reason = ""
        self._noted = self._said = -REMIND_S

    async def __call__(self, error: NoSpaceError) -> None:
        """Say what is wrong, and return when it is worth another try."""
        self._note(str(error))
        await asyncio.sleep(self.retry_s)

    def look(self) -> None:
        """Look at the disk though nothing is to be written: turns may be going unrecorded."""
        if is_full(self.folder):
            self._note(str(NoSpaceError(str(self.folder))))
        elif self.reason and time.monotonic() - self._noted > 3 * self.retry_s:
            log.warning("there is space again: turns are recorded and learned from")
            self.reason, self._said = "", -REMIND_S

    def _note(self, reason: str) -> None:
        self.reason, self._noted = reason, time.monotonic()
        if self._noted - self._said >= REMIND_S:
            self._said = self._noted
            log.error(
                "%s: replies are still given, but what cannot be written is neither recorded nor "
                "learned from; free some, and learning goes on by itself", reason,
            )  # fmt: skip
