"""What an SGLang server does over HTTP that the engine relies on, or guards against.

Run on the double and on the real server alike: where they part, the double lies.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from serving.sglang.http import ServerRefused, SglangServer

PROMPT = list(range(3, 60))
NUM = 150


def body(rid: str, num: int = NUM, **params: Any) -> dict[str, Any]:
    given = {"max_new_tokens": num, "temperature": 0, "ignore_eos": True, **params}
    return {"rid": rid, "input_ids": PROMPT, "sampling_params": given, "return_logprob": True}


async def refusal(work: Coroutine[Any, Any, Any]) -> str:
    with pytest.raises(ServerRefused) as refused:
        await work
    assert refused.value.status == 400, refused.value
    return refused.value.message


async def unknown_parameters_are_refused(server: SglangServer, _: Path) -> None:
    assert "max_tokens" in await refusal(server.generate(body("a", max_tokens=3)))
    out = await server.generate({**body("b", 3), "no_such_key": 1})
    assert out["meta_info"]["finish_reason"] == {"type": "length", "length": 3}


async def streams_say_what_whole_replies_say(server: SglangServer, _: Path) -> None:
    whole = await server.generate(body("c", 20))
    told: list[list[Any]] = []
    async for out in server.stream({**body("d", 20), "stream": True}):
        rows = out["meta_info"]["output_token_logprobs"]
        assert [row[1] for row in rows] == out["output_ids"]
        told = told + rows if server.info["incremental_streaming_output"] else rows
        last = out
    assert [row[1] for row in told] == whole["output_ids"]
    version = whole["meta_info"]["weight_version"]
    for out in (whole, last):
        spans = out["meta_info"]["weight_versions"]
        assert spans == [{"version": version, "start": 0, "end": 20}]


async def prompts_are_scored_without_sampling(server: SglangServer, _: Path) -> None:
    out = await server.generate({**body("e", 0), "logprob_start_len": 0})
    rows = out["meta_info"]["input_token_logprobs"]
    assert [row[1] for row in rows] == PROMPT and rows[0][0] is None
    assert all(row[0] <= 0 for row in rows[1:])


async def an_abort_keeps_what_was_sampled(server: SglangServer, _: Path) -> None:
    await server.post("/abort_request", {"rid": "of nobody"})
    reply = asyncio.create_task(server.generate(body("f", 1000)))
    await asyncio.sleep(1)
    await server.post("/abort_request", {"rid": "f"})
    out = await asyncio.wait_for(reply, 30)
    assert out["meta_info"]["finish_reason"]["type"] == "abort"
    assert 0 < len(out["output_ids"]) < 1000


async def an_abort_in_a_pause_is_lost(server: SglangServer, _: Path) -> None:
    """Of a request sent in the pause; the engine sends none, and waits with its aborts."""
    assert await server.ready()
    await server.post("/pause_generation", {"mode": "in_place"})
    assert not await server.ready()
    reply = asyncio.create_task(server.generate(body("g", 30)))
    await asyncio.sleep(0.5)
    await server.post("/abort_request", {"rid": "g"})
    await asyncio.sleep(0.5)
    assert not reply.done()
    await server.post("/continue_generation", {})
    out = await asyncio.wait_for(reply, 60)
    assert out["meta_info"]["finish_reason"]["type"] == "length"


async def a_flush_in_a_pause_fails_too_late(server: SglangServer, folder: Path) -> None:
    """The weights have changed, the version told has not: the engine never flushes there."""
    before = (await server.get("/model_info"))["weight_version"]
    update = {"model_path": str(folder), "weight_version": "91"}
    reply = asyncio.create_task(server.generate(body("h", NUM)))
    await asyncio.sleep(0.2)
    await server.post("/pause_generation", {"mode": "in_place"})
    assert "not flushed" in await refusal(server.post("/update_weights_from_disk", update))
    assert (await server.get("/model_info"))["weight_version"] == before
    unflushed = {**update, "weight_version": "92", "flush_cache": False}
    assert (await server.post("/update_weights_from_disk", unflushed))["success"]
    assert (await server.get("/model_info"))["weight_version"] == "92"
    await server.post("/continue_generation", {})
    spans = (await asyncio.wait_for(reply, 60))["meta_info"]["weight_versions"]
    assert [span["version"] for span in spans] == [before, "92"]
    assert spans[0]["end"] == spans[1]["start"] and spans[1]["end"] == NUM
    again = {**update, "weight_version": before}  # idle: now a flush is well
    assert (await server.post("/update_weights_from_disk", again))["success"]


async def bad_paths_and_adapters_are_refused(server: SglangServer, folder: Path) -> None:
    update = {"model_path": str(folder / "absent"), "weight_version": "93"}
    assert "Failed to get weights" in await refusal(
        server.post("/update_weights_from_disk", update)
    )
    said = await refusal(server.generate({**body("i", 3), "lora_path": "zz"}))
    assert "never been loaded" in said
    assert (await server.generate(body("j", 3)))["output_ids"]


CHECKS: dict[str, Callable[[SglangServer, Path], Coroutine[Any, Any, None]]] = {
    check.__name__: check
    for check in (
        unknown_parameters_are_refused,
        streams_say_what_whole_replies_say,
        prompts_are_scored_without_sampling,
        an_abort_keeps_what_was_sampled,
        an_abort_in_a_pause_is_lost,
        a_flush_in_a_pause_fails_too_late,
        bad_paths_and_adapters_are_refused,
    )
}


def check_protocol(url: str, folder: Path, name: str) -> None:
    """Run one check on a server of a model folder; it leaves the server as it was."""

    async def run() -> None:
        server = SglangServer(url)
        try:
            server.info = await server.get("/server_info")
            await CHECKS[name](server, folder)
        finally:
            await server.close()

    asyncio.run(run())
