"""From sampled tokens to what a client is told: content, thoughts, tool calls."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from .formats.pieces import Content, Parsed, Piece, ToolCall, collect
from .formats.protocol import Parser
from .ids import new_id
from .renderer import Renderer
from .text_stream import TextStream
from .types import Generation

Ending = Literal["stop", "length", "tool_calls", "cancelled"]


@dataclass(frozen=True)
class Answer:
    """One choice of a reply, complete.

    Attributes:
        generation: its tokens, none beyond what the client was told.
        parsed: what they say.
        tool_calls: the calls in OpenAI's shape, with ids.
        stopped_by: the stop string that ended it, or "".
    """

    generation: Generation
    parsed: Parsed
    tool_calls: tuple[dict[str, Any], ...] = ()
    stopped_by: str = ""

    @property
    def ending(self) -> Ending:
        """Why the reply ended, in OpenAI's words."""
        if self.tool_calls and self.generation.finish_reason != "length":
            return "tool_calls"
        return self.generation.finish_reason


class ReplyReader:
    """Reads one choice as it is sampled.

    Args:
        renderer: of the model.
        parser: of the model's format; without one all text is content.
        stop: strings before which the text ends.
        opening: text the prompt put before the reply.
        parallel: whether more than one call may come.

    Attributes:
        ended: whether the client is told nothing more.
    """

    def __init__(
        self,
        renderer: Renderer,
        parser: Parser | None = None,
        stop: Sequence[str] = (),
        opening: str = "",
        parallel: bool = True,
    ) -> None:
        self._text = TextStream(renderer, stop)
        self._parser = parser
        self._parallel = parallel
        self._pieces: list[Piece] = []
        self._calls: list[dict[str, Any]] = []
        self._num_tokens = 0
        self._cut_short = False
        self.ended = False
        self._keep(self._parsed(opening))

    def push(self, token_id: int) -> list[Piece]:
        """Add a token; return what is certain now."""
        if self.ended:
            return []
        self._num_tokens += 1
        return self._keep(self._parsed(self._text.push(token_id)))

    def read(self, generation: Generation) -> Answer:
        """Return what a whole generation says; nothing may have been pushed."""
        if self._parallel:
            self._keep(self._parsed(self._text.push(*generation.token_ids_T)))
        else:  # where the first call ends must be known to the token
            for token_id in generation.token_ids_T:
                self.push(token_id)
        self.finish()
        return self.answer(generation)

    def finish(self) -> list[Piece]:
        """Return the rest."""
        if self.ended:
            return []
        pieces = self._keep(self._parsed(self._text.finish()))
        if self._parser is not None and not self.ended:
            pieces += self._keep(self._parser.finish())
        self.ended = True
        return pieces

    def call(self, index: int) -> dict[str, Any]:
        """Return a call in OpenAI's shape."""
        return self._calls[index]

    @property
    def num_calls(self) -> int:
        """Calls read so far."""
        return len(self._calls)

    def answer(self, generation: Generation) -> Answer:
        """Return the choice; without ``finish`` only what was told to the client so far."""
        parsed = collect(self._pieces)
        calls = tuple(self._calls)
        return Answer(self._cut(generation), parsed, calls, self._text.stopped_by)

    def _parsed(self, text: str) -> list[Piece]:
        if self._parser is not None:
            return self._parser.push(text) if text else []
        return [Content(text)] if text else []

    def _keep(self, pieces: list[Piece]) -> list[Piece]:
        kept: list[Piece] = []
        for piece in pieces:
            if isinstance(piece, ToolCall):
                if self._calls and not self._parallel:
                    break
                self._calls.append(_call(piece))
            kept.append(piece)
            if self._calls and not self._parallel:
                self.ended = self._cut_short = True
                break
        self._pieces += kept
        return kept

    def _cut(self, generation: Generation) -> Generation:
        """Return the generation without tokens sampled after a call that had to be the last."""
        num = self._num_tokens
        if not self._cut_short:
            return generation
        return replace(
            generation,
            token_ids_T=generation.token_ids_T[:num],
            logprobs_T=generation.logprobs_T[:num],
            versions_T=generation.versions_T[:num],
            tops_T=generation.tops_T[:num],
            finish_reason="stop",
        )


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": f"call_{new_id()[:24]}",
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
