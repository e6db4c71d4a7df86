"""What other threads hand to the engine's thread, each with the future they wait on."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine import OnToken
from ..errors import ContextOverflow, RequestRefused
from ..types import FinishReason, Generation, Sampling, Token, Top, checked_temperature
from .constraint import Constraint
from .lora import Adapter, AdapterTable
from .sampler import Draw, Pick, uniform

Ids = NDArray[np.int32]


@dataclass(eq=False)
class Request:
    """A request and what was sampled for it so far."""

    prompt_ids: Ids
    sampling: Sampling
    seed: int
    on_token: OnToken | None = None
    adapter: Adapter | None = None  # replaced in place by a load
    constraint: Constraint | None = None
    future: "Future[Generation]" = field(default_factory=Future)
    cancelled: bool = False
    num_cached: int = 0
    token_ids_T: list[int] = field(default_factory=list)
    logprobs_T: list[float] = field(default_factory=list)
    versions_T: list[int] = field(default_factory=list)
    tops_T: list[Top] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, int] | None:
        """Whose keys and values it may share: None is the base model's."""
        return None if self.adapter is None else self.adapter.key

    @property
    def is_ended(self) -> bool:
        """Whether nothing more may be sampled: cancelled, or its adapter was unloaded."""
        return self.cancelled or (self.adapter is not None and not self.adapter.is_loaded)

    def draw(self) -> Draw:
        """Return how its next token is sampled."""
        wish = self.sampling
        point = uniform(self.seed, len(self.token_ids_T))
        allowed_V = None if self.constraint is None else self.constraint.allowed_V
        return Draw(wish.temperature, wish.top_p, point, wish.top_logprobs, allowed_V)

    def add(self, pick: Pick, version: int) -> bool:
        """Write down a sampled token and tell it; return whether its schema is complete.

        Errors are those of the callback or of the schema.
        """
        self.token_ids_T.append(pick.id)
        self.logprobs_T.append(pick.logprob)
        self.versions_T.append(version)
        if self.sampling.top_logprobs:
            self.tops_T.append(pick.top)
        if self.on_token is not None:
            self.on_token(Token(pick.id, pick.logprob, version, pick.top))
        return self.constraint is not None and self.constraint.accept(pick.id)

    def resolve(self, reason: FinishReason) -> None:
        """Give its owner, if still there, what was sampled."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(
                Generation(
                    token_ids_T=tuple(self.token_ids_T),
                    logprobs_T=tuple(self.logprobs_T),
                    versions_T=tuple(self.versions_T),
                    finish_reason=reason,
                    num_cached=self.num_cached,
                    tops_T=tuple(self.tops_T),
                )
            )


class TorchTicket:
    """A request in the torch engine."""

    def __init__(self, request: Request, wake: Callable[[], None]) -> None:
        self._request = request
        self._wake = wake

    @property
    def future(self) -> "Future[Generation]":
        """Its result."""
        return self._request.future

    def cancel(self) -> None:
        """Stop sampling soon. Idempotent."""
        self._request.cancelled = True
        self._wake()


class Call:
    """An action run between two steps. A caller that has gone away costs nothing."""

    def __init__(self, action: Callable[[], None]) -> None:
        self.future: Future[None] = Future()
        self._action = action

    def run(self) -> None:
        """Run the action; its error is the caller's, never the thread's."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self._action()
        except Exception as error:  # carried to the caller, as an executor does
            self.future.set_exception(error)
        else:
            self.future.set_result(None)


def fail(future: "Future[Any]", error: Exception) -> None:
    """Fail a future that nothing has settled yet, unless its owner cancelled it."""
    if future.set_running_or_notify_cancel():
        future.set_exception(error)


def as_ids(ids: Sequence[int]) -> Ids:
    """Return ids as an array."""
    return np.asarray(ids, dtype=np.int32)


def check_prompt(ids: Ids, vocab: int, max_len: int) -> None:
    """Refuse a prompt that is empty, too long, or holds an id outside the vocabulary."""
    if len(ids) == 0 or ids.min() < 0 or ids.max() >= vocab:
        raise RequestRefused("the prompt is empty or holds an id outside the vocabulary")
    if len(ids) >= max_len:
        raise ContextOverflow(
            f"the prompt has {len(ids)} tokens; the context holds {max_len}, the reply included",
            field="messages",
        )


def check_sampling(sampling: Sampling, vocab: int) -> None:
    """Refuse values that cannot be sampled with; the error names the field."""
    checked_temperature(sampling.temperature)
    if sampling.max_tokens < 1:
        raise RequestRefused("max_tokens must be at least 1", field="max_tokens")
    if not 0 < sampling.top_p <= 1:
        raise RequestRefused("top_p must lie in (0, 1]", field="top_p")
    if not 0 <= sampling.top_logprobs <= vocab:
        raise RequestRefused(f"top_logprobs must lie in 0..{vocab}", field="top_logprobs")


def check_scored(ids: Sequence[Sequence[int]], vocab: int, max_len: int) -> None:
    """Refuse sequences that cannot be scored."""
    for row in ids:
        if not row or len(row) > max_len:
            raise ContextOverflow(f"a sequence has {len(row)} tokens, not 1..{max_len}")
        if min(row) < 0 or max(row) >= vocab:
            raise RequestRefused("a sequence holds an id outside the vocabulary")


def find_adapter(adapters: AdapterTable, name: str) -> Adapter | None:
    """Return the adapter a request names, None for the base.

    Raises:
        RequestRefused: it is not loaded.
    """
    if not name:
        return None
    adapter = adapters.find(name)
    if adapter is None:
        loaded = ", ".join(sorted(adapters.versions())) or "none"
        raise RequestRefused(f"no adapter {name!r} is loaded; loaded: {loaded}", field="adapter")
    return adapter
