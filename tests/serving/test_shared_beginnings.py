"""Members of a group read their common beginning once, and nothing else changes."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from serving.embedded.calls import Request
from serving.embedded.engine import TorchEngine
from serving.embedded.kv_cache import CachedAttention, KVCache, Run, can_share
from serving.embedded.llama import LlamaShape
from serving.embedded.scheduler import Scheduler
from serving.engine import EngineOptions
from serving.types import Sampling

SHAPE = LlamaShape("llama", 1, 32, 64, 4, 2, 8, 100, 1e-5, 4096, True, False)
PROMPT = [7 + at * 13 % 80 for at in range(300)]


def test_the_shared_path_is_the_one_that_runs_here() -> None:
    """The other tests would pass without it if this torch lacked the operator."""
    assert can_share()


@pytest.mark.parametrize("shared", [1, 37, 200])
def test_attention_is_the_same_with_and_without(shared: int) -> None:
    """Rows of different lengths, one of them holding no more than the beginning and its token."""
    cache = KVCache(SHAPE, 8, 512)
    lengths = [shared + extra for extra in (0, 5, 90, 3, 0)]
    for tensor in (cache._k, cache._v):
        tensor.copy_(torch.randn(tensor.shape))
        tensor[:, 1:4, :, :shared] = tensor[:, 1:2, :, :shared].clone()
    q, k, v = torch.randn(5, 4, 8), torch.randn(5, 2, 8), torch.randn(5, 2, 8)
    plain = CachedAttention(cache, lengths, [])(0, q, k, v)
    runs = [Run(0, 1), Run(1, 4, shared), Run(4, 5)]
    found = CachedAttention(cache, lengths, [], runs)(0, q, k, v)
    torch.testing.assert_close(found, plain, atol=2e-6, rtol=1e-5)


def _seated(scheduler: Scheduler, *prompts: list[int]) -> None:
    """Run requests through their prompts, without a model."""
    for prompt in prompts:
        ids = np.asarray(prompt, dtype=np.int32)
        scheduler.waiting.append(Request(ids, Sampling(), seed=0))
    while scheduler.waiting or scheduler.num_prefilling:
        for segment in scheduler.plan().segments:
            scheduler.rows[segment.row].computed += segment.num


def _scheduler() -> Scheduler:
    return Scheduler(KVCache(SHAPE, 24, 1024), 12, 24, 1024, 256)


def test_a_group_is_one_run_and_a_stranger_is_not_in_it() -> None:
    scheduler = _scheduler()
    _seated(scheduler, [1, *PROMPT], [1, *PROMPT], [1, *PROMPT], [2, *PROMPT])
    runs = scheduler.plan().runs
    assert [run.stop - run.start for run in runs if run.shared] == [3]
    assert [(run.start, run.stop) for run in runs][-1][1] == 4
    assert next(run.shared for run in runs if run.shared) == len(PROMPT)


def test_a_short_common_beginning_does_not_hide_the_long_one() -> None:
    """Two tasks under one system prompt: each task's group shares all of its prompt."""
    scheduler = _scheduler()
    first, second = PROMPT[:20] + [5] * 280, PROMPT[:20] + [6] * 280
    _seated(scheduler, first, second, first, second, first, second)
    groups = {row.group for row in scheduler.rows[:6]}
    assert sorted(group.length for group in groups if group is not None) == [299, 299]


def test_a_row_that_is_computed_anew_leaves_its_group() -> None:
    """A later turn that keeps less than the shared beginning must not be read through it."""
    scheduler = Scheduler(KVCache(SHAPE, 2, 1024), 2, 2, 1024, 256)  # no row to spare
    _seated(scheduler, PROMPT, PROMPT)
    assert scheduler.plan().runs == [Run(0, 2, 299)] or scheduler.rows[0].group is not None
    scheduler.finish(1)
    scheduler.finish(0)
    other = PROMPT[:100] + [3] * 150
    _seated(scheduler, other)
    row = scheduler.rows[0]
    assert row.group is None or row.group.length <= 100


def test_every_row_of_a_group_holds_the_same_through_any_life() -> None:
    """Seating, finishing in any order and reseating never leave a row in a group it left."""
    draw = random.Random(5)
    scheduler = _scheduler()
    beginnings = [[b] * 40 + [b + 1 + t % 7 for t in range(200)] for b in (10, 20, 30)]
    seen = 0
    for _ in range(60):
        beginning = draw.choice(beginnings)[: draw.randrange(30, 240)]
        _seated(scheduler, *[beginning + [draw.randrange(90)] * 5] * draw.randrange(1, 5))
        for group in {row.group for row in scheduler.rows if row.group is not None}:
            rows = [row for row in scheduler.rows if row.group is group]
            assert len({tuple(row.ids[: group.length]) for row in rows}) == 1
            assert all(row.computed >= group.length for row in rows)
            seen += len(rows) > 1
        while scheduler.num_active > draw.randrange(8):
            scheduler.finish(draw.randrange(scheduler.num_active))
    assert seen > 50


def test_samples_of_one_prompt_have_the_log_probs_of_scoring(tiny: Path) -> None:
    """Beside a stranger, of different lengths, so that the group is torn apart on its way."""
    engine = TorchEngine(tiny, EngineOptions(max_slots=12, max_len=600))
    try:
        asked = [(PROMPT, 6 + 9 * at) for at in range(8)] + [([9] * 30, 50), (PROMPT[::-1], 40)]
        tickets = [
            engine.submit(prompt, Sampling(num, seed=at, ignore_end=True))
            for at, (prompt, num) in enumerate(asked)
        ]
        said = [ticket.future.result(120) for ticket in tickets]
        scores = engine.score(
            [[*p, *g.token_ids_T] for (p, _), g in zip(asked, said, strict=True)]
        ).result(120)
        for (_, num), generation, score in zip(asked, said, scores, strict=True):
            torch.testing.assert_close(
                torch.tensor(generation.logprobs_T), torch.tensor(score[-num:]), atol=2e-4, rtol=0
            )
    finally:
        engine.close()


def test_prompts_wait_for_a_load_and_not_for_ever() -> None:
    """A step of 256 prompt tokens kept new weights waiting; endless loads starve no prompt."""
    scheduler = _scheduler()
    _seated(scheduler, PROMPT)
    scheduler.waiting.append(Request(np.asarray([4] * 300, dtype=np.int32), Sampling(), seed=0))
    plans = [scheduler.plan(hurry=True) for _ in range(20)]
    assert all(plan.num_decoding for plan in plans)
    assert not plans[0].segments
    assert sum(bool(plan.segments) for plan in plans) == 2


def test_prompts_do_not_wait_for_a_load_when_nothing_is_decoded() -> None:
    scheduler = _scheduler()
    scheduler.waiting.append(Request(np.asarray(PROMPT, dtype=np.int32), Sampling(), seed=0))
    assert scheduler.plan(hurry=True).segments
