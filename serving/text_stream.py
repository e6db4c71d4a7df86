"""From a growing list of token ids to text, piece by piece. Light: no torch."""

from collections.abc import Sequence
from typing import Protocol


class Decoder(Protocol):
    """Knows the text of ids; ``serving.renderer.Renderer`` does."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of ids."""


class TextStream:
    """Turns a growing list of ids into text, piece by piece.

    A piece never ends inside a UTF-8 character nor inside what may become a stop string; the
    pieces joined are the text of a reply that was not streamed. New ids are decoded behind a few
    old ones: a decoder may strip the blank of the first word it is given.

    Attributes:
        stopped_by: the stop string found, or "".
    """

    def __init__(self, renderer: Decoder, stop: Sequence[str] = ()) -> None:
        self._renderer = renderer
        self._stop = stop
        self._ids: list[int] = []
        self._settled = 0  # ids before this one are decoded for good
        self._context = 0  # decoding starts here: some text before the settled end
        self._held = ""  # decoded but not given out
        self.stopped_by = ""

    def push(self, *token_ids: int) -> str:
        """Add tokens; return the text that is certain now."""
        self._ids += token_ids
        text = self._new_text()
        if text.endswith("\ufffd"):
            return ""
        if text:  # else the old context stays: it must hold text
            self._context = self._settled
        self._settled = len(self._ids)
        return self._emit(text, final=False)

    def finish(self) -> str:
        """Return the rest; after it nothing may be pushed."""
        text = self._new_text()
        self._settled = len(self._ids)
        return self._emit(text, final=True)

    def _new_text(self) -> str:
        if self._settled == len(self._ids):
            return ""
        text = self._renderer.decode(self._ids[self._context :])
        if self._settled == self._context:
            return text
        return text[len(self._renderer.decode(self._ids[self._context : self._settled])) :]

    def _emit(self, text: str, final: bool) -> str:
        if self.stopped_by:
            return ""
        self._held += text
        found = [(at, s) for at, s in ((self._held.find(s), s) for s in self._stop) if at >= 0]
        if found:
            at, self.stopped_by = min(found)
            return self._held[:at]
        keep = 0 if final else self._open_stop()
        ready = self._held[: len(self._held) - keep]
        self._held = self._held[len(self._held) - keep :]
        return ready

    def _open_stop(self) -> int:
        """Return the length of the longest end of the held text that begins a stop string."""
        return max(
            (
                size
                for string in self._stop
                for size in range(1, min(len(string), len(self._held) + 1))
                if self._held.endswith(string[:size])
            ),
            default=0,
        )
