"""Models whose template ignores tools (SmolLM): Hermes' way on one line, taught by the prompt.

<tool_call>{"name": "ls", "arguments": {"path": "/"}}</tool_call>
"""

from collections.abc import Sequence

from .hermes import CLOSE, OPEN, Hermes, listed, quoted
from .pieces import ToolCall
from .protocol import Tool


class Plain(Hermes):
    """See ``serving.formats.protocol.Format``. Reads what ``Hermes`` reads."""

    name = "plain"

    def instructions(self, tools: Sequence[Tool]) -> str:
        return (
            f"You can use these tools:\n{listed(tools)}\n"
            "To use one, write exactly\n"
            f'{OPEN}{{"name": "NAME", "arguments": {{"PARAMETER": "VALUE"}}}}{CLOSE}\n'
            "with the tool's name and its arguments as JSON. You may use several, each on a line "
            "of its own. You are then told what they returned. Without need of a tool, just answer."
        )

    def written_calls(self, calls: Sequence[ToolCall]) -> str:
        return "\n".join(
            f'{OPEN}{{"name": {quoted(call.name)}, "arguments": {call.arguments}}}{CLOSE}'
            for call in calls
        )

    def written_result(self, name: str, content: str) -> str:
        return f"{name or 'The tool'} returned:\n{content}"

    def forced_opening(self, function: str | None) -> str:
        if function is None:
            return f'{OPEN}{{"name": "'
        return f'{OPEN}{{"name": {quoted(function)}, "arguments": '
