"""One SGLang server over its HTTP API (0.5.23): the routes the engine uses, and what it learns.

A call ends in one of three ways: an answer, ``ServerRefused`` (the server understood and said no),
``ServerLost`` (no answer: refused, reset, gone, too slow).

Left out: the OpenAI routes, weights over tensors or process groups, tokenizing.
"""

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import aiohttp
from pydantic_core import from_json, to_json

from .connections import Connections, Response
from .signal import Signal

CONNECT_S = 10.0
ANSWER_S = 30.0  # for routes that compute nothing
END_S = 1.0
SERVER_FAULT = 500
DATA, DONE = b"data:", b"[DONE]"


class ServerLost(Exception):
    """No answer from a server. The message says which and what was waited for."""


class ServerRefused(Exception):
    """A server answered with an error.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message, status)
        self.message = message
        self.status = status

    def __str__(self) -> str:
        return self.message


class SglangServer:
    """One server: its routes and the engine's view of it.

    Attributes:
        url: base URL, without a slash at its end.
        info: ``/server_info`` as read when it joined.
        alive: takes requests.
        gone: set while it does not; requests in flight there move on.
        reason: why it is not alive.
        num_running: our requests there.
        first_path: the weights it served when first met.
        is_mixed: may hold half of an update.
        heard_at: loop time of its last sign of life.
        loads: the last ``/v1/loads``.
    """

    def __init__(self, url: str, api_key: str = "", admin_key: str = "") -> None:
        self.url = url
        self.info: Mapping[str, Any] = {}
        self.alive = False
        self.gone = Signal()
        self.reason = "not reached yet"
        self.first_path = ""
        self.is_mixed = False
        self.num_running = 0
        self.num_slow = 0  # probes in a row without an answer
        self.heard_at = 0.0
        self.loads: Mapping[str, Any] = {}
        self._keys = (api_key, admin_key or api_key)
        self._session: aiohttp.ClientSession | None = None
        self._connections = Connections(url, self._headers(self._keys[0], True), CONNECT_S)

    async def get(self, path: str, timeout_s: float = ANSWER_S) -> dict[str, Any]:
        """Return the JSON object at a path."""
        return await self._call("GET", path, None, timeout_s, self._keys[0])

    async def post(
        self, path: str, body: Mapping[str, Any], timeout_s: float = ANSWER_S
    ) -> dict[str, Any]:
        """Post to a control route and return its JSON object; an empty answer gives ``{}``."""
        return await self._call("POST", path, body, timeout_s, self._keys[1])

    def ask(self, body: Mapping[str, Any]) -> "asyncio.Future[Response]":
        """Ask for a whole reply, which ``answer`` returns; cancelling what is returned hangs up.

        Bounded by the caller, since a long reply may take an hour.
        """
        return self._connections.post("/generate", to_json(body))

    async def generate(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a whole reply; see ``ask``."""
        return await self.answer(self.ask(body))

    async def answer(self, asked: "asyncio.Future[Response]") -> dict[str, Any]:
        """Return what ``ask`` asked for."""
        try:
            response = await asked
        except (OSError, TimeoutError) as error:
            raise ServerLost(f"{self.url}/generate: {_said(error)}") from error
        if not 200 <= response.status < 400:
            raise _refused(f"{self.url}/generate", response.body, response.status)
        return self._object("/generate", response.body)

    async def stream(self, body: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the events of a streamed reply; leaving the iterator closes the connection."""
        try:
            async with self._request("POST", "/generate", body, None, self._keys[0]) as response:
                await self._check(response)
                async for event in _events(response):
                    self._heard()
                    if "error" in event:
                        raise _refusal(self.url, event, int(event["error"].get("code") or 400))
                    yield event
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ServerLost(f"{self.url} was lost in mid-reply: {_said(error)}") from error

    async def ready(self) -> bool:
        """Whether it is neither paused nor unhealthy."""
        try:
            async with self._request("GET", "/ready", None, ANSWER_S, self._keys[0]) as response:
                return response.ok
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ServerLost(f"{self.url}/ready: {_said(error)}") from error

    async def close(self) -> None:
        """Close its connections."""
        self._connections.close()
        if self._session is not None:
            await self._session.close()

    async def _call(
        self, method: str, path: str, body: Any, timeout_s: float | None, key: str
    ) -> dict[str, Any]:
        try:
            async with self._request(method, path, body, timeout_s, key) as response:
                await self._check(response)
                raw = await response.read()
        except TimeoutError as error:
            raise ServerLost(
                f"{self.url}{path} did not answer in {timeout_s or CONNECT_S:g} s"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ServerLost(f"{self.url}{path}: {_said(error)}") from error
        return self._object(path, raw)

    def _object(self, path: str, raw: bytes) -> dict[str, Any]:
        self._heard()
        try:
            value = from_json(raw) if raw.strip() else {}
        except ValueError as error:
            raise ServerLost(f"{self.url}{path} answered no JSON: {raw[:100]!r}") from error
        return value if isinstance(value, dict) else {"value": value}

    def _request(
        self, method: str, path: str, body: Any, timeout_s: float | None, key: str
    ) -> "aiohttp.client._RequestContextManager":
        if self._session is None:
            # every request holds a connection as long as its reply runs
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session.request(
            method,
            self.url + path,
            data=None if body is None else to_json(body),
            headers=self._headers(key, body is not None),
            timeout=_timeout(timeout_s),
        )

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        if response.ok:
            return
        raw = await response.read()
        raise _refused(f"{self.url}{response.url.path}", raw, response.status)

    @staticmethod
    def _headers(key: str, has_body: bool) -> dict[str, str]:
        return {
            **({"Authorization": f"Bearer {key}"} if key else {}),
            **({"Content-Type": "application/json"} if has_body else {}),
        }

    def _heard(self) -> None:
        self.heard_at = asyncio.get_running_loop().time()
        self.num_slow = 0


@functools.cache
def _timeout(total_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total_s, sock_connect=CONNECT_S)


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """Cut a body into server-sent events, whatever the length of a line."""
    pending = bytearray()
    async for chunk in response.content.iter_any():
        pending += chunk
        *lines, rest = pending.split(b"\n")
        pending = bytearray(rest)
        for line in lines:
            if not line.startswith(DATA):
                continue
            data = bytes(line[len(DATA) :]).strip()
            if data == DONE:
                # read on to the body's end, or the connection cannot be used again
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(END_S):
                        await response.content.read()
                return
            yield json.loads(data)


def _refused(where: str, raw: bytes, status: int) -> ServerRefused:
    try:
        body = json.loads(raw)
    except ValueError:
        body = raw.decode(errors="replace").strip()
    return _refusal(where, body, status)


def _refusal(where: str, body: Any, status: int) -> ServerRefused:
    """The message out of any of the error shapes the server has."""
    message = body
    if isinstance(body, Mapping):
        message = (
            body.get("error") or body.get("message") or body.get("error_message") or dict(body)
        )
        if isinstance(message, Mapping):
            message = message.get("message", message)
    return ServerRefused(f"{where}: {message or f'status {status}'}", status)


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
