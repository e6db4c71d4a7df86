"""Where a call's text ends, found while it streams; every character is looked at once.

A scan consumes text from a place on and says how far it came; what it leaves is the short start of
something that more text will decide.
"""

import re
from typing import Protocol

from .jsontext import call_of, object_of
from .marks import Marks, marks
from .pieces import ToolCall


class Scan(Protocol):
    """Reads one call, or several written as one, behind its mark."""

    def feed(self, text: str, at: int) -> tuple[int, bool]:
        """Return where the consumed text ends, and whether the call does, too."""

    def read(self, body: str) -> list[ToolCall]:
        """Return the calls of all the consumed text, also when it breaks off.

        Raises:
            Malformed: it is no call.
        """

    def first_end(self, body: str) -> int:
        """Return where a reader that knows no quotation would have ended; 0: nowhere."""


class Quotation:
    """Where an end mark does not count.

    Attributes:
        opening: starts a quotation.
        inside: the marks that count in it.
        closing: ends it.
    """

    def __init__(self, opening: str, closing: str, pairs: bool = False) -> None:
        self.opening = opening
        self.closing = closing
        self.inside: Marks = marks(closing, pairs=pairs)


JSON_STRINGS = Quotation('"', '"', pairs=True)


class Closed:
    """A call that ends with a mark outside quotation. Subclasses say how it is read.

    Args:
        end: the mark.
        quotation: None to end at the first mark, whatever it stands in.
    """

    def __init__(self, end: str, quotation: Quotation | None) -> None:
        self.end = end
        self._quotation = quotation
        self._quoted = False
        self._outside = marks(end, quotation.opening) if quotation else marks(end)

    def feed(self, text: str, at: int) -> tuple[int, bool]:
        while True:
            quoted = self._quotation if self._quoted else None
            wanted = quoted.inside if quoted else self._outside
            found = wanted.search(text, at)
            if not found:
                return wanted.open_end(text, at), False
            at = found.end()
            if quoted:
                self._quoted = found[0] != quoted.closing
            elif found[0] == self.end:
                return at, True
            else:
                self._quoted = True

    def first_end(self, body: str) -> int:
        return body.find(self.end) + len(self.end) if self.end in body else 0


class ClosedJson(Closed):
    """A JSON object with the name and the arguments of a call, and an end mark.

    Args:
        end: the mark.
        keys: names the arguments may go by.
        loose: end at the first end mark, even in a string.
    """

    def __init__(self, end: str, keys: tuple[str, ...], loose: bool) -> None:
        super().__init__(end, None if loose else JSON_STRINGS)
        self._keys = keys

    def read(self, body: str) -> list[ToolCall]:
        return [call_of(object_of(body.removesuffix(self.end)), *self._keys)]


_STRUCTURE = re.compile(r'["\[\]{}]')


class Balanced:
    """Follows one JSON object or array to the bracket that closes it.

    Args:
        depth: brackets that are open already.
    """

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
        self._quoted = False

    def feed(self, text: str, at: int) -> tuple[int, bool]:
        """See ``Scan``; with depth 0 the text starts with the bracket that opens the value."""
        while True:
            if self._quoted:
                found = JSON_STRINGS.inside.search(text, at)
                if not found:
                    return JSON_STRINGS.inside.open_end(text, at), False
                self._quoted = found[0] != '"'
            else:
                found = _STRUCTURE.search(text, at)
                if not found:
                    return len(text), False
                self._quoted = found[0] == '"'
                self._depth += (found[0] in "[{") - (found[0] in "]}")
                if self._depth == 0 and not self._quoted:
                    return found.end(), True
            at = found.end()
