"""Plays all attempts: as many at once as there is room, lost ones again, each written down first.

A machine that fails everything ends the run instead of losing every sample of it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.run.crew import Crew
from benchmarks.run.play import Attempt
from benchmarks.run.records import Record

log = logging.getLogger(__name__)

MOST_WAIT_S = 30.0


class EverythingFails(Exception):
    """So many episodes in a row were lost that going on would only lose the rest."""


@dataclass(frozen=True)
class Patience:
    """How failures of the machine are met.

    Attributes:
        retries: further tries at a sample that was lost.
        wait_s: before the first; doubles each time, up to ``MOST_WAIT_S``.
        lost_in_a_row: as many lost tries with none scored between end the run.
    """

    retries: int = 2
    wait_s: float = 1.0
    lost_in_a_row: int = 32


class Schedule:
    """Plays attempts on a crew.

    Args:
        crew: who plays.
        keep: called with every record once it was played, before anything else happens.
        settle: called with the record that counts of each sample.
    """

    def __init__(
        self,
        crew: Crew,
        keep: Callable[[Record], None],
        settle: Callable[[Record], None],
        patience: Patience | None = None,
    ) -> None:
        self._crew, self._keep, self._settle = crew, keep, settle
        self._patience = patience or Patience()
        self._lost_in_a_row = 0

    async def play(self, attempts: Sequence[Attempt]) -> None:
        """Play them in order.

        Raises:
            EverythingFails: see the module; what was played is kept.
        """
        waiting = deque(attempts)
        lanes = min(self._crew.slots, len(waiting))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(lanes):
                    group.create_task(self._lane(waiting))
        except* EverythingFails as errors:
            raise errors.exceptions[0] from None

    async def _lane(self, waiting: "deque[Attempt]") -> None:
        while waiting:
            await self._sample(waiting.popleft())

    async def _sample(self, attempt: Attempt) -> None:
        """Play one sample until it is scored or its tries are used up."""
        tries = 1 + self._patience.retries
        for number in range(1, tries + 1):
            record = await self._crew.play(attempt)
            self._keep(record)
            if not record.lost:
                self._lost_in_a_row = 0
                break
            self._note(record, number, tries)
            attempt = attempt.again()
            if number < tries:
                await asyncio.sleep(min(MOST_WAIT_S, self._patience.wait_s * 2 ** (number - 1)))
        self._settle(record)

    def _note(self, record: Record, number: int, tries: int) -> None:
        self._lost_in_a_row += 1
        log.warning(
            "lost %s sample %d, try %d of %d: %s: %s",
            record.task_id, record.sample, number, tries, record.stop_reason, record.error,
        )  # fmt: skip
        if self._lost_in_a_row >= self._patience.lost_in_a_row:
            raise EverythingFails(
                f"{self._lost_in_a_row} episodes in a row were lost, the last by {record.error}"
            )
