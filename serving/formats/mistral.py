"""Mistral: ``[TOOL_CALLS]`` and either an array of calls or, newer, a name and its arguments.

    [TOOL_CALLS] [{"name": "ls", "arguments": {"path": "/"}}, {"name": "pwd", "arguments": {}}]
    [TOOL_CALLS]ls[ARGS]{"path": "/"}[TOOL_CALLS]pwd[ARGS]{}

Both are read by both formats; they differ in what they write. ``[CALL_ID]`` and an id may stand
before ``[ARGS]``; the id is not kept.
"""

import re
from collections.abc import Sequence

from .hermes import listed, quoted
from .jsontext import MAX_NAME, Malformed, call_of, checked_name, object_of, objects_of
from .marks import WHITE
from .pieces import ToolCall
from .protocol import Parser, Tool
from .reader import THINK_MISTRAL, Reader
from .scans import Balanced, Scan

OPEN, ARGS, CALL_ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
KEYS = ("arguments", "parameters")
MAX_HEAD = MAX_NAME + 64  # a name, an id and marks
NEITHER = "neither an array of calls nor a name with its arguments"
_NAMED = re.compile(r"\s*([^\s\[\]]+)\s*(?:\[CALL_ID\][^\s\[\]]*\s*)?(?:\[ARGS\]\s*)?")


class MistralScan:
    """One array, or one name with its arguments. A head that leads to no JSON ends it at once."""

    def __init__(self) -> None:
        self._head = ""  # what stands before the JSON
        self._in_json = False
        self._balanced = Balanced()

    def feed(self, text: str, at: int) -> tuple[int, bool]:
        while not self._in_json:
            if at == len(text):
                return at, False
            self._in_json = self._opens(text[at])
            if not self._in_json:
                if not self._goes_on(text[at]):
                    return at, True
                self._head += text[at]
                at += 1
        return self._balanced.feed(text, at)

    def read(self, body: str) -> list[ToolCall]:
        if not self._in_json:
            raise Malformed(NEITHER)
        json = body[len(self._head) :]
        if not self._head.strip():
            return [call_of(members, *KEYS) for members in objects_of(json)]
        found = _NAMED.fullmatch(self._head)
        if not found:
            raise Malformed(NEITHER)
        object_of(json)
        return [ToolCall(checked_name(found[1]), json.strip())]

    def first_end(self, body: str) -> int:
        return 0

    def _opens(self, character: str) -> bool:
        """Whether the JSON opens here. Square brackets behind a name are those of a mark."""
        return character == "{" or (character == "[" and not self._head.strip())

    def _goes_on(self, character: str) -> bool:
        """Whether the head may go on with this character."""
        if len(self._head) == MAX_HEAD:
            return False
        word_ended = bool(self._head.strip()) and self._head[-1] in WHITE
        return not word_ended or character in WHITE or character == "["


class MistralSyntax:
    """See the module."""

    openings: tuple[str, ...] = (OPEN,)
    first: tuple[str, ...] = ()
    next: tuple[str, ...] = ()

    def scan(self, mark: str, loose: bool) -> Scan:
        return MistralScan()


class Mistral:
    """Writes arrays. See ``serving.formats.protocol.Format``."""

    name = "mistral"
    kept_tokens = frozenset((OPEN, ARGS, CALL_ID)) | THINK_MISTRAL.all

    def parser(self, tools: Sequence[Tool] = (), in_reasoning: bool = False) -> Parser:
        return Reader(THINK_MISTRAL, MistralSyntax() if tools else None, in_reasoning)

    def instructions(self, tools: Sequence[Tool]) -> str:
        example = self.written_calls([ToolCall("the function", '{"a parameter": "its value"}')])
        return (
            f"You may call these functions:\n{listed(tools)}\n"
            f"To call one, or several at once, write like this:\n{example}"
        )

    def written_calls(self, calls: Sequence[ToolCall]) -> str:
        objects = [
            f'{{"name": {quoted(call.name)}, "arguments": {call.arguments}}}' for call in calls
        ]
        return f"{OPEN} [{', '.join(objects)}]"

    def written_result(self, name: str, content: str) -> str:
        return f"[TOOL_RESULTS] {content} [/TOOL_RESULTS]"

    def forced_opening(self, function: str | None) -> str:
        if function is None:
            return f'{OPEN} [{{"name": "'
        return f'{OPEN} [{{"name": {quoted(function)}, "arguments": '


class MistralArgs(Mistral):
    """Writes names with ``[ARGS]``. See ``serving.formats.protocol.Format``."""

    name = "mistral_args"

    def written_calls(self, calls: Sequence[ToolCall]) -> str:
        return "".join(f"{OPEN}{call.name}{ARGS}{call.arguments}" for call in calls)

    def forced_opening(self, function: str | None) -> str:
        return OPEN if function is None else f"{OPEN}{function}{ARGS}"
