"""A whole reply says the same as one taken token by token; who waits for a signal is told."""

import asyncio
import itertools
import random
import threading
from typing import Any

import pytest

from serving.engine import in_this_loop
from serving.errors import EngineError
from serving.models import resolve
from serving.sglang.http import ServerLost
from serving.sglang.request import Request
from serving.sglang.signal import Signal
from serving.stopping import StopRule
from serving.types import Sampling, Token

STOP = StopRule(resolve("tiny"))


def request(num_tokens: int, streams: bool) -> Request:
    told: list[Token] = []
    made = Request([1, 2, 3], Sampling(), 0, num_tokens, told.append if streams else None, STOP)
    made.body(1, "")
    return made


def response(rng: random.Random) -> dict[str, Any]:
    ids = [rng.randrange(200) for _ in range(rng.randrange(9))]
    cuts = sorted({0, len(ids), *(rng.randrange(len(ids) + 1) for _ in range(rng.randrange(3)))})
    spans = [
        {"version": str(at + rng.randrange(2)), "start": start, "end": end}
        for at, (start, end) in enumerate(itertools.pairwise(cuts), 1)
    ]
    meta = {
        "finish_reason": {"type": "length", "length": len(ids)},
        "cached_tokens": 2,
        "weight_version": "3",
        "output_token_logprobs": [[-rng.random(), token, None] for token in ids],
    }
    if rng.random() < 0.8:
        meta["weight_versions"] = spans
    return {"output_ids": ids, "meta_info": meta}


def test_a_whole_reply_is_taken_as_its_tokens_would_be() -> None:
    """Bug prevented: versions of a reply that saw a publication, or its cut, taken otherwise."""
    rng = random.Random(3)
    for _ in range(300):
        out, num = response(rng), rng.randrange(1, 10)
        whole, pieces = request(num, streams=False), request(num, streams=True)
        assert whole.take(out, is_delta=False) == pieces.take(out, is_delta=False)
        assert whole.generation("stop") == pieces.generation("stop")


def test_a_whole_reply_that_contradicts_itself_is_refused() -> None:
    out = response(random.Random(8))
    out["meta_info"]["output_token_logprobs"][0][1] += 1
    with pytest.raises(EngineError, match="same ids"):
        request(9, streams=False).take(out, is_delta=False)
    old = response(random.Random(8))
    old["meta_info"]["weight_versions"] = [{"version": "0", "start": 0, "end": 99}]
    taker = request(9, streams=False)
    with pytest.raises(ServerLost, match="started again"):
        taker.take(old, is_delta=False)
    assert taker.token_ids_T == []


def test_actions_run_in_the_order_given_from_any_thread() -> None:
    """Bug prevented: a reply's end, told from the loop's own thread, overtakes its tokens."""

    async def play() -> list[int]:
        call, seen = in_this_loop(), list[int]()
        other = threading.Thread(target=lambda: call(lambda: seen.append(1)))
        other.start()
        other.join()
        call(lambda: seen.append(2))
        while len(seen) < 2:
            await asyncio.sleep(0)
        return seen

    assert asyncio.run(play()) == [1, 2]


def test_a_signal_tells_everybody_once() -> None:
    async def play() -> None:
        signal, told = Signal(), list[str]()
        waiting = asyncio.create_task(signal.wait())
        leaving = asyncio.create_task(signal.wait())
        await asyncio.sleep(0)
        leaving.cancel()

        def early() -> None:
            told.append("early")

        signal.listen(early)
        signal.listen(lambda: told.append("first"))
        signal.ignore(early)
        signal.listen(early)
        await asyncio.gather(leaving, return_exceptions=True)
        signal.set()
        signal.set()
        await waiting
        signal.listen(lambda: told.append("late"))
        assert told == ["first", "early", "late"] and signal.is_set()

    asyncio.run(play())
