"""What a Messages request is made of, and how it becomes OpenAI's messages and tools.

``cache_control`` needs nothing, since prefixes are always cached; ``redacted_thinking`` is dropped.
Left out: images, documents, server-side tools.
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from .errors import RequestRefused
from .wire import ONLY_TEXT, TextOr, Wire, kind_of

BILLING = "x-anthropic-billing-header:"  # begins a line that is another in every request
_OLD_USER_ID = re.compile(r"user_.*_session_(\S+)")


class CacheControl(Wire):
    """A hint where a prompt may be cached."""

    type: Literal["ephemeral"]
    ttl: str | None = None
    scope: str | None = None


class Block(Wire):
    """What blocks have in common."""

    cache_control: CacheControl | None = None


class TextBlock(Block):
    """Text; citations sent back are dropped."""

    type: Literal["text"]
    text: str
    citations: list[Any] = Field(default_factory=list)


class ToolUseBlock(Block):
    """A call the assistant made; ``caller``, sent back, is dropped."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any] = Field(default_factory=dict)
    caller: Any = None


class ToolResultBlock(Block):
    """What came of a call."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: TextOr[Annotated[TextBlock, ONLY_TEXT]] = ""
    is_error: bool = False


class ThinkingBlock(Block):
    """A thought sent back."""

    type: Literal["thinking"]
    thinking: str
    signature: str = ""


class RedactedBlock(Block):
    """A thought of another vendor's model that nobody can read."""

    type: Literal["redacted_thinking"]
    data: str = ""


BLOCKS = ("text", "tool_use", "tool_result", "thinking", "redacted_thinking")


def _block_kind(value: Any) -> str | None:
    kind = kind_of(value)
    return f"<{kind}>" if kind in BLOCKS else None


AnyBlock = Annotated[
    Annotated[TextBlock, Tag("<text>")]
    | Annotated[ToolUseBlock, Tag("<tool_use>")]
    | Annotated[ToolResultBlock, Tag("<tool_result>")]
    | Annotated[ThinkingBlock, Tag("<thinking>")]
    | Annotated[RedactedBlock, Tag("<redacted_thinking>")],
    Discriminator(
        _block_kind,
        custom_error_type="block",
        custom_error_message=f"must be a block of type {', '.join(BLOCKS)}",
    ),
    ONLY_TEXT,
]


class MessageParam(Wire):
    """One message."""

    role: Literal["user", "assistant", "system"]
    content: TextOr[AnyBlock]


class ToolParam(Block):
    """A function the model may call.

    Hints: ``strict`` (arguments are checked, not constrained), ``eager_input_streaming``,
    ``defer_loading`` (a tool is shown from the start) and ``input_examples``.
    """

    name: str
    description: str = ""
    input_schema: dict[str, Any]
    type: Literal["custom"] = "custom"
    strict: bool = False
    eager_input_streaming: bool = False
    defer_loading: bool = False
    input_examples: list[Any] = Field(default_factory=list)
    allowed_callers: list[Literal["direct"]] = Field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """Return the tool in OpenAI's shape."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.input_schema,
        }
        return {"type": "function", "function": function}


class ToolChoice(Wire):
    """Whether and what to call."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool = False

    def fields(self) -> dict[str, Any]:
        """Return the fields it stands for in OpenAI's shape."""
        fields: dict[str, Any] = {"parallel_tool_calls": not self.disable_parallel_tool_use}
        if self.type == "tool":
            if self.name is None:
                raise RequestRefused("tool_choice of type tool needs a name", field="tool_choice")
            function = {"type": "function", "function": {"name": self.name}}
            return fields | {"tool_choice": function}
        return fields | {"tool_choice": {"any": "required"}.get(self.type, self.type)}


class Metadata(Wire):
    """Whom a request is for.

    Claude Code writes its session into ``user_id``: as JSON with ``session_id``, before that as
    ``user_…_account_…_session_ID``.
    """

    user_id: str | None = None

    @property
    def session(self) -> str | None:
        """The session in ``user_id``, or None."""
        written = self._json
        if written is not None:
            session = written.get("session_id")
            return session if isinstance(session, str) and session else None
        found = _OLD_USER_ID.fullmatch(self.user_id or "")
        return found[1] if found else None

    @property
    def user(self) -> str:
        """The user's plain id, or ""."""
        is_plain = self._json is None and self.session is None
        return (self.user_id or "") if is_plain else ""

    @property
    def _json(self) -> Mapping[str, Any] | None:
        try:
            written = json.loads(self.user_id or "")
        except (ValueError, RecursionError):
            return None
        return written if isinstance(written, dict) else None


def messages_of(message: MessageParam, where: str) -> list[dict[str, Any]]:
    """Return one message as OpenAI's: tool results come first, each as a message of its own."""
    if isinstance(message.content, str):
        return [{"role": message.role, "content": message.content}]
    texts = [block.text for block in message.content if isinstance(block, TextBlock)]
    results = [block for block in message.content if isinstance(block, ToolResultBlock)]
    calls = [block for block in message.content if isinstance(block, ToolUseBlock)]
    thoughts = [block.thinking for block in message.content if isinstance(block, ThinkingBlock)]
    if message.role != "assistant":
        if calls or thoughts:
            raise RequestRefused(
                f"a {message.role}'s message has no calls nor thoughts", field=where
            )
        if results and message.role == "system":
            raise RequestRefused("a system's message has no tool results", field=where)
        is_said = bool(texts) or not results
        said = [{"role": message.role, "content": "".join(texts)}] if is_said else []
        return [*map(_result, results), *said]
    if results:
        raise RequestRefused("an assistant's message has no tool results", field=where)
    fields: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if calls:
        fields["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.input)},
            }
            for call in calls
        ]
    if thoughts:
        fields["reasoning_content"] = "".join(thoughts)
    return [fields]


def system_text(system: str | list[TextBlock]) -> str:
    """Return a system prompt without the line at its beginning that changes with every request:
    no turn could be gone on from with it."""
    texts = [system] if isinstance(system, str) else [block.text for block in system]
    if texts and texts[0].startswith(BILLING):
        texts[0] = texts[0].partition("\n")[2]
    return "".join(texts)


def text_of(content: str | list[TextBlock]) -> str:
    """Return the text of what is a text or a list of them."""
    return content if isinstance(content, str) else "".join(block.text for block in content)


def _result(block: ToolResultBlock) -> dict[str, Any]:
    content = text_of(block.content)
    if block.is_error and not content.lower().startswith("error"):
        content = f"Error: {content}"
    return {"role": "tool", "tool_call_id": block.tool_use_id, "content": content}
