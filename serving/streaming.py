"""A reply as it is sampled: pieces and tokens in the order they become certain.

Wire shapes are others' (``chat_bodies``, ``anthropic``, …): each turns these events into its own.
"""

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from .engine import Ticket, in_this_loop, submit
from .formats.pieces import Piece
from .gateway import Gateway
from .jobs import Job
from .reply import Answer
from .types import Generation, Token

_Arrival = tuple[int, Token | None]  # (choice, token); (choice, None) when the choice has ended


@dataclass(frozen=True)
class Progress:
    """News of one choice.

    Attributes:
        index: which choice.
        pieces: what has become certain; may be empty beside a token.
        first_call: number of calls before those in ``pieces``.
        token: the token sampled, None for the rest at the end.
        calls: the calls in ``pieces`` in OpenAI's shape.
    """

    index: int
    pieces: tuple[Piece, ...]
    token: Token | None = None
    first_call: int = 0
    calls: tuple[dict[str, object], ...] = ()


@dataclass(frozen=True)
class End:
    """A choice has ended."""

    index: int
    answer: Answer


async def sample(gateway: Gateway, job: Job) -> AsyncGenerator[Progress | End, None]:
    """Yield the events of a reply; leaving early cancels the requests in the engine.

    The first event of each choice is empty and says that the engine has taken it. A choice that
    its client left is recorded as far as it was told, and is not trained on.

    Raises:
        ContextOverflow: before the first event.
        EngineError: the engine failed.
    """
    queue: asyncio.Queue[_Arrival] = asyncio.Queue()
    tickets = await _submit(gateway, job, queue)
    readers = [gateway.reader(job) for _ in tickets]
    seen: list[list[Token]] = [[] for _ in tickets]
    ended: set[int] = set()
    try:
        for index in range(len(tickets)):
            yield Progress(index, ())
        while len(ended) < len(tickets):
            index, token = await queue.get()
            reader = readers[index]
            before = reader.num_calls
            if token is not None:
                seen[index].append(token)
            pieces = reader.finish() if token is None else reader.push(token.id)
            if reader.ended:
                tickets[index].cancel()
            if pieces or token is not None:
                calls = tuple(reader.call(i) for i in range(before, reader.num_calls))
                yield Progress(index, tuple(pieces), token, before, calls)
            if token is None:
                answer = reader.answer(tickets[index].future.result())
                ended.add(index)
                gateway.record(job, index, answer)
                await gateway.settle()
                yield End(index, answer)
    finally:
        cut = [index for index in range(len(tickets)) if index not in ended]
        for index in cut:
            tickets[index].cancel()
        for index in cut:
            gateway.record(job, index, readers[index].answer(_so_far(seen[index])))


def _so_far(tokens: list[Token]) -> Generation:
    return Generation(
        token_ids_T=tuple(token.id for token in tokens),
        logprobs_T=tuple(token.logprob for token in tokens),
        versions_T=tuple(token.version for token in tokens),
        finish_reason="cancelled",
    )


async def _submit(gateway: Gateway, job: Job, queue: "asyncio.Queue[_Arrival]") -> list[Ticket]:
    call = in_this_loop()

    def post(arrival: _Arrival) -> None:
        call(partial(queue.put_nowait, arrival))

    def on_end(index: int, future: Future[Generation]) -> None:
        post((index, None))

    def on_token(index: int, token: Token) -> None:
        post((index, token))

    tickets: list[Ticket] = []
    try:
        for index, sampling in enumerate(job.samplings_G):
            ticket = await submit(
                gateway.engine, job.prompt.ids_P, sampling, partial(on_token, index)
            )
            ticket.future.add_done_callback(partial(on_end, index))
            tickets.append(ticket)
    except BaseException:
        for ticket in tickets:
            ticket.cancel()
        raise
    return tickets
