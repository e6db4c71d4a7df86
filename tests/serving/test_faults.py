"""Over real HTTP: a client's mistake is refused by name, and a fault of ours keeps its shape."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from serving.client import PolicyClient
from serving.embedded.engine import TorchEngine
from serving.errors import PolicyUnavailable
from serving.renderer import Renderer
from serving.server import PolicyServer
from serving.types import Sampling

from .test_app import USER, post

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("extra", "param"),
    [
        ({"temperature": 1e-39}, "temperature"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"messages": [{**USER, "name": "Ann"}]}, "messages.name"),
        ({"user": "a\nb"}, "user"),
        ({"user": "a" * 257}, "user"),
        ({"messages": [{"role": "user", "content": "x" * (33 * 2048)}]}, "messages"),
    ],
)
def test_fields_that_would_be_ignored_or_do_harm_are_refused(
    server: PolicyServer, engine: TorchEngine, extra: dict[str, Any], param: str
) -> None:
    """Bug prevented: options ignored in silence, a connection dropped after sampling."""
    status, answer, _ = asyncio.run(post(server, {"messages": [USER], **extra}))
    assert status == 400 and answer["error"]["param"] == param
    assert engine.stats()["sampled_tokens"] == 0


def test_nulls_of_refused_fields_are_absence(server: PolicyServer) -> None:
    """Bug prevented: clients that write every field as null are turned away."""
    body = {"messages": [{**USER, "name": None}], "max_tokens": 1, "metadata": None}
    assert asyncio.run(post(server, {**body, "stream_options": None}))[0] == 200


@pytest.mark.parametrize(
    ("path", "headers", "param"),
    [
        ("/s/a%0Ab" + CHAT, {}, "session"),
        (CHAT, {"X-Session-Id": "a" * 257}, "X-Session-Id"),
        (CHAT, {"Authorization": "Bearer secret:" + "a" * 257}, "Authorization"),
    ],
)
def test_session_names_are_checked_wherever_they_stand(
    server: PolicyServer, path: str, headers: dict[str, str], param: str
) -> None:
    """Bug prevented: a name that cannot stand in the response's header drops the connection."""
    status, answer, _ = asyncio.run(post(server, {"messages": [USER]}, path, **headers))
    assert status == 400 and answer["error"]["param"] == param


def test_scores_refuse_a_temperature_that_overflows(server: PolicyServer) -> None:
    """Bug prevented: NaN, which is not JSON, as a log-prob."""
    body = {"token_ids": [[5, 6]], "temperature": 1e-42}
    status, answer, _ = asyncio.run(post(server, body, "/admin/score"))
    assert status == 400 and answer["error"]["param"] == "temperature"


def test_a_key_of_odd_bytes_is_only_wrong(server: PolicyServer) -> None:
    """Bug prevented: a 500 for a header that is not UTF-8."""
    host, port = server.base_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        wire.sendall(
            b"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\n"
            b"Connection: close\r\n\r\n"
        )
        assert wire.makefile("rb").readline().split()[1] == b"401"


@pytest.mark.parametrize("key", ["a:b", " a", "a\n"])
def test_keys_nobody_can_send_are_refused(
    engine: TorchEngine, renderer: Renderer, key: str
) -> None:
    """Bug prevented: a server that starts and turns everyone away."""
    with pytest.raises(ValueError, match="API key"):
        PolicyServer(engine, renderer, api_key=key)


def test_ports_out_of_range_and_in_use(
    engine: TorchEngine, renderer: Renderer, server: PolicyServer
) -> None:
    """Bug prevented: a traceback out of the server's thread (warnings are errors here)."""
    with pytest.raises(ValueError, match="port must be"):
        PolicyServer(engine, renderer, port=70000)
    taken = int(server.base_url.rpartition(":")[2])
    with pytest.raises(PolicyUnavailable, match="in use"):
        PolicyServer(engine, renderer, port=taken).start()


def test_health_tells_of_a_closed_engine(server: PolicyServer, engine: TorchEngine) -> None:
    """Bug prevented: a dead engine that is still sent requests."""

    async def status() -> tuple[int, bool]:
        async with (
            aiohttp.ClientSession() as http,
            http.get(server.base_url + "/health") as response,
        ):
            return response.status, (await response.json())["ready"]

    assert asyncio.run(status()) == (200, True)
    engine.close()
    assert asyncio.run(status()) == (503, False)


class BrokenRenderer(Renderer):
    """Decodes nothing."""

    def decode(self, token_ids: object) -> str:
        raise ZeroDivisionError("broken")


