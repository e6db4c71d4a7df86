"""Asking a judge until it answers: an outage delays what waits for it and never becomes a score."""

import asyncio
import logging
from collections import Counter
from dataclasses import replace

from rl.errors import JudgeUnavailable
from rl.judge.pipeline import NOTHING
from rl.judge.types import Exchange, Judge, Judgement

log = logging.getLogger(__name__)

MOST_AT_ONCE = 8
LONGEST_BACKOFF_S = 60.0


class Asker:
    """A judge with patience. Make and use it inside one event loop.

    Args:
        judge: see ``rl.judge.pipeline``.
        counts: gets ``judge_unavailable`` and ``judge_failed``.
        first_wait_s: before it is asked again; doubles each time, up to a minute.
    """

    def __init__(
        self, judge: Judge, counts: Counter[str] | None = None, first_wait_s: float = 1.0
    ) -> None:
        self._judge, self._first_wait_s = judge, first_wait_s
        self.counts: Counter[str] = Counter() if counts is None else counts
        self._places = asyncio.Semaphore(MOST_AT_ONCE)

    async def __call__(self, exchange: Exchange) -> Judgement:
        """Return what the judge found. One that breaks on an exchange costs that exchange its
        verdict, not everybody their learning."""
        wait_s = self._first_wait_s
        while True:
            try:
                async with self._places:
                    return await self._judge(exchange) or NOTHING
            except JudgeUnavailable as error:
                self.counts["judge_unavailable"] += 1
                log.warning("the judge is away, its turns wait: %s", error)
                await asyncio.sleep(wait_s)
                wait_s = min(LONGEST_BACKOFF_S, wait_s * 2)
            except Exception as error:
                self.counts["judge_failed"] += 1
                log.exception("an exchange could not be judged")
                return replace(NOTHING, reason=type(error).__name__)
