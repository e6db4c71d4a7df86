"""The gateway over real HTTP, with the official client and with ours."""

import asyncio
import json
import time
from typing import Any

import aiohttp
import openai
import pytest

from serving.client import PolicyClient
from serving.embedded.engine import TorchEngine
from serving.errors import ContextOverflow, PolicyTimeout, PolicyUnavailable, RequestRefused
from serving.server import PolicyServer
from serving.types import Sampling

USER = {"role": "user", "content": "Hello é😀"}
HEADERS = {"Authorization": "Bearer secret"}


async def post(
    server: PolicyServer, body: Any, path: str = "/v1/chat/completions", **headers: str
) -> tuple[int, dict[str, Any], Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with (
        aiohttp.ClientSession(headers=HEADERS | headers) as http,
        http.post(server.base_url + path, data=data) as response,
    ):
        return response.status, await response.json(), response.headers


def test_four_turns_are_token_exact(server: PolicyServer) -> None:
    """Bug prevented: sampled text tokenised again; a reply cut by length or odd bytes drifts."""

    async def play() -> None:
        async with PolicyClient(server.base_url, "secret") as client:
            messages = [{"role": "system", "content": "Be brief."}, USER]
            before: tuple[int, ...] = ()
            for turn in range(4):
                sampling = Sampling(max_tokens=7 if turn % 2 else 60, seed=turn)
                reply = await client.complete(messages, session="s 1/x", sampling=sampling)
                assert reply.prompt_ids_P[: len(before)] == before
                assert reply.generation.num_cached >= max(len(before) - 1, 0)
                before = (*reply.prompt_ids_P, *reply.generation.token_ids_T)
                messages += [
                    {"role": "assistant", "content": reply.text},
                    {"role": "user", "content": f"Weiter {turn} ✓"},
                ]
            drift = (await client.stats())["drift"]
            assert drift["forked"] == 0 and drift["exact"] + drift["realigned"] == 3

            retry = await client.complete(messages[:2], session="s 1/x", sampling=sampling)
            edited = [*messages[:3], {"role": "user", "content": "Other"}]
            branch = await client.complete(edited, session="s 1/x", sampling=sampling)
            first = len(retry.prompt_ids_P)
            assert branch.prompt_ids_P[:first] == retry.prompt_ids_P

    asyncio.run(play())


@pytest.mark.parametrize("named", ["path", "key", "header", "user", "inferred"])
def test_sessions_are_found_however_they_are_named(server: PolicyServer, named: str) -> None:
    """Bug prevented: clients that add nothing are never continued exactly."""

    async def play() -> None:
        path = ("/s/alpha" if named == "path" else "") + "/v1/chat/completions"
        headers = {"X-Session-Id": "alpha"} if named == "header" else {}
        if named == "key":
            headers = {"Authorization": "Bearer secret:alpha"}
        body = {"messages": [USER], "max_tokens": 8, "seed": 1, "return_token_ids": True}
        if named == "user":
            body["user"] = "alpha"
        _, first, heard = await post(server, body, path, **headers)
        choice = first["choices"][0]
        # an SDK sends the message back with null and empty fields of its own
        echoed = {**choice["message"], "refusal": None, "tool_calls": []}
        body["messages"] = [USER, echoed, USER]
        _, second, again = await post(server, body, path, **headers)
        before = choice["prompt_token_ids"] + choice["token_ids"]
        assert second["choices"][0]["prompt_token_ids"][: len(before)] == before
        assert again["X-Session-Id"] == heard["X-Session-Id"]
        assert named == "inferred" or again["X-Session-Id"] == "alpha"

    asyncio.run(play())


def test_official_client_whole_and_streamed(server: PolicyServer) -> None:
    """Bug prevented: streamed text differing from the whole; chunks the SDK cannot read."""

    async def play() -> None:
        async with openai.AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="secret") as client:
            ask: dict[str, Any] = {
                "model": "tiny",
                "messages": [USER],
                "max_tokens": 40,
                "seed": 11,
                "n": 2,
                "logprobs": True,
            }
            whole = await client.chat.completions.create(**ask)
            texts, listed, usage = ["", ""], [0, 0], None
            options = {"include_usage": True}
            async for part in await client.chat.completions.create(
                **ask, stream=True, stream_options=options
            ):
                usage = part.usage or usage
                for choice in part.choices:
                    texts[choice.index] += choice.delta.content or ""
                    if choice.logprobs and choice.logprobs.content:
                        listed[choice.index] += len(choice.logprobs.content)
            assert texts == [choice.message.content for choice in whole.choices]
            assert texts[0] != texts[1]
            assert usage is not None and whole.usage is not None
            assert usage.completion_tokens == whole.usage.completion_tokens == sum(listed)
            assert [model.id async for model in client.models.list()] == ["tiny"]
            with pytest.raises(openai.BadRequestError, match="unsupported field 'top_k'"):
                await client.chat.completions.create(
                    model="tiny",
                    messages=[{"role": "user", "content": "x"}],
                    extra_body={"top_k": 4},
                )
            with pytest.raises(openai.NotFoundError, match="use 'tiny'"):
                await client.chat.completions.create(
                    model="gpt-x", messages=[{"role": "user", "content": "x"}]
                )

    asyncio.run(play())