@pytest.mark.parametrize("stream", [False, True])
def test_a_fault_of_ours_has_the_shape_clients_read(
    engine: TorchEngine, renderer: Renderer, stream: bool
) -> None:
    """Bug prevented: a plain-text 500, or a stream that just ends."""
    renderer.__class__ = BrokenRenderer
    body = {"messages": [USER], "max_tokens": 3, "stream": stream}

    async def play(server: PolicyServer) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession(headers={"Authorization": "Bearer secret"}) as http,
            http.post(server.base_url + CHAT, json=body) as response,
        ):
            return response.status, await response.text()

    with PolicyServer(engine, renderer, api_key="secret") as server:
        status, text = asyncio.run(play(server))
    assert status == (200 if stream else 500)
    error = json.loads(text.strip().rpartition("data: ")[2])["error"]
    assert error["type"] == "server_error" and "ZeroDivisionError" in error["message"]


async def answering(body: bytes, status: int, ask: Callable[[str], Awaitable[object]]) -> None:
    """Ask a server that gives one answer to everything."""

    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(body=body, status=status)

    runner = web.ServerRunner(web.Server(handler))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        await ask(f"http://127.0.0.1:{runner.addresses[0][1]}")
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"500 Internal Server Error", 500, "HTTP 500: not JSON"),
        (b"<html>Bad Gateway", 502, "HTTP 502: not JSON"),
        (b"\xff\xfe", 200, "HTTP 200: not JSON"),
        (b"[]", 200, "HTTP 200: not a JSON object"),
        (b'{"error": "gone"}', 503, "HTTP 503"),
        (b'{"ok": 1}', 200, "no reply of a policy server"),
    ],
)
def test_what_is_no_policy_server_is_unavailable(body: bytes, status: int, words: str) -> None:
    """Bug prevented: a proxy's page of HTML ends the agent with a JSONDecodeError."""

    async def ask(url: str) -> None:
        async with PolicyClient(url, "secret") as client:
            with pytest.raises(PolicyUnavailable, match=words):
                await client.complete([USER], session="s", sampling=Sampling())

    asyncio.run(answering(body, status, ask))


def test_an_edited_later_reply_is_drift(server: PolicyServer) -> None:
    """Bug prevented: a reply tokenised again counted as token-exact."""

    async def play() -> None:
        async with PolicyClient(server.base_url, "secret") as client:
            messages: list[dict[str, str]] = [USER]
            for turn in range(2):
                sampling = Sampling(max_tokens=6, seed=turn)
                reply = await client.complete(messages, session="s", sampling=sampling)
                messages += [{"role": "assistant", "content": reply.text}, USER]
            messages[3] = {"role": "assistant", "content": "edited"}
            await client.complete(messages, session="s", sampling=sampling)
            drift = (await client.stats())["drift"]
            assert (drift["new"], drift["forked"]) == (1, 1)

    asyncio.run(play())


def test_equal_inferred_conversations_keep_the_first(server: PolicyServer) -> None:
    """Bug prevented: one conversation continued with the tokens of another."""

    async def play() -> None:
        body = {"messages": [USER], "max_tokens": 5, "seed": 1, "return_token_ids": True}
        _, first, heard = await post(server, body)
        await post(server, body)
        body["messages"] = [USER, first["choices"][0]["message"], USER]
        _, _, again = await post(server, body)
        assert again["X-Session-Id"] == heard["X-Session-Id"]
        async with PolicyClient(server.base_url, "secret") as client:
            assert (await client.stats())["session_collisions"] == 1

    asyncio.run(play())


@pytest.mark.parametrize(
    ("arguments", "key", "status", "words"),
    [
        (["max_slots=0"], None, 2, "max_slots must be"),
        (["max_slots=100000000"], None, 2, "max_slots must be"),
        (["prefill_tokens=0"], None, 2, "prefill_tokens must be"),
        (["port=70000"], None, 2, "port must be"),
        ([], "a:b", 2, "CLAWGYM_API_KEY"),
        (["port=TAKEN"], None, 3, "in use"),
    ],
)
def test_the_command_line_ends_in_one_line(
    arguments: list[str], key: str | None, status: int, words: str
) -> None:
    """Bug prevented: tracebacks and hangs for a value out of range."""
    environment = {**os.environ, **({"CLAWGYM_API_KEY": key} if key else {})}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = [a.replace("TAKEN", str(taken.getsockname()[1])) for a in arguments]
        done = subprocess.run(
            [sys.executable, "-m", "serving", "model=tiny", "threads=1", *given],
            capture_output=True,
            text=True,
            timeout=120,
            env=environment,
        )
    assert done.returncode == status, done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr
