"""Llama 3: a JSON object with ``name`` and ``parameters``, behind ``<|python_tag|>`` or alone.

    {"name": "ls", "parameters": {"path": "/"}}; {"name": "pwd", "parameters": {}}

Without the tag it is a call only where the content begins with it and only of a function that is
offered, else content. Several are separated by ``;``. ``"type": "function"`` may come first.

Left out: the built-in tools, which are called in Python behind the tag.
"""

from collections.abc import Sequence

from .hermes import listed, quoted
from .jsontext import Malformed, call_of, object_of
from .pieces import ToolCall
from .protocol import Parser, Tool
from .reader import THINK, Reader
from .scans import Balanced, Scan

TAG = "<|python_tag|>"
KEYS = ("parameters", "arguments")
STARTS = ('{"name":', '{"type":"function","name":')  # of a call, white space aside
LOOKED_AT = 96  # characters that must suffice for a start


class LlamaScan:
    """One object. It ends at once before a character that cannot belong to a call.

    Args:
        mark: the tag, or the bracket or the semicolon that an untagged call starts with.
        offered: names of the functions.
    """

    def __init__(self, mark: str, offered: frozenset[str]) -> None:
        self._tagged = mark == TAG
        self._starts = ("{",) if self._tagged else STARTS
        self._seen = self._before = mark if mark == "{" else ""
        self._num_looked_at = 0
        self._offered = offered
        self._balanced = Balanced(depth=1)  # from the end of a start on

    def feed(self, text: str, at: int) -> tuple[int, bool]:
        while self._seen not in self._starts:
            if at == len(text):
                return at, False
            seen = self._seen + text[at].strip()
            self._num_looked_at += 1
            fits = any(start.startswith(seen) for start in self._starts)
            if not fits or self._num_looked_at > LOOKED_AT:
                return at, True
            self._seen = seen
            at += 1
        return self._balanced.feed(text, at)

    def read(self, body: str) -> list[ToolCall]:
        if self._seen not in self._starts:
            raise Malformed("no JSON object stands behind the mark" if self._tagged else "")
        members = object_of(self._before + body)
        if not self._tagged and not self._is_offered(members["name"].value, *members):
            raise Malformed
        return [call_of(members, *KEYS)]

    def first_end(self, body: str) -> int:
        return 0

    def _is_offered(self, name: object, *keys: str) -> bool:
        return isinstance(name, str) and name in self._offered and not {*KEYS}.isdisjoint(keys)


class LlamaSyntax:
    """See the module."""

    openings: tuple[str, ...] = (TAG,)
    first: tuple[str, ...] = ("{",)
    next: tuple[str, ...] = (";",)

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._offered = frozenset(str(tool["function"]["name"]) for tool in tools)

    def scan(self, mark: str, loose: bool) -> Scan:
        return LlamaScan(mark, self._offered)


class Llama3:
    """See ``serving.formats.protocol.Format``."""

    name = "llama3"
    kept_tokens = frozenset((TAG,)) | THINK.all

    def parser(self, tools: Sequence[Tool] = (), in_reasoning: bool = False) -> Parser:
        return Reader(THINK, LlamaSyntax(tools) if tools else None, in_reasoning)

    def instructions(self, tools: Sequence[Tool]) -> str:
        return (
            f"You have these functions:\n{listed(tools)}\n"
            "To call one, answer with nothing but a JSON object that holds its name and its "
            "parameters:\n"
            '{"name": "the function", "parameters": {"a parameter": "its value"}}\n'
            "Separate several calls by semicolons. If no function is needed, just answer."
        )

    def written_calls(self, calls: Sequence[ToolCall]) -> str:
        return "; ".join(
            f'{{"name": {quoted(call.name)}, "parameters": {call.arguments}}}' for call in calls
        )

    def written_result(self, name: str, content: str) -> str:
        return f"Result of {name or 'the function'}:\n{content}"

    def forced_opening(self, function: str | None) -> str:
        if function is None:
            return '{"name": "'
        return f'{{"name": {quoted(function)}, "parameters": '
