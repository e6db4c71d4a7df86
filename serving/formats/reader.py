"""Reads one reply while it streams: a thought, content, calls. All families share it.

What becomes of the characters of a reply:
- a thought is ``Reasoning``, a call that can be read is a ``ToolCall``, all else is ``Content``;
- marks of thoughts and of calls that can be read vanish, and so does white space next to them;
- a call that cannot be read, or breaks off, is ``Content`` as it stands, marks included, and a
  ``Fault`` behind it. Nothing else is dropped.

Text is given out at once, up to white space and the start of a mark at its end. A thought stands
at a reply's beginning. An end mark without a beginning vanishes, but the text before it stays
content: it may have been shown already.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .jsontext import Malformed
from .marks import Stretch, after_white, marks
from .pieces import Content, Fault, Piece, Reasoning
from .scans import Scan


@dataclass(frozen=True)
class Thoughts:
    """Marks around a thought.

    Attributes:
        openings: each begins one.
        closings: each ends it.
    """

    openings: tuple[str, ...] = ("<think>",)
    closings: tuple[str, ...] = ("</think>",)

    @property
    def all(self) -> frozenset[str]:
        """All of them."""
        return frozenset((*self.openings, *self.closings))


THINK = Thoughts()
THINK_MISTRAL = Thoughts(("[THINK]", "<think>"), ("[/THINK]", "</think>"))


class Syntax(Protocol):
    """How a family marks its calls."""

    @property
    def openings(self) -> tuple[str, ...]:
        """Marks that start a call anywhere in the content."""

    @property
    def first(self) -> tuple[str, ...]:
        """Marks that start one only where the content starts."""

    @property
    def next(self) -> tuple[str, ...]:
        """Marks that start one only right behind another."""

    def scan(self, mark: str, loose: bool) -> Scan:
        """Return what follows a call behind ``mark``.

        Args:
            mark: that started it.
            loose: end at the first end mark, even in quotation.
        """


Step = Callable[[str, int], tuple[int, bool]]  # text, place → place, whether more is needed


class Reader:
    """A ``Parser`` of one reply.

    Args:
        thoughts: marks of thoughts.
        syntax: None reads nothing as a call.
        in_reasoning: the prompt has opened a thought.
    """

    def __init__(self, thoughts: Thoughts, syntax: Syntax | None, in_reasoning: bool) -> None:
        self._thoughts = thoughts
        self._syntax = syntax
        openings = syntax.openings if syntax else ()
        stray = () if in_reasoning else thoughts.closings
        self._marks = marks(*openings, *stray)
        self._heads = marks(*thoughts.openings, *(syntax.first if syntax else ()))
        self._step: Step = self._thought if in_reasoning else self._head
        self._stretch = Stretch(at_mark=in_reasoning)
        self._held = ""  # the start of what may be a mark
        self._pieces: list[Piece] = []
        self._mark = ""
        self._body: list[str] = []
        self._loose = False
        self._scan: Scan | None = None  # of the call being read

    def push(self, text: str) -> list[Piece]:
        text = self._held + text
        at, more = 0, False
        while at < len(text) and not more:
            at, more = self._step(text, at)
        self._held = text[at:]
        return self._taken()

    def finish(self) -> list[Piece]:
        pieces: list[Piece] = []
        while self._scan:
            rest = self._break_off(self._scan)
            pieces += [*self._taken(), *self.push(rest)]
        kind = Reasoning if self._step == self._thought else Content
        text = self._stretch.add(self._held) + self._stretch.rest()
        self._held = ""
        return [*pieces, kind(text)] if text else pieces

    def _taken(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        return pieces

    def _head(self, text: str, at: int) -> tuple[int, bool]:
        """Only white space so far, since the reply's beginning, a thought or a call."""
        start = after_white(text, at)
        self._stretch.add(text[at:start])
        found = self._heads.match(text, start)
        if found and found[0] in self._thoughts.openings:
            self._stretch.mark()
            self._step = self._thought
            return found.end(), False
        if found:
            self._open(found[0])
            return found.end(), False
        if start < len(text) and not self._heads.begun_at(text, start):
            self._step = self._content
            return start, False
        return start, True

    def _thought(self, text: str, at: int) -> tuple[int, bool]:
        closings = marks(*self._thoughts.closings)
        found = closings.search(text, at)
        end = found.start() if found else closings.open_end(text, at)
        certain = self._stretch.add(text[at:end])
        if certain:
            self._pieces.append(Reasoning(certain))
        if not found:
            return end, True
        self._after_thought()
        return found.end(), False

    def _content(self, text: str, at: int) -> tuple[int, bool]:
        found = self._marks.search(text, at)
        end = found.start() if found else self._marks.open_end(text, at)
        certain = self._stretch.add(text[at:end])
        if certain:
            self._pieces.append(Content(certain))
        if not found:
            return end, True
        if found[0] in self._thoughts.closings:
            self._after_thought()
        else:
            self._open(found[0])
        return found.end(), False

    def _call(self, text: str, at: int) -> tuple[int, bool]:
        assert self._scan
        end, complete = self._scan.feed(text, at)
        self._body.append(text[at:end])
        if complete:
            body = "".join(self._body)
            try:
                self._pieces += self._scan.read(body)
            except Malformed as error:
                self._give_back(body, error.reason)
            else:
                self._after_call()
        return end, not complete

    def _open(self, mark: str) -> None:
        assert self._syntax
        self._scan = self._syntax.scan(mark, self._loose)
        self._mark = mark
        self._body = []
        self._step = self._call

    def _after_thought(self) -> None:
        self._stretch.mark()
        self._marks = marks(*(self._syntax.openings if self._syntax else ()))
        self._heads = marks(*(self._syntax.first if self._syntax else ()))
        self._step = self._head

    def _after_call(self) -> None:
        self._stretch.mark()
        self._heads = marks(*(self._syntax.next if self._syntax else ()))
        self._scan = None
        self._step = self._head

    def _give_back(self, body: str, reason: str) -> None:
        self._pieces.append(Content(self._stretch.rest() + self._mark + body))
        if reason:
            self._pieces.append(Fault(reason))
        self._scan = None
        self._step = self._content

    def _break_off(self, scan: Scan) -> str:
        """The reply ends within a call. Return what is to be read anew.

        A quotation that never ends hides the end marks behind it. Then the call ends at the first
        of them after all, and no quotation counts from there on, so that this happens once.
        """
        body = "".join((*self._body, self._held))
        self._held = ""
        try:
            self._pieces += scan.read(body)
        except Malformed as error:
            end = 0 if self._loose else scan.first_end(body)
            self._loose = True
            reason = error.reason if end or not error.reason else f"unfinished: {error.reason}"
            self._give_back(body[:end] if end else body, reason)
            return body[end:] if end else ""
        self._after_call()
        return ""
