"""Hermes, Qwen2.5 and Qwen3: a JSON object between ``<tool_call>`` and ``</tool_call>``.

    <tool_call>
    {"name": "ls", "arguments": {"path": "/"}}
    </tool_call>

Several calls stand one behind the other. A call at the very end may lack its end mark.
"""

import json
from collections.abc import Sequence

from .pieces import ToolCall
from .protocol import Parser, Tool
from .reader import THINK, Reader
from .scans import ClosedJson, Scan

OPEN, CLOSE = "<tool_call>", "</tool_call>"
KEYS = ("arguments", "parameters")


class HermesSyntax:
    """See the module."""

    openings: tuple[str, ...] = (OPEN,)
    first: tuple[str, ...] = ()
    next: tuple[str, ...] = ()

    def scan(self, mark: str, loose: bool) -> Scan:
        return ClosedJson(CLOSE, KEYS, loose)


class Hermes:
    """See ``serving.formats.protocol.Format``."""

    name = "hermes"
    kept_tokens = frozenset((OPEN, CLOSE)) | THINK.all

    def parser(self, tools: Sequence[Tool] = (), in_reasoning: bool = False) -> Parser:
        return Reader(THINK, HermesSyntax() if tools else None, in_reasoning)

    def instructions(self, tools: Sequence[Tool]) -> str:
        return (
            "You can call functions. Each line between <tools> and </tools> describes one, its "
            f"parameters as a JSON schema:\n<tools>\n{listed(tools)}\n</tools>\n"
            "To call one, write a JSON object with its name and arguments between "
            f"{OPEN} and {CLOSE}:\n"
            f'{OPEN}\n{{"name": "the function", "arguments": {{"a parameter": "its value"}}}}\n'
            f"{CLOSE}\n"
            "Write one such block per call. The results come in the next message, between "
            "<tool_response> and </tool_response>."
        )

    def written_calls(self, calls: Sequence[ToolCall]) -> str:
        return "\n".join(
            f'{OPEN}\n{{"name": {quoted(call.name)}, "arguments": {call.arguments}}}\n{CLOSE}'
            for call in calls
        )

    def written_result(self, name: str, content: str) -> str:
        return f"<tool_response>\n{content}\n</tool_response>"

    def forced_opening(self, function: str | None) -> str:
        if function is None:
            return f'{OPEN}\n{{"name": "'
        return f'{OPEN}\n{{"name": {quoted(function)}, "arguments": '


def listed(tools: Sequence[Tool]) -> str:
    """Return tools as JSON, one a line."""
    return "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)


def quoted(text: str) -> str:
    """Return a JSON string."""
    return json.dumps(text, ensure_ascii=False)