def test_stop_strings_are_cut_in_both_modes(server: PolicyServer) -> None:
    async def play() -> None:
        body = {"messages": [USER], "max_tokens": 40, "seed": 9}
        text = (await post(server, body))[1]["choices"][0]["message"]["content"]
        body["stop"] = text[10:13]
        _, answer, _ = await post(server, body)
        assert answer["choices"][0]["message"]["content"] == text[: text.find(text[10:13])]
        assert answer["choices"][0]["finish_reason"] == "stop"

    asyncio.run(play())


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        (b"{nope", None, "JSON"),
        (b"[]", None, "object"),
        ({"messages": []}, "messages", "at least 1"),
        ({"messages": [USER], "top_k": 4}, "top_k", "unsupported"),
        ({"messages": [USER], "presence_penalty": 0.5}, "presence_penalty", "not offered"),
        ({"messages": [USER], "tool_choice": "required"}, "tool_choice", "needs tools"),
        ({"messages": [USER], "tool_choice": "maybe"}, "tool_choice", "auto"),
        ({"messages": [USER], "chat_template_kwargs": {"x": 1}}, "chat_template_kwargs", "'x'"),
        ({"messages": [USER], "max_tokens": "5"}, "max_tokens", "integer"),
        ({"messages": [USER], "max_tokens": 0}, "max_tokens", "greater"),
        ({"messages": [USER], "temperature": -1}, "temperature", "greater"),
        ({"messages": [USER], "top_logprobs": 3}, "top_logprobs", "logprobs"),
        ({"messages": [USER], "logprobs": True, "top_logprobs": 21}, "top_logprobs", "20"),
        ({"messages": [{"role": "user", "content": "x " * 2000}]}, "messages", "context"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role", "system"),
        ({"messages": [{**USER, "tool_call_id": "1"}]}, "messages", "tool's"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    server: PolicyServer, body: Any, param: str | None, words: str
) -> None:
    """Bug prevented: options ignored in silence; a 500 for a client's mistake."""
    status, answer, _ = asyncio.run(post(server, body))
    assert status == 400
    assert set(answer["error"]) == {"message", "type", "param", "code"}
    assert answer["error"]["param"] == param and words in answer["error"]["message"]


def test_nulls_are_absence(server: PolicyServer) -> None:
    body = {"messages": [USER], "max_tokens": 2, "tools": None, "stop": None, "seed": None}
    assert asyncio.run(post(server, body))[0] == 200


def test_a_key_is_needed_everywhere_but_health(server: PolicyServer) -> None:
    async def play() -> None:
        async with aiohttp.ClientSession() as http:
            for path in ("/v1/models", "/admin/stats"):
                async with http.get(server.base_url + path) as response:
                    assert response.status == 401
                    error = (await response.json())["error"]
                    assert error["code"] == "invalid_api_key"
            async with http.get(server.base_url + "/health") as response:
                assert (await response.json())["ready"] is True
            async with http.get(server.base_url + "/nowhere", headers=HEADERS) as response:
                assert response.status == 404 and "error" in await response.json()

    asyncio.run(play())


def test_a_client_that_leaves_frees_its_slot(server: PolicyServer, engine: TorchEngine) -> None:
    """Bug prevented: abandoned replies sampled to their end, streamed or not."""

    async def play() -> None:
        engine.pause()
        for stream in (False, True):
            asked = {"messages": [USER], "max_tokens": 1900, "stream": stream}
            async with aiohttp.ClientSession(headers=HEADERS) as http:
                with pytest.raises(TimeoutError):
                    async with (
                        asyncio.timeout(0.5),
                        http.post(server.base_url + "/v1/chat/completions", json=asked) as reply,
                    ):
                        await reply.read()
        engine.resume()
        deadline = time.monotonic() + 20
        while engine.stats()["cancelled"] < 2 and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        stats = engine.stats()
        assert (stats["cancelled"], stats["running"], stats["waiting"]) == (2, 0, 0)

    asyncio.run(play())


def test_the_event_loop_answers_while_the_engine_stands(
    server: PolicyServer, engine: TorchEngine
) -> None:
    """Bug prevented: requests refused, or the loop blocked, while weights load."""

    async def play() -> None:
        async with PolicyClient(server.base_url, "secret") as client:
            await client.pause()
            waiting = asyncio.create_task(
                client.complete([USER], session="w", sampling=Sampling(max_tokens=3, seed=1))
            )
            for _ in range(5):
                stats = await client.stats()
            assert stats["paused"] and not waiting.done()
            await client.resume()
            assert (await waiting).generation.token_ids_T

    asyncio.run(play())


def test_failures_are_typed(server: PolicyServer, engine: TorchEngine) -> None:
    async def play() -> None:
        async with PolicyClient(server.base_url, "secret") as client:
            long = [{"role": "user", "content": "x " * 2000}]
            with pytest.raises(ContextOverflow):
                await client.complete(long, session="a", sampling=Sampling())
            with pytest.raises(RequestRefused, match="cannot read"):
                await client.load_weights("/nowhere", 1)  # type: ignore[arg-type]
            assert len((await client.score([[5, 6, 7]]))[0]) == 2
            await client.pause()
            with pytest.raises(PolicyTimeout):
                await client.complete([USER], session="a", sampling=Sampling(), timeout_s=0.2)
            await client.resume()
        async with PolicyClient(server.base_url, "wrong") as client:
            with pytest.raises(RequestRefused) as caught:
                await client.stats()
            assert caught.value.status == 401
        engine.close()
        async with PolicyClient(server.base_url, "secret") as client:
            with pytest.raises(PolicyUnavailable, match="closed"):
                await client.complete([USER], session="a", sampling=Sampling())
        server.stop()
        async with PolicyClient(server.base_url, "secret") as client:
            with pytest.raises(PolicyUnavailable):
                await client.stats()

    asyncio.run(play())
