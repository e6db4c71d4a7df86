"""Marks in growing text: found once, and what may become one is told apart from what cannot.

``WHITE`` alone counts as white space here; a no-break space, say, is content.
"""

import functools
import re

WHITE = " \t\r\n"
_WHITE_RUN = re.compile(f"[{WHITE}]*")


def after_white(text: str, at: int) -> int:
    """Return the first place from ``at`` on that is not white space."""
    found = _WHITE_RUN.match(text, at)
    return found.end() if found else at


class Marks:
    """A set of strings to look for.

    Args:
        strings: the marks, none empty.
        pairs: a backslash and the character behind it also count as a mark.
    """

    def __init__(self, strings: tuple[str, ...], pairs: bool = False) -> None:
        alternatives = [re.escape(string) for string in strings]
        if pairs:
            alternatives.append(r"\\.")
            strings = (*strings, "\\.")  # its beginning, a backslash, may end a text
        self._pattern = re.compile("|".join(alternatives) or "(?!)", re.DOTALL)
        self._longest = max(map(len, strings), default=0)
        self._begun = tuple({mark[:size] for mark in strings for size in range(1, len(mark))})

    def search(self, text: str, at: int) -> re.Match[str] | None:
        """Return the first mark from ``at`` on."""
        return self._pattern.search(text, at)

    def match(self, text: str, at: int) -> re.Match[str] | None:
        """Return the mark that stands at ``at``."""
        return self._pattern.match(text, at)

    def begun_at(self, text: str, at: int) -> bool:
        """Whether the text from ``at`` to its end is an unfinished mark."""
        return len(text) - at <= self._longest and text[at:] in self._begun

    def open_end(self, text: str, at: int) -> int:
        """Return where the unfinished mark starts that the text ends with; its length if none."""
        if not text.endswith(self._begun, at):
            return len(text)
        return len(text) - max(len(b) for b in self._begun if text.endswith(b, at))


@functools.cache
def marks(*strings: str, pairs: bool = False) -> Marks:
    """Return the marks of these strings; made once."""
    return Marks(strings, pairs)


class Stretch:
    """Text between marks. White space next to a mark is not part of it.

    Args:
        at_mark: a mark stands before it.
    """

    def __init__(self, at_mark: bool = False) -> None:
        self._at_mark = at_mark
        self._white: list[str] = []  # seen, and part of the stretch unless a mark follows

    def add(self, text: str) -> str:
        """Add text; return what is certain to be part of the stretch."""
        if self._at_mark:
            text = text.lstrip(WHITE)
            if not text:
                return ""
            self._at_mark = False
        kept = text.rstrip(WHITE)
        white = text[len(kept) :]
        if kept:
            kept = "".join((*self._white, kept))
            self._white.clear()
        if white:
            self._white.append(white)
        return kept

    def mark(self) -> None:
        """A mark stands here."""
        self._white.clear()
        self._at_mark = True

    def rest(self) -> str:
        """Return the white space that no mark followed; what comes next is no mark."""
        white = "".join(self._white)
        self._white.clear()
        self._at_mark = False
        return white
