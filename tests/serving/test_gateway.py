"""Sessions, feedback, limits, counters and documents of the gateway over HTTP."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from serving.server import ServerOptions
from serving.turns import Turn

from .test_sdks import TOOLS, USER, serving

CHAT = "/v1/chat/completions"


async def ask(
    url: str,
    method: str = "POST",
    path: str = CHAT,
    body: Any = None,
    key: str = "secret",
    **headers: str,
) -> tuple[int, Any, Any]:
    """Return status, body (JSON if it is) and headers."""
    headers = {"Authorization": f"Bearer {key}", **headers}
    async with (
        aiohttp.ClientSession() as http,
        http.request(method, url + path, json=body, headers=headers) as response,
    ):
        text = await response.text()
        try:
            return response.status, json.loads(text), response.headers
        except ValueError:
            return response.status, text, response.headers


def chat(text: str = "hi", **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **fields}


def test_a_session_is_a_tree_that_can_be_seen_rated_and_deleted(tiny: Path) -> None:
    async def play(url: str) -> None:
        _, first, headers = await ask(url, body=chat("one"), **{"X-Session-Id": "s 1"})
        assert headers["X-Session-Id"] == "s 1" and headers["X-Response-Id"] == first["id"]
        said = first["choices"][0]["message"]
        longer = [*chat("one")["messages"], said, {"role": "user", "content": "two"}]
        for _ in range(2):  # the second is a retry
            await ask(url, body={"messages": longer}, **{"X-Session-Id": "s 1"})
        rating = {"id": first["id"], "rating": "down", "correction": "say it in German"}
        status, given, _ = await ask(url, path="/v1/feedback", body=rating)
        assert status == 200 and given["session"] == "s 1"

        _, listed, _ = await ask(url, "GET", "/v1/sessions")
        assert [(row["id"], row["num_turns"]) for row in listed["data"]] == [("s 1", 3)]
        _, shown, _ = await ask(url, "GET", "/v1/sessions/s%201")
        assert [turn["parent"] for turn in shown["turns"]] == [None, first["id"], first["id"]]
        assert shown["turns"][0]["feedback"][0]["rating"] == -1
        assert shown["turns"][1]["messages"] == [{"role": "user", "content": "two"}]
        _, exported, _ = await ask(url, "GET", "/v1/sessions/s%201/export")
        turns = [json.loads(line) for line in exported.splitlines()]
        assert all(len(turn["token_ids_T"]) == len(turn["logprobs_T"]) for turn in turns)
        assert turns[1]["prompt_ids_P"][: len(turns[0]["prompt_ids_P"])] == turns[0]["prompt_ids_P"]

        _, deleted, _ = await ask(url, "DELETE", "/v1/sessions/s%201")
        assert deleted["num_turns"] == 3
        assert (await ask(url, "GET", "/v1/sessions/s%201"))[0] == 404
        status, refused, _ = await ask(url, path="/v1/feedback", body=rating)
        assert status == 404 and refused["error"]["param"] == "id"

    with serving(tiny, "fine") as (_, url):
        asyncio.run(play(url))


def test_owners_of_keys_do_not_see_each_other(tiny: Path) -> None:
    """Bug prevented: one person's conversation listed, rated or gone on from by another."""

    async def play(url: str) -> None:
        _, reply, _ = await ask(url, body=chat(), **{"X-Session-Id": "s"})
        assert (await ask(url, "GET", "/v1/sessions", key="k1"))[1]["data"] == []
        assert (await ask(url, "GET", "/v1/sessions/s", key="k1"))[0] == 404
        rating = {"id": reply["id"], "rating": 1}
        assert (await ask(url, path="/v1/feedback", body=rating, key="k1"))[0] == 404
        await ask(url, body=chat(), key="k1", **{"X-Session-Id": "s"})
        _, listed, _ = await ask(url, "GET", "/v1/sessions", key="k1")
        assert [row["num_turns"] for row in listed["data"]] == [1]
        assert (await ask(url, "GET", "/admin/stats"))[0] == 403
        assert (await ask(url, "GET", "/admin/stats", key="boss"))[0] == 200

    options = ServerOptions(admin_key="boss", other_keys={"k1": "Ann"})
    with serving(tiny, "fine", options=options) as (_, url):
        asyncio.run(play(url))


def test_conversations_go_on_after_a_restart(tiny: Path, tmp_path: Path) -> None:
    options = ServerOptions(sessions=tmp_path)

    async def start(url: str) -> dict[str, Any]:
        message: dict[str, Any] = (await ask(url, body=chat()))[1]["choices"][0]["message"]
        return message

    async def go_on(url: str, said: dict[str, Any]) -> None:
        messages = [*chat()["messages"], said, {"role": "user", "content": "more"}]
        await ask(url, body={"messages": messages})
        _, counters, _ = await ask(url, "GET", "/admin/stats")
        assert counters["drift"]["exact"] == 1

    with serving(tiny, "odd  tokens ", options=options) as (_, url):
        said = asyncio.run(start(url))
    with serving(tiny, "fine", options=options) as (_, url):
        asyncio.run(go_on(url, said))


