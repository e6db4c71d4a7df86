"""What a format can do. ``serving.formats.table`` finds the one of a model.

A format reads replies as they stream and, for chat templates that know nothing of tools, writes
what such a template needs instead. Formats hold no state; a ``Parser`` is made per reply.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .pieces import Piece, ToolCall

Tool = Mapping[str, Any]  # OpenAI's {"type": "function", "function": {"name", "parameters", …}}


class Parser(Protocol):
    """Reads one reply, piece by piece. The pieces' sum does not depend on how the text is cut."""

    def push(self, text: str) -> list[Piece]:
        """Add text; return what is certain now."""

    def finish(self) -> list[Piece]:
        """Return the rest: an unfinished call comes back as content with its fault."""


class Format(Protocol):
    """A family's way of writing."""

    @property
    def name(self) -> str:
        """Such as ``hermes``."""

    @property
    def kept_tokens(self) -> frozenset[str]:
        """Names of special tokens that mark calls or thoughts and must stay in the text."""

    def parser(self, tools: Sequence[Tool] = (), in_reasoning: bool = False) -> Parser:
        """Return a parser of one reply.

        Args:
            tools: what the request offers; without any, nothing is read as a call.
            in_reasoning: the prompt's end has opened a thought already.
        """

    def instructions(self, tools: Sequence[Tool]) -> str:
        """Return what a system message must say where the template ignores ``tools``."""

    def written_calls(self, calls: Sequence[ToolCall]) -> str:
        """Return calls as the model would write them, for templates that ignore them."""

    def written_result(self, name: str, content: str) -> str:
        """Return a tool's result as text of a user message, for templates without a tool role."""

    def forced_opening(self, function: str | None) -> str:
        """Return text that, put before the reply, makes it a call (of ``function`` if named).

        The parser is given this text too, before the sampled text.
        """
