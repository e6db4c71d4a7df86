"""Kept connections to an engine's server: whole answers in any shape HTTP allows, or an error."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from serving.sglang.connections import Connection, Connections, Response

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
UNTIL_THE_END = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"


async def request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split()[0])
    return head + await reader.readexactly(length)


def scripted(raw: bytes, split: int = 1 << 20, ends: bool = False) -> Answer:
    """A server that answers each request with the same bytes, cut into pieces."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await request(reader)
                for at in range(0, len(raw), split):
                    writer.write(raw[at : at + split])
                    await writer.drain()
                    await asyncio.sleep(0)
                if ends:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    return answer


async def asked(answer: Answer, times: int = 1) -> tuple[list[Response], int]:
    """Ask one after the other; return the answers and how many connections that took."""
    num = 0

    async def counted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal num
        num += 1
        await answer(reader, writer)

    async with await asyncio.start_server(counted, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connections = Connections(f"http://127.0.0.1:{port}", {}, 5)
        try:
            return [await connections.post("/x", b"{}") for _ in range(times)], num
        finally:
            connections.close()


@pytest.mark.parametrize("split", [1, 7, 1 << 20])
@pytest.mark.parametrize("raw", [PLAIN, CHUNKED, b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN])
def test_an_answer_however_it_comes_and_the_connection_is_kept(raw: bytes, split: int) -> None:
    answers, num = asyncio.run(asked(scripted(raw, split), times=3))
    assert answers == [Response(200, b"hello")] * 3
    assert num == 1


def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    answers, num = asyncio.run(asked(scripted(UNTIL_THE_END, ends=True), times=2))
    assert (answers, num) == ([Response(200, b"hello")] * 2, 2)


def test_an_answer_longer_than_any_buffer() -> None:
    """Bug prevented: reading stops at a mark that nobody is there to lower."""
    body = b"x" * (1 << 22)
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    (answer,), _ = asyncio.run(asked(scripted(raw)))
    assert answer == Response(200, body)


@pytest.mark.parametrize(
    "raw", [PLAIN[:-1], CHUNKED[:-9], PLAIN[:20], b"", b"rubbish\r\n\r\n", b"HTTP/1.1 2x\r\n\r\n"]
)
def test_what_breaks_off_is_an_error(raw: bytes) -> None:
    """Bug prevented: half of a reply taken for the whole, or waited for without an end."""
    with pytest.raises(OSError):
        asyncio.run(asyncio.wait_for(asked(scripted(raw, ends=True)), 30))


def test_hanging_up_closes_the_connection() -> None:
    """Bug prevented: a server that goes on computing what nobody waits for."""

    async def check() -> None:
        begun, left = asyncio.Event(), asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request(reader)
            begun.set()
            assert await reader.read() == b""
            left.set()
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            asked = Connections(f"http://127.0.0.1:{port}", {}, 5).post("/x", b"{}")
            await begun.wait()
            asked.cancel()
            await asyncio.wait_for(left.wait(), 30)

    asyncio.run(check())


def test_the_request_says_what_it_must() -> None:
    async def check() -> bytes:
        seen = b""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal seen
            seen = await request(reader)
            writer.write(PLAIN)

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            base = f"http://127.0.0.1:{port}/behind/a/proxy/"
            await Connections(base, {"Authorization": "Bearer k"}, 5).post("/x", b"{}")
            return seen.replace(str(port).encode(), b"PORT")

    assert asyncio.run(check()).split(b"\r\n") == [
        b"POST /behind/a/proxy/x HTTP/1.1",
        b"Host: 127.0.0.1:PORT",
        b"Accept: */*",
        b"Authorization: Bearer k",
        b"Content-Length: 2",
        b"",
        b"{}",
    ]


def test_a_connection_lost_before_it_is_used_is_an_error() -> None:
    """Bug prevented: an assertion, which no other server is asked for, where the network failed."""

    async def check() -> None:
        connection = Connection(asyncio.get_running_loop(), [])
        with pytest.raises(ConnectionError, match="at once"):
            await connection.ask(b"")

    asyncio.run(check())
