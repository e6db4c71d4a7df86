"""A streamed chat reply: one server-sent event per piece of text, as tokens are sampled."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from functools import partial
from typing import Any

from . import responses
from .engine import Ticket
from .gateway import Gateway, Job
from .renderer import TextStream
from .types import Generation, Token

_Event = tuple[int, Token | None]  # (choice, token); (choice, None) when the choice has ended


async def events(gateway: Gateway, job: Job) -> AsyncGenerator[bytes, None]:
    """Yield the events of a reply; leaving early cancels the requests in the engine.

    Raises:
        ContextOverflow: before the first event.
        EngineError: the engine failed.
    """
    queue: asyncio.Queue[_Event] = asyncio.Queue()
    tickets = _submit(gateway, job, queue)
    streams = [TextStream(gateway.renderer, job.request.stop_strings) for _ in tickets]
    ended: dict[int, Generation] = {}
    try:
        for index in range(len(tickets)):
            yield _event(job, responses.delta(index, {"role": "assistant", "content": ""}))
        while len(ended) < len(tickets):
            index, token = await queue.get()
            if token is None:
                ended[index] = generation = tickets[index].future.result()
                gateway.record(job, generation)
                rest = streams[index].finish()
                if rest:
                    yield _event(job, responses.delta(index, {"content": rest}))
                yield _last(job, index, generation)
                continue
            text = streams[index].push(token.id)
            listing = (
                responses.logprobs(gateway, [token.id], [token.logprob])
                if job.request.logprobs
                else None
            )
            if text or listing:
                yield _event(job, responses.delta(index, {"content": text}, logprobs=listing))
    finally:
        for ticket in tickets:
            ticket.cancel()
    options = job.request.stream_options
    if options is not None and options.include_usage:
        generations_G = [ended[index] for index in range(len(tickets))]
        yield _line(responses.chunk(job, [], usage=responses.usage(job, generations_G)))
    yield b"data: [DONE]\n\n"


def _submit(gateway: Gateway, job: Job, queue: "asyncio.Queue[_Event]") -> list[Ticket]:
    loop = asyncio.get_running_loop()

    def post(event: _Event) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody reads any more
            loop.call_soon_threadsafe(queue.put_nowait, event)

    def on_end(index: int, future: Future[Generation]) -> None:
        post((index, None))

    def on_token(index: int, token: Token) -> None:
        post((index, token))

    tickets: list[Ticket] = []
    for index, sampling in enumerate(job.samplings_G):
        ticket = gateway.engine.submit(job.prompt.ids_P, sampling, partial(on_token, index))
        ticket.future.add_done_callback(partial(on_end, index))
        tickets.append(ticket)
    return tickets


def _last(job: Job, index: int, generation: Generation) -> bytes:
    fields = responses.token_fields(job, generation) if job.request.return_token_ids else {}
    return _event(job, responses.delta(index, {}, generation.finish_reason, **fields))


def _event(job: Job, choice: dict[str, Any]) -> bytes:
    return _line(responses.chunk(job, [choice]))


def _line(body: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()
