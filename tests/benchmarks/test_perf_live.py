"""The live bench against a real live run of the tiny model."""

import asyncio

import pytest

from benchmarks.perf.live import measure

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def test_replies_are_timed_with_and_without_learning_and_none_is_lost() -> None:
    median, _, lost = asyncio.run(measure("tiny", 3))
    assert median.ours and median.peer and median.ratio
    assert lost.ours == 0 and " 0 steps" not in lost.case
