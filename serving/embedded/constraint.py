"""Replies that obey a JSON schema: which tokens may come next, by ``llguidance``.

Each request has its own automaton; after every token it says which tokens keep the reply within
the schema. The engine samples among those, while the log-prob reported stays that of the whole
distribution, so such tokens are unfit for training (``Sampling.is_truncated``). White space
between JSON tokens is bounded, since a model may otherwise fill the reply with it.

The library is imported when the first schema arrives. Left out: grammars other than JSON schema.

Axes: ``_V`` vocabulary.
"""

import functools
import importlib.util
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..errors import EngineError, RequestRefused

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

INSTALL = "pip install llguidance"
WHITE_SPACE = r"[ \n]{1,16}"
COMPILED = 64  # schemas kept


@functools.cache
def is_installed() -> bool:
    """Return whether the library is there; imports nothing."""
    return importlib.util.find_spec("llguidance") is not None


class Constraint:
    """The state of one reply under a schema.

    Attributes:
        allowed_V: True for the tokens that may come next.
    """

    def __init__(self, matcher: "LLMatcher", vocab: int) -> None:
        self._matcher = matcher
        self._vocab = vocab
        self.allowed_V = self._allowed()

    def accept(self, token: int) -> bool:
        """Go on by a sampled token; return whether the reply is complete.

        Raises:
            EngineError: the schema needs more than the library's limits allow.
        """
        if not self._matcher.consume_token(token):
            raise EngineError(f"json_schema: {self._matcher.get_error()}")
        if self._matcher.is_stopped():
            return True
        self.allowed_V = self._allowed()
        return False

    def _allowed(self) -> Tensor:
        packed = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        if self._matcher.is_error():
            raise EngineError(f"json_schema: {self._matcher.get_error()}")
        bits = np.unpackbits(packed, count=self._vocab, bitorder="little")
        return torch.from_numpy(bits).bool()


class Schemas:
    """Compiles schemas for one tokenizer.

    Args:
        tokenizer: gives the model's tokenizer of transformers; called once, at the first schema.
        vocab: rows of the model's output.
        end_ids: tokens that end a reply; none takes the tokenizer's own.
    """

    def __init__(
        self, tokenizer: Callable[[], Any], vocab: int, end_ids: Collection[int] = ()
    ) -> None:
        self._give_tokenizer = tokenizer
        self._vocab = vocab
        self._end_ids = sorted(end_ids)
        self._compiled = functools.lru_cache(COMPILED)(self._compile)

    def start(self, schema: str) -> Constraint:
        """Return the state of a new reply under a schema (JSON text; ``{}`` is any JSON value).

        Raises:
            RequestRefused: the schema cannot be obeyed, or the library is missing.
        """
        return Constraint(self._compiled(schema).deep_copy(), self._vocab)

    def _compile(self, schema: str) -> "LLMatcher":
        if not is_installed():
            raise refusal(f"replies under a schema need llguidance: {INSTALL}")
        from llguidance import LLMatcher

        try:
            grammar = LLMatcher.grammar_from_json_schema(
                schema, defaults={"whitespace_pattern": WHITE_SPACE}
            )
        except ValueError as error:
            raise refusal(f"the schema is no JSON object: {error}") from error
        matcher = LLMatcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise refusal(f"the schema cannot be obeyed: {matcher.get_error()[:500]}")
        return matcher

    @functools.cached_property
    def _tokenizer(self) -> "LLTokenizer":
        from llguidance.hf import from_tokenizer

        try:
            return from_tokenizer(
                self._give_tokenizer(), n_vocab=self._vocab, eos_token=self._end_ids or None
            )
        except ValueError as error:
            raise refusal(f"this model's tokenizer cannot be constrained: {error}") from error


def refusal(message: str) -> RequestRefused:
    """Return a refusal of the field that carries a schema."""
    return RequestRefused(message, field="response_format")
