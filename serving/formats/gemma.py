"""Gemma 3: no marks of its own for calls; a fenced block, taught by the prompt.

The model's makers document two conventions, both set by the prompt alone: a JSON object with
``name`` and ``parameters``, and a fence named ``tool_code``, answered by one named
``tool_output``. Here the JSON object stands in that fence, so that a call is told apart from JSON
or code meant for the user:

    ```tool_code
    {"name": "ls", "parameters": {"path": "/"}}
    ```

Left out: Python calls in the fence (``ls(path="/")``); they come back as content with a fault.
"""

from collections.abc import Sequence

from .hermes import listed, quoted
from .pieces import ToolCall
from .protocol import Parser, Tool
from .reader import THINK, Reader
from .scans import ClosedJson, Scan

OPEN, CLOSE = "```tool_code", "```"
KEYS = ("parameters", "arguments")


class GemmaSyntax:
    """See the module."""

    openings: tuple[str, ...] = (OPEN,)
    first: tuple[str, ...] = ()
    next: tuple[str, ...] = ()

    def scan(self, mark: str, loose: bool) -> Scan:
        return ClosedJson(CLOSE, KEYS, loose)


class Gemma:
    """See ``serving.formats.protocol.Format``."""

    name = "gemma"
    kept_tokens = THINK.all

    def parser(self, tools: Sequence[Tool] = (), in_reasoning: bool = False) -> Parser:
        return Reader(THINK, GemmaSyntax() if tools else None, in_reasoning)

    def instructions(self, tools: Sequence[Tool]) -> str:
        return (
            f"These functions are at your disposal:\n{listed(tools)}\n"
            "To call one, write a fenced block named tool_code that holds a JSON object with the "
            "function's name and its parameters, and nothing else:\n"
            f'{OPEN}\n{{"name": "the function", "parameters": {{"a parameter": "its value"}}}}\n'
            f"{CLOSE}\n"
            "Write one block per call. Each result comes back in a block named tool_output."
        )

    def written_calls(self, calls: Sequence[ToolCall]) -> str:
        return "\n".join(
            f'{OPEN}\n{{"name": {quoted(call.name)}, "parameters": {call.arguments}}}\n{CLOSE}'
            for call in calls
        )

    def written_result(self, name: str, content: str) -> str:
        return f"```tool_output\n{content}\n```"

    def forced_opening(self, function: str | None) -> str:
        if function is None:
            return f'{OPEN}\n{{"name": "'
        return f'{OPEN}\n{{"name": {quoted(function)}, "parameters": '
