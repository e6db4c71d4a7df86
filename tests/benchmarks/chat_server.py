"""A small OpenAI-compatible server that knows the answers: for tests of runs."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiohttp import web

KEY = "test-key"


class ChatServer:
    """Answers ``/v1/chat/completions`` on loopback, in a thread. A context manager.

    Args:
        say: gives the reply to the messages of a request; an int is an HTTP error's status.

    Attributes:
        heard: every request's body, in order.
    """

    def __init__(self, say: Callable[[Sequence[Mapping[str, Any]]], str | int]) -> None:
        self._say = say
        self.heard: list[dict[str, Any]] = []
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "ChatServer":
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._complete)
        runner = web.AppRunner(app)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0)
        self._loop.run_until_complete(site.start())
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _models(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"error": {"message": "wrong key"}}, status=401)
        return web.json_response({"data": [{"id": "parrot"}]})

    async def _complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.heard.append(body)
        said = await asyncio.get_running_loop().run_in_executor(None, self._say, body["messages"])
        if isinstance(said, int):
            return web.json_response({"error": {"message": "as told"}}, status=said)
        choice = {"index": 0, "finish_reason": "stop", "message": {"content": said}}
        usage = {
            "prompt_tokens": 10 * len(body["messages"]),
            "completion_tokens": len(said.split()),
        }
        return web.json_response({"id": "r", "choices": [choice], "usage": usage})


def opening(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return what the user said first."""
    return str(next(m["content"] for m in messages if m["role"] == "user"))


def turn(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return how many replies came before."""
    return sum(m["role"] == "assistant" for m in messages)
