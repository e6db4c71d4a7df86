"""Kept connections to one server, for the one request that is asked all the time: post, read whole.

aiohttp's client does much for each request that such a request has no use for (cookies, redirects,
proxies, traces); that was a tenth of what a request through the gateway costs. Here a request is
one write, and what comes back goes through aiohttp's own parser. Nothing is asked twice: a
connection lost in mid-reply is an error, told to whoever asked.

Left out: streams, redirects, compression, proxies.
"""

import asyncio
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpResponseParser, RawResponseMessage
from aiohttp.streams import StreamReader

KEEP_S = 4.0  # a connection unused for longer is not used again: servers close theirs after 5 s
MOST_BYTES = 1 << 30  # of a body: it is wanted whole, so nothing is gained by reading it slowly
INFORMATION = range(100, 200)  # statuses of what comes before an answer


@dataclass(frozen=True)
class Response:
    """An answer, whole."""

    status: int
    body: bytes


class Connection(BaseProtocol):
    """One connection, with one request on it at a time.

    Attributes:
        used_at: loop time of its last answer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: "list[Connection]") -> None:
        self._reader = HttpResponseParser(
            self, loop, MOST_BYTES, read_until_eof=True, auto_decompress=False
        )
        super().__init__(loop, self._reader)
        self.used_at = 0.0
        self._pool = pool
        self._answer: asyncio.Future[Response] | None = None
        self._head: RawResponseMessage | None = None
        self._payload: StreamReader | None = None

    def ask(self, data: bytes) -> "asyncio.Future[Response]":
        """Send a request; cancelling what is returned closes the connection."""
        assert self._answer is None
        answer = self._answer = self._loop.create_future()
        answer.add_done_callback(self._asked)
        if self.transport is None:
            self._fail("it closed the connection at once")
        else:
            self.transport.write(data)
        return answer

    def close(self) -> None:
        """Close it. Idempotent."""
        if self.transport is not None:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        try:
            messages, _, _ = self._reader.feed_data(data)
            for head, payload in messages:
                if head.code not in INFORMATION:
                    self._head, self._payload = head, payload
            self._take()
        except (HttpProcessingError, OSError) as error:
            self._fail(f"what it answered is no HTTP: {error}")

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self in self._pool:
            self._pool.remove(self)
        if self._answer is None:
            return
        try:
            self._reader.feed_eof()  # a body without a length ends so
            self._take()
        except (HttpProcessingError, OSError) as error:
            self._fail(f"it broke off: {error}")
        self._fail(str(exc) if exc else "it closed the connection before its answer was complete")

    def _take(self) -> None:
        """Tell who asked, once the body is complete."""
        head, payload, answer = self._head, self._payload, self._answer
        if head is None or payload is None or answer is None:
            return
        error = payload.exception()
        if error is not None:
            raise ConnectionError(str(error))
        if not payload.is_eof():
            return
        self._answer = self._head = self._payload = None
        self.used_at = self._loop.time()
        response = Response(head.code, payload.read_nowait())
        if head.should_close or self.transport is None:
            self.close()
        else:
            self._pool.append(self)
        if not answer.done():
            answer.set_result(response)

    def _fail(self, reason: str) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(ConnectionError(reason))
        self.close()

    def _asked(self, answer: "asyncio.Future[Response]") -> None:
        if answer.cancelled():
            self._answer = None
            self.close()


class Connections:
    """All connections to a server; as many as there are requests at once.

    Args:
        url: base URL of the server, ``http`` or ``https``.
        headers: of every request.
        connect_s: most time for a new connection.
    """

    def __init__(self, url: str, headers: dict[str, str], connect_s: float) -> None:
        parts = urlsplit(url)
        self._is_secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._is_secure else 80)
        self._connect_s = connect_s
        told = {"Host": parts.netloc.rpartition("@")[2], "Accept": "*/*", **headers}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        self._path = parts.path.rstrip("/")
        self._free: list[Connection] = []  # the last used last

    def post(self, path: str, body: bytes) -> "asyncio.Future[Response]":
        """Post JSON; returns at once what the answer will be in.

        It fails with ``OSError`` or ``TimeoutError``; cancelling it hangs up.
        """
        head = (
            f"POST {self._path}{path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        )
        data = head.encode() + body
        connection = self._kept()
        if connection is not None:
            return connection.ask(data)
        return asyncio.ensure_future(self._over_a_new_one(data))

    def close(self) -> None:
        """Close those that are free."""
        for connection in [*self._free]:
            connection.close()
        self._free.clear()

    def _kept(self) -> Connection | None:
        oldest = asyncio.get_running_loop().time() - KEEP_S
        while self._free:
            connection = self._free.pop()
            if connection.transport is None or connection.transport.is_closing():
                continue
            if connection.used_at >= oldest:
                return connection
            connection.close()
        return None

    async def _over_a_new_one(self, data: bytes) -> Response:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_s):
            _, connection = await loop.create_connection(
                lambda: Connection(loop, self._free),
                self._host,
                self._port,
                ssl=True if self._is_secure else None,
            )
        return await connection.ask(data)
