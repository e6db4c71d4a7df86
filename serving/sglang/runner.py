"""The life of a request to SGLang servers, in the engine's event loop.

A request is placed, sent and read; what ends an attempt early (a lost server, an abort that is not
ours) leads to another with the tokens taken so far, a bounded number of times.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from ..errors import EngineError, RequestRefused
from ..types import FinishReason
from .adapters import AdapterHandle, AdapterTable
from .connections import Response
from .fleet import Fleet, Limits
from .http import ServerLost, ServerRefused, SglangServer
from .request import ABORTED, Ending, Request, fail

logger = logging.getLogger(__name__)

MOST_ATTEMPTS = 6
ABORT_EVERY_S = 0.5
ABORT_FOR_S = 5.0
BAD_REQUESTS = (400, 413, 422)


class Runner:
    """Serves requests over a fleet.

    Args:
        fleet: the servers.
        adapters: told when a request no longer names one.
        counts: the engine's counters.
        start: runs a coroutine in the loop and keeps hold of its task.
    """

    def __init__(
        self,
        fleet: Fleet,
        adapters: AdapterTable,
        counts: Counter[str],
        start: Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"],
    ) -> None:
        self._fleet = fleet
        self._limits: Limits = fleet.limits
        self._adapters = adapters
        self._counts = counts
        self._start = start
        self._open: set[Request] = set()

    async def serve(self, request: Request) -> None:
        """A request from its queue to its future; nothing it meets may end the loop."""
        self._counts["open"] += 1
        self._open.add(request)
        try:
            _mind_adapter(request)
            async with asyncio.timeout(self._limits.reply_s):
                reason = await self._attempts(request)
            _mind_adapter(request)
        except asyncio.CancelledError:
            self._fail(request, EngineError("the engine was closed"))
            raise
        except TimeoutError:
            self._fail(
                request,
                EngineError(
                    f"no reply in {self._limits.reply_s:g} s; it waited for {request.waits_for}"
                ),
            )
        except (RequestRefused, EngineError) as error:
            self._fail(request, error)
        except Exception as error:  # of its own callback, or a response of another shape
            logger.exception("a request failed")
            self._fail(request, EngineError(f"{type(error).__name__}: {error}"))
        else:
            self._resolve(request, reason)
        finally:
            self._counts["open"] -= 1
            self._open.discard(request)
            self.release(request.adapter)

    async def _attempts(self, request: Request) -> FinishReason:
        said = ""
        for attempt in range(MOST_ATTEMPTS):
            if len(request.token_ids_T) >= request.num_tokens:
                return "length"
            self._counts["retries"] += attempt > 0
            server = await self._place(request)
            if server is None:
                return "cancelled"
            try:
                reason = await self._attempt(request, server)
            except ServerLost as error:
                said = str(error)
                logger.warning(
                    "a request moves on after %d tokens: %s", len(request.token_ids_T), said
                )
                if server.alive:
                    await self._fleet.suspect(server, said)
            else:
                if reason != ABORTED:
                    return reason
                said = f"{server.url} aborted it"
                logger.warning("a reply was aborted after %d tokens", len(request.token_ids_T))
            finally:
                server.num_running -= 1
            if request.cancelled.is_set():
                return "cancelled"
            self._mind_schema(request)
        raise EngineError(f"gave up after {MOST_ATTEMPTS} attempts; the last: {said}")

    def _mind_schema(self, request: Request) -> None:
        """A grammar cannot be taken up half-way: begin again if nobody saw the beginning."""
        if request.sampling.json_schema and request.token_ids_T:
            if request.on_token is not None:
                raise EngineError(
                    "a server was lost in a reply bound to a schema, already streamed"
                )
            request.restart()

    async def _place(self, request: Request) -> SglangServer | None:
        """Wait for a server, or for the request to be cancelled (None)."""
        request.waits_for = "a server"
        if request.cancelled.is_set():
            return None
        at_once = self._fleet.place_now(request.prompt_ids)
        if at_once is not None:
            return at_once
        placing = asyncio.ensure_future(self._fleet.place(request.prompt_ids))
        cancelled = asyncio.ensure_future(request.cancelled.wait())
        server: SglangServer | None = None
        try:
            await asyncio.wait({placing, cancelled}, return_when=asyncio.FIRST_COMPLETED)
            if placing.done() and not request.cancelled.is_set():
                server = placing.result()
            return server
        finally:
            await drop(placing, cancelled)
            if server is None and not placing.cancelled() and placing.exception() is None:
                placing.result().num_running -= 1

    async def _attempt(self, request: Request, server: SglangServer) -> FinishReason | Ending:
        request.waits_for = server.url
        ended = asyncio.get_running_loop().create_future()
        body = request.body(self._fleet.version, self._fleet.cache_key)
        # a whole reply needs no task that waits for it
        asked = server.ask(body) if request.on_token is None else None

        def read() -> Coroutine[Any, Any, Ending]:
            return self._read(request, server, body, asked)

        reading: asyncio.Future[Any] = asked or asyncio.ensure_future(read())
        cancelled, gone = request.cancelled, server.gone

        def wake(*_: object) -> None:
            if not ended.done():
                ended.set_result(None)

        reading.add_done_callback(wake)
        cancelled.listen(wake)
        gone.listen(wake)
        handed_over = False
        try:
            await ended
            if reading.done():
                return await (reading if asked is None else read())
            if not cancelled.is_set():
                raise ServerLost(server.reason)
            if asked is not None:
                reading = asyncio.ensure_future(read())
            hanging_up = self._start(self._hang_up(server, request.rid, reading))
            handed_over = True
            if asked is not None:  # only the answer says what was sampled
                await asyncio.wait({hanging_up}, timeout=self._limits.cancel_s)
            return "cancelled"
        finally:
            cancelled.ignore(wake)
            gone.ignore(wake)
            if not handed_over and not reading.done():
                await drop(reading)

    async def _read(
        self,
        request: Request,
        server: SglangServer,
        body: dict[str, Any],
        asked: "asyncio.Future[Response] | None",
    ) -> Ending:
        """Take what comes of a reply that was asked for whole, or asked for here as a stream."""
        is_delta = bool(server.info.get("incremental_streaming_output"))
        try:
            if asked is not None:
                out = await server.answer(asked)
                await self._while_paused()
                return _said(request.take(out, is_delta=False), server)
            ending: Ending | None = None
            async with contextlib.aclosing(server.stream(body)) as events:
                async for out in events:
                    await self._while_paused()
                    ending = ending or request.take(out, is_delta)
                    if ending is not None and out["meta_info"].get("finish_reason") is None:
                        break  # an ending of our own
            return _said(ending, server)
        except ServerRefused as error:
            if request.adapter is not None:  # is it the request, or a server without the adapter?
                await self._fleet.suspect(server, error.message)
            if error.status in BAD_REQUESTS and not request.token_ids_T and server.alive:
                raise RequestRefused(error.message) from error
            raise ServerLost(error.message) from error

    async def _while_paused(self) -> None:
        """What a server sent just before it stopped is handed on when it may go on."""
        if self._fleet.paused:
            await self._fleet.open.wait()

    async def _hang_up(
        self, server: SglangServer, rid: str, reading: "asyncio.Future[Ending]"
    ) -> None:
        """Have the server stop a reply, then close the connection.

        An abort before the server has queued the request does nothing, so it is repeated; one
        during a pause could be lost for good, so it waits for the end of the pause.
        """
        try:
            async with asyncio.timeout(self._limits.reply_s):
                await self._fleet.open.wait()
            for _ in range(int(ABORT_FOR_S / ABORT_EVERY_S)):
                if server.alive:
                    await server.post("/abort_request", {"rid": rid})
                await asyncio.wait({reading}, timeout=ABORT_EVERY_S)
                if reading.done() or not server.alive:
                    return
        except (ServerLost, ServerRefused, TimeoutError) as error:
            logger.info("a cancelled reply was left to %s: %s", server.url, error)
        finally:
            await drop(reading)

    async def drop_adapter(self, handle: AdapterHandle) -> None:
        """End the requests of an adapter that was forgotten; give the handle back."""
        for request in self._open:
            if request.adapter is handle:
                request.cancelled.set()
        unused = self._adapters.give_back(handle)
        if unused is not None:
            await self._fleet.unload_adapter(unused)

    def release(self, handle: AdapterHandle | None) -> None:
        """End a use of an adapter; one that was replaced is unloaded after its last."""
        unused = self._adapters.give_back(handle)
        if unused is not None:
            self._start(self._fleet.unload_adapter(unused))

    def _resolve(self, request: Request, reason: FinishReason) -> None:
        if request.settled:
            return
        request.settled = True
        self._counts["cancelled" if reason == "cancelled" else "finished"] += 1
        self._counts["prompt_tokens"] += len(request.prompt_ids)
        self._counts["cached_prompt_tokens"] += request.num_cached
        self._counts["sampled_tokens"] += len(request.token_ids_T)
        if request.future.set_running_or_notify_cancel():
            request.future.set_result(request.generation(reason))

    def _fail(self, request: Request, error: Exception) -> None:
        if not request.settled:
            request.settled = True
            self._counts["failed"] += 1
            fail(request.future, error)


async def drop(*futures: "asyncio.Future[Any]") -> None:
    """Cancel what is still pending and let it end."""
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)


def _mind_adapter(request: Request) -> None:
    if request.adapter is not None and request.adapter.is_forgotten:
        raise EngineError(f"adapter {request.adapter.name!r} was unloaded")


def _said(ending: Ending | None, server: SglangServer) -> Ending:
    if ending is None:
        raise ServerLost(f"{server.url} ended a reply without saying why")
    return ending
