"""Whatever a client sends: never a 500, never a hang, and the server answers the next one."""

import asyncio
import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import hypothesis
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import status_code_conformance

from serving.models import resolve

from .test_sdks import CALLS, CLAUDE_TOOLS, TOOLS, USER, serving

HEADERS = {"Authorization": "Bearer secret"}
ALLOWED = {200, 400, 401, 403, 404, 405, 413, 415, 429}
BATCHES, PER_BATCH = 400, 25  # ten thousand requests
ANSWER_S = 30.0

CHAT = {
    "model": "m",
    "messages": [{"role": "system", "content": "x"}, USER],
    "tools": TOOLS,
    "tool_choice": "auto",
    "max_tokens": 5,
    "temperature": 1.0,
    "top_p": 1.0,
    "n": 1,
    "seed": 1,
    "stop": ["a"],
    "stream": False,
    "logprobs": True,
    "top_logprobs": 0,
    "metadata": {"session_id": "a"},
    "response_format": {"type": "text"},
}
VALID: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/s/x/v1/chat/completions": {"messages": [USER], "stream": True, "max_tokens": 3},
    "/v1/completions": {"prompt": "x", "max_tokens": 3, "logprobs": 1, "stream": True},
    "/v1/messages": {
        "model": "m",
        "max_tokens": 4,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        "tools": CLAUDE_TOOLS,
        "tool_choice": {"type": "auto"},
        "system": "x",
    },
    "/v1/messages/count_tokens": {"model": "m", "messages": [USER]},
    "/v1/responses": {
        "input": [{"type": "message", "role": "user", "content": "x"}],
        "instructions": "x",
        "max_output_tokens": 3,
        "tools": [{"type": "function", **TOOLS[0]["function"]}],
        "text": {"format": {"type": "text"}},
        "stream": True,
    },
    "/v1/feedback": {"id": "chatcmpl-x", "rating": 1, "edit": "x"},
    "/admin/weights": {"path": "/nowhere", "version": 1},
    "/admin/score": {"token_ids": [[1, 2]], "temperature": 1.0},
    "/admin/adapters": {"name": "x", "path": "/nowhere", "version": 1},
}
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["", "\x00", "\ud800", "<|im_end|>", "null", "💥" * 50, "system", "tool"]),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
    st.just([[[[[[[[]]]]]]]]),
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, bytes]:
    """A route, and a body that was valid before it was spoilt."""
    path = draw(st.sampled_from(sorted(VALID)))
    body = json.loads(json.dumps(VALID[path]))
    for _ in range(draw(st.integers(0, 3))):
        _spoil(draw, body)
    data = json.dumps(body).encode(errors="surrogatepass")
    how = draw(st.sampled_from(["whole", "whole", "whole", "cut", "bytes", "inserted", "deep"]))
    if how == "cut":
        data = data[: draw(st.integers(0, len(data)))]
    elif how == "bytes":
        data = draw(st.binary(max_size=60))
    elif how == "inserted":
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.sampled_from([b"\xff", b"\x00", b'"', b"{", b"NaN", b"1e999"]))
        data += json.dumps(body).encode()[at:]
    elif how == "deep":
        data = b'{"messages":' + b"[" * draw(st.sampled_from([100, 5000])) + b"}"
    return path, data


def _spoil(draw: st.DrawFn, body: Any) -> None:
    """Change one place, at whatever depth."""
    while True:
        keys: list[Any] = list(body) if isinstance(body, dict) else list(range(len(body)))
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        if isinstance(body[key], dict | list) and body[key] and draw(st.booleans()):
            body = body[key]
            continue
        how = draw(st.sampled_from(["junk", "drop", "double", "extra"]))
        if how == "junk":
            body[key] = copy.deepcopy(draw(JUNK))
        elif how == "drop":
            del body[key]
        elif isinstance(body, list):
            body.append(body[key])
        else:
            name = draw(st.sampled_from(["x", "functions", "logit_bias", "top_k", "", "é\x00"]))
            body[name] = copy.deepcopy(draw(JUNK))
        return


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(resolve("tiny"), CALLS, "fine") as (_, url):
        yield url


