"""The engine's contract; ``serving.engines`` holds the table of engines by name.

An engine samples token ids from token ids; it knows nothing of messages. Methods are called from
any thread; ``submit`` never blocks.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from .types import Generation, Sampling, Token

OnToken = Callable[[Token], None]  # called in the engine's thread for each sampled token


class Ticket(Protocol):
    """A request in the engine."""

    @property
    def future(self) -> "Future[Generation]":
        """Its result; fails with ``EngineError`` when the engine failed."""

    def cancel(self) -> None:
        """Stop sampling soon; the result is what was sampled, ``cancelled``. Idempotent."""


class Engine(Protocol):
    """Samples and scores token ids under one set of weights at a time."""

    @property
    def version(self) -> int:
        """Policy version of the weights in use."""

    @property
    def max_len(self) -> int:
        """Most tokens of a prompt and its reply together."""

    @property
    def can(self) -> frozenset[str]:
        """What beyond plain sampling it offers: ``json_schema``, ``adapters``, ``top_logprobs``."""

    def submit(
        self, prompt_ids: Sequence[int], sampling: Sampling, on_token: OnToken | None = None
    ) -> Ticket:
        """Queue a request. The reply is cut with ``length`` where the context ends.

        Raises:
            ContextOverflow: the prompt leaves no room for one token.
            RequestRefused: an empty prompt, an id outside the vocabulary, a bad sampling value,
                a schema that cannot be obeyed, an adapter that is not loaded, or an option this
                engine does not offer; names the field.
            EngineError: the engine is closed.
        """

    def score(
        self, ids: Sequence[Sequence[int]], temperature: float = 1.0, adapter: str = ""
    ) -> "Future[list[list[float]]]":
        """Log-prob of each token given those before it: ``n - 1`` numbers for ``n`` ids.

        Args:
            ids: token ids per sequence, at least one and at most ``max_len`` each.
            temperature: log-probs are of softmax(logits / temperature); 0 counts as 1.
            adapter: name of a loaded LoRA adapter, or "" for the base model.

        Raises:
            ContextOverflow, RequestRefused, EngineError: as ``submit``.
        """

    def load(self, update: Path, version: int) -> None:
        """Replace all or some weights in place from a safetensors file; blocks until done.

        Requests in flight go on with the new weights over the keys and values they have.

        Raises:
            EngineError: unknown name, other shape, unreadable file or an older version; the old
                weights stay.
        """

    def load_adapter(self, name: str, path: Path, version: int) -> None:
        """Load a LoRA adapter, or replace the one of that name in place; blocks until done.

        Args:
            name: what ``Sampling.adapter`` calls it.
            path: folder in peft's layout (``adapter_config.json``, ``adapter_model.safetensors``).
            version: of this adapter; it must not fall.

        Raises:
            EngineError: unreadable, other shapes, an older version, unknown target modules; what
                was loaded before stays.
        """

    def unload_adapter(self, name: str) -> None:
        """Forget an adapter; its requests in flight end with it. Unknown names are no error."""

    def adapters(self) -> Mapping[str, int]:
        """Loaded adapters and their versions."""

    def pause(self) -> None:
        """Stop between two tokens; returns when stopped. Requests wait. Idempotent."""

    def resume(self) -> None:
        """Go on. Idempotent."""

    def stats(self) -> Mapping[str, Any]:
        """Counters and gauges, JSON values."""

    def close(self) -> None:
        """Stop the engine; unfinished requests fail with ``EngineError``. Idempotent."""


@runtime_checkable
class Host(Protocol):
    """An engine with an event loop of its own, in which a server in front of it can run.

    Their requests then change no thread. Two loops in two threads hand the interpreter lock to and
    fro several times per request.
    """

    def host(self, work: Coroutine[Any, Any, None]) -> "Future[None]":
        """Run a coroutine in the engine's loop to its end, even past the engine's ``close``.

        Raises:
            EngineError: the engine is closed.
        """


async def submit(
    engine: Engine,
    prompt_ids: Sequence[int],
    sampling: Sampling,
    on_token: OnToken | None = None,
) -> Ticket:
    """Submit from an event loop: compiling a schema would hold it up, so that goes to a thread."""
    if not sampling.json_schema:
        return engine.submit(prompt_ids, sampling, on_token)
    loop = asyncio.get_running_loop()
    making = loop.run_in_executor(None, engine.submit, prompt_ids, sampling, on_token)
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(_cancel_made)
        raise


def _cancel_made(making: "asyncio.Future[Ticket]") -> None:
    """Cancel a request that its caller did not wait for."""
    if not making.cancelled() and making.exception() is None:
        making.result().cancel()


async def generate(
    engine: Engine,
    prompt_ids: Sequence[int],
    sampling: Sampling,
    on_token: OnToken | None = None,
) -> Generation:
    """Await one generation; cancelling the caller cancels the request in the engine."""
    ticket = await submit(engine, prompt_ids, sampling, on_token)
    waiter = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    call = in_this_loop()
    ticket.future.add_done_callback(lambda _: call(wake))
    try:
        await waiter
    except asyncio.CancelledError:
        ticket.future.cancel()
        ticket.cancel()
        raise
    return ticket.future.result()


def in_this_loop() -> Callable[[Callable[[], object]], None]:
    """Return what has the present event loop run actions, in the order given, from any thread.

    From the loop's own thread, where the engines of ``Host`` call, nothing needs to wake the loop:
    that goes through a pipe and costs two system calls. An action after the loop's end is dropped.
    """
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    def call(action: Callable[[], object]) -> None:
        post = loop.call_soon if threading.get_ident() == thread else loop.call_soon_threadsafe
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            post(action)

    return call


# least and most of each option; max_len may also be 0
LIMITS = {
    "threads": (0, 1024),
    "max_slots": (1, 4096),
    "cached_slots": (0, 4096),
    "max_len": (2, 1 << 24),
    "prefill_tokens": (1, 1 << 20),
}
WEIGHTS = ("fp32", "int8")


@dataclass(frozen=True)
class EngineOptions:
    """What an engine may be told at start; the same keys stand on the command line.

    Attributes:
        threads: CPU threads of the engine; 0 takes torch's own choice.
        max_slots: most requests decoded at once; more wait.
        cached_slots: finished sequences kept for prompts that start like them.
        max_len: most tokens of a prompt and its reply; 0 takes the model's, up to 8192.
        prefill_tokens: most prompt tokens computed in one step beside the decoded ones.
        weights: ``fp32`` is exact; ``int8`` is faster and lossy: its log-probs are those of the
            quantised model, which training corrects by importance weights.

    Raises:
        ValueError: a value outside ``LIMITS`` or ``WEIGHTS``.
    """

    threads: int = 0
    max_slots: int = 48
    cached_slots: int = 32
    max_len: int = 0
    prefill_tokens: int = 256
    weights: str = "fp32"

    def __post_init__(self) -> None:
        for name, (least, most) in LIMITS.items():
            value = getattr(self, name)
            if not least <= value <= most and not (name == "max_len" and value == 0):
                zero = "0 or " if name == "max_len" else ""
                raise ValueError(f"{name} must be {zero}{least}..{most}, not {value}")
        if self.weights not in WEIGHTS:
            raise ValueError(f"weights must be {' or '.join(WEIGHTS)}, not {self.weights!r}")