def test_turns_are_redacted_before_they_are_kept(tiny: Path, tmp_path: Path) -> None:
    def redact(turn: Turn) -> Turn | None:
        return None if "secret word" in turn.messages[0]["content"] else turn

    async def play(url: str) -> None:
        await ask(url, body=chat("the secret word is x"))
        await ask(url, body=chat("hello"))
        _, listed, _ = await ask(url, "GET", "/v1/sessions")
        assert len(listed["data"]) == 1

    with serving(tiny, "fine", options=ServerOptions(sessions=tmp_path, redact=redact)) as (_, url):
        asyncio.run(play(url))
    assert b"secret word" not in (tmp_path / "turns.db").read_bytes()


def test_the_rate_and_the_queue_are_bounded_and_say_when(tiny: Path) -> None:
    async def play(url: str) -> None:
        assert [(await ask(url, body=chat()))[0] for _ in range(3)] == [200, 200, 429]
        status, refused, headers = await ask(url, body=chat())
        assert refused["error"]["code"] == "rate_limit_exceeded"
        assert 1 <= int(headers["Retry-After"]) <= 30
        status, refused, headers = await ask(url, path="/v1/messages", body={})
        assert (status, refused["error"]["type"]) == (429, "rate_limit_error")

    with serving(tiny, "fine", options=ServerOptions(requests_per_minute=2)) as (_, url):
        asyncio.run(play(url))

    async def crowd(url: str, engine: Any) -> None:
        engine.pause()
        waiting = [asyncio.ensure_future(ask(url, body=chat())) for _ in range(2)]
        while len(engine.prompts) < 2:
            await asyncio.sleep(0.01)
        status, _, headers = await ask(url, body=chat())
        assert status == 429 and int(headers["Retry-After"]) > 0
        engine.resume()
        assert [(await reply)[0] for reply in waiting] == [200, 200]
        assert (await ask(url, body=chat()))[0] == 200

    with serving(tiny, "fine", options=ServerOptions(max_requests=2)) as (engine, url):
        asyncio.run(crowd(url, engine))


def test_a_body_too_large_is_413(tiny: Path) -> None:
    async def play(url: str) -> None:
        status, refused, _ = await ask(url, body=chat("x" * 3000))
        assert status == 413 and "error" in refused
        assert (await ask(url, body=chat()))[0] == 200

    with serving(tiny, "fine", options=ServerOptions(max_body_bytes=2000)) as (_, url):
        asyncio.run(play(url))


def test_a_client_that_leaves_is_recorded_as_cancelled(tiny: Path) -> None:
    """A user presses stop and writes on: the next prompt goes on from what was told."""

    async def play(url: str, engine: Any) -> None:
        headers = {"Authorization": "Bearer secret", "X-Session-Id": "s"}
        engine.pause()  # the first token comes, no second
        async with (
            aiohttp.ClientSession(headers=headers) as http,
            http.post(url + CHAT, json=chat(stream=True)) as response,
        ):
            told = ""
            async for raw in response.content:
                if raw.startswith(b"data: {"):
                    delta = json.loads(raw[6:])["choices"][0]["delta"]
                    told += delta.get("content", "")
                    if told:
                        break
        for _ in range(200):
            _, shown, _ = await ask(url, "GET", "/v1/sessions/s")
            if "turns" in shown:
                break
            await asyncio.sleep(0.02)
        engine.resume()
        assert shown["turns"][0]["finish_reason"] == "cancelled"
        assert shown["turns"][0]["unfit"] == ["cancelled"]
        said = {"role": "assistant", "content": told}
        messages = [*chat()["messages"], said, {"role": "user", "content": "go on"}]
        await ask(url, body={"messages": messages}, **{"X-Session-Id": "s"})
        assert engine.prompts[1][: len(engine.prompts[0]) + 1] == (
            *engine.prompts[0],
            engine.prompts[1][len(engine.prompts[0])],
        )
        _, counters, _ = await ask(url, "GET", "/admin/stats")
        assert counters["drift"]["realigned"] == 1

    with serving(tiny, "a long story") as (engine, url):
        asyncio.run(play(url, engine))