@pytest.mark.slow
def test_ten_thousand_spoilt_requests(url: str) -> None:
    """Bug prevented: a 500, a connection dropped, a request that hangs, a server that has died."""
    loop = asyncio.new_event_loop()
    http = loop.run_until_complete(_client())
    seen: set[int] = set()

    @hypothesis.settings(max_examples=BATCHES, deadline=None, database=None,
                         suppress_health_check=list(hypothesis.HealthCheck))  # fmt: skip
    @hypothesis.given(st.lists(requests(), min_size=PER_BATCH, max_size=PER_BATCH))
    def play(batch: list[tuple[str, bytes]]) -> None:
        answers = loop.run_until_complete(_send(http, url, batch))
        for (path, data), (status, text) in zip(batch, answers, strict=True):
            assert status in ALLOWED, (path, data, text)
            if status >= 400:
                assert json.loads(text)["error"]["message"], (path, data, text)
            seen.add(status)

    try:
        play()
        assert {200, 400, 404} <= seen
        body = json.dumps({"messages": [USER]}).encode()
        [(status, _)] = loop.run_until_complete(_send(http, url, [("/v1/chat/completions", body)]))
        assert status == 200
    finally:
        loop.run_until_complete(http.close())
        loop.close()


async def _client() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(headers=HEADERS)


async def _send(
    http: aiohttp.ClientSession, url: str, batch: list[tuple[str, bytes]]
) -> list[tuple[int, str]]:
    async def one(path: str, data: bytes) -> tuple[int, str]:
        async with http.post(url + path, data=data) as response:
            return response.status, await response.text()

    async with asyncio.timeout(ANSWER_S):
        return list(await asyncio.gather(*(one(path, data) for path, data in batch)))


@pytest.mark.parametrize(
    "raw",
    [
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
        b"GET /s/%ff%00/v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n",
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X-Long: " + b"a" * 100_000 + b"\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_broken_http_harms_nobody_else(url: str, raw: bytes) -> None:
    async def play() -> bytes:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        heard = b""
        with suppress(ConnectionError):  # it may hang up before the last of it has come
            writer.write(raw)
            writer.write_eof()
            async with asyncio.timeout(ANSWER_S):
                heard = await reader.read()
        writer.close()
        http = await _client()
        async with http.get(url + "/v1/models") as response:
            assert response.status == 200
        await http.close()
        return heard

    heard = asyncio.run(play())
    assert b" 500 " not in heard.split(b"\r\n")[0]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/admin/weights", {"path": "/nowhere"}),
        ("/admin/adapters", {"path": "/nowhere", "name": "x"}),
        ("/admin/quality", {"score": 0.5, "judged": 1}),
    ],
)
def test_a_version_no_token_can_keep_is_refused(
    url: str, path: str, fields: dict[str, Any]
) -> None:
    """Bug prevented: weights loaded under version 2 ** 31, and every reply from then on a 500."""

    async def play() -> list[tuple[int, str]]:
        http = await _client()
        bodies = [{**fields, "version": version} for version in (1 << 31, (1 << 31) - 1)]
        sent = [(path, json.dumps(body).encode()) for body in bodies]
        sent.append(("/v1/messages", json.dumps(VALID["/v1/messages"]).encode()))
        answers = [(await _send(http, url, [one]))[0] for one in sent]
        await http.close()
        return answers

    [(refused, why), *others] = asyncio.run(play())
    assert refused == 400
    assert "version" in json.loads(why)["error"]["message"]
    assert {status for status, _ in others} <= {200}, others


@pytest.mark.slow
def test_the_document_tells_the_truth(url: str) -> None:
    """Schemathesis makes requests from the served OpenAPI document; none may find a status that
    is not in it, a 5xx least of all."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    tried: set[str] = set()
    operations = list(schema.get_all_operations())
    for operation in operations:
        case_strategy = operation.ok().as_strategy()

        @hypothesis.settings(max_examples=8, deadline=None, database=None,
                             suppress_health_check=list(hypothesis.HealthCheck))  # fmt: skip
        @hypothesis.given(case=case_strategy)
        def play(case: Any) -> None:
            response = case.call(headers=HEADERS, timeout=ANSWER_S)
            assert response.status_code < 500, (case.as_curl_command(), response.text)
            case.validate_response(response, checks=[status_code_conformance])
            tried.add(f"{case.method} {case.path}")

        play()
    assert len(tried) == len(operations) > 20


def test_the_document_is_whole(url: str, tmp_path: Path) -> None:
    async def play() -> dict[str, Any]:
        http = await _client()
        async with http.get(f"{url}/openapi.json") as response:
            document: dict[str, Any] = await response.json()
        await http.close()
        return document

    document = asyncio.run(play())
    text = json.dumps(document)
    for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert reference in document["components"]["schemas"]
    assert {"/v1/chat/completions", "/s/{session}/v1/messages"} <= document["paths"].keys()