def test_side_requests_and_greedy_ones_are_not_trained_on(tiny: Path) -> None:
    async def play(url: str) -> None:
        title = "Generate a short title for this conversation"
        cases: list[tuple[dict[str, Any], dict[str, str], list[str]]] = [
            (chat("hello"), {}, []),
            (chat(title), {}, ["side request"]),
            (chat(title), {"X-Turn-Kind": "main"}, []),
            (chat("hello"), {"X-Turn-Kind": "side"}, ["side request"]),
            (chat(temperature=0), {}, ["greedy (temperature 0)"]),
            (chat(top_p=0.5), {}, ["top_p below 1"]),
            (chat(response_format={"type": "json_object"}), {},
             ["constrained by response_format"]),
            (chat("hello"), {"X-Train": "no"}, ["private"]),
            (chat("/private my salary is 1"), {}, ["private"]),
        ]  # fmt: skip
        for at, (body, headers, unfit) in enumerate(cases):
            await ask(url, body=body, **headers, **{"X-Session-Id": f"s{at}"})
            _, shown, _ = await ask(url, "GET", f"/v1/sessions/s{at}")
            assert shown["turns"][0]["unfit"] == unfit
        status, refused, _ = await ask(url, body=chat(), **{"X-Turn-Kind": "both"})
        assert status == 400 and refused["error"]["param"] == "X-Turn-Kind"
        status, refused, _ = await ask(url, body=chat(), **{"X-Train": "maybe"})
        assert status == 400 and refused["error"]["param"] == "X-Train"
        _, text, _ = await ask(url, "GET", "/metrics")
        assert "clawgym_trainable_turns 2.0" in text
        assert 'clawgym_unfit_turns{kind="side request"} 2.0' in text
        assert 'clawgym_requests_total{route="/v1/chat/completions",status="200"} 9.0' in text

    with serving(tiny, "fine") as (_, url):
        asyncio.run(play(url))


def test_other_tools_fork_what_was_sampled_under_the_first(tiny: Path) -> None:
    """Bug prevented: a prompt that promises old tools while the request offers new ones."""

    async def play(url: str) -> None:
        _, first, _ = await ask(url, body={"messages": [USER], "tools": TOOLS[:1]})
        messages = [USER, first["choices"][0]["message"], USER]
        await ask(url, body={"messages": messages, "tools": TOOLS})
        _, counters, _ = await ask(url, "GET", "/admin/stats")
        assert counters["drift"] == {"new": 1, "exact": 0, "realigned": 0, "forked": 1}

    with serving(tiny, "fine") as (engine, url):
        asyncio.run(play(url))
    assert len(engine.prompts[1]) > len(engine.prompts[0])


def test_adapters_by_name_and_by_user(tiny: Path) -> None:
    async def play(url: str, engine: Any) -> None:
        body = {"name": "ann", "path": "/x", "version": 3}
        assert (await ask(url, path="/admin/adapters", body=body))[1]["adapters"] == {"ann": 3}
        _, listed, _ = await ask(url, "GET", "/v1/models")
        assert [row["id"] for row in listed["data"]] == ["m", "m:ann"]
        for fields in ({"model": "m:ann"}, {"user": "ann"}, {"user": "bob"}):
            await ask(url, body=chat(**fields))
        assert [sampling.adapter for sampling in engine.samplings] == ["ann", "ann", ""]
        assert (await ask(url, body=chat(model="m:bob")))[0] == 404
        assert (await ask(url, "DELETE", "/admin/adapters/ann"))[1]["adapters"] == {}

    with serving(tiny, "fine", options=ServerOptions(adapter_by_user=True)) as (engine, url):
        asyncio.run(play(url, engine))


def test_a_failure_in_mid_reply_is_told_and_recorded(tiny: Path) -> None:
    async def play(url: str) -> None:
        status, failed, _ = await ask(url, body=chat(), **{"X-Session-Id": "a"})
        assert status == 500 and failed["error"]["type"] == "server_error"
        status, text, _ = await ask(url, body=chat(stream=True), **{"X-Session-Id": "b"})
        assert status == 200 and "it broke" in text.splitlines()[-2]
        _, shown, _ = await ask(url, "GET", "/v1/sessions/b")
        assert shown["turns"][0]["finish_reason"] == "cancelled"

    with serving(tiny, RuntimeError("it broke")) as (_, url):
        asyncio.run(play(url))


@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready", "/openapi.json"])
def test_what_is_open_needs_no_key(tiny: Path, path: str) -> None:
    with serving(tiny, "fine") as (_, url):
        assert asyncio.run(ask(url, "GET", path, key="wrong"))[0] == 200
        assert asyncio.run(ask(url, "GET", "/v1/models", key="wrong"))[0] == 401
        assert asyncio.run(ask(url, "GET", "/nowhere", key="wrong"))[0] == 401
        assert asyncio.run(ask(url, "GET", "/nowhere"))[0] == 404
