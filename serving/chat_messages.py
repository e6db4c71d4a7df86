"""Wire models of a chat's messages and tools. Light: no torch.

What clients echo of a reply, ours or another vendor's, is dropped (``ECHOED``); ``cache_control``
is a hint that needs nothing, since prefixes are always cached.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, Tag, model_validator

from .errors import RequestRefused
from .wire import (
    ALLOWED,
    CHOICE_KINDS,
    CHOSEN,
    ONLY_TEXT,
    TEXT,
    FunctionName,
    Name,
    TextOr,
    Wire,
    without,
)

ECHOED = (
    "annotations",
    "audio",
    "id",
    "parsed",
    "phase",
    "provider_specific_fields",
    "reasoning",
    "reasoning_details",
    "refusal",
    "status",
    "thinking_blocks",
)
EMPTY = ("tool_calls", "annotations", "function_call", "audio", "refusal")
THOUGHTS = ("thinking", "redacted_thinking", "reasoning")


class TextPart(Wire):
    """A part of a message's content; ``cache_control`` is a hint."""

    type: Literal["text"]
    text: str
    cache_control: dict[str, Any] = Field(default_factory=dict)


class FunctionCall(Wire):
    """What a call says.

    Attributes:
        arguments: JSON text as the client holds it, valid or not.
        parsed_arguments: what an SDK adds to it; dropped.
    """

    name: Name
    arguments: str = "{}"
    parsed_arguments: Any = None


class ToolCallMessage(Wire):
    """A call in an assistant's message; ``index`` is what clients keep of a stream.

    ``provider_specific_fields`` and ``extra_content`` are other vendors'; dropped.
    """

    id: str = ""
    type: Literal["function"] = "function"
    function: FunctionCall
    index: int | None = None
    provider_specific_fields: Any = None
    extra_content: Any = None


class ChatMessage(Wire):
    """One message. Images are not part of this version.

    An assistant's ``refusal`` is what it said, if it said nothing else; its ``reasoning`` is
    another name for ``reasoning_content``.

    Attributes:
        reasoning_content: thoughts a client sends back; the recorded tokens hold them already.
        cache_control: a hint.
    """

    role: Literal["system", "user", "assistant", "developer", "tool"]
    content: TextOr[Annotated[TextPart, ONLY_TEXT]] = ""
    tool_calls: list[ToolCallMessage] = Field(default_factory=list)
    tool_call_id: str | None = None
    name: str | None = None
    reasoning_content: str | None = None
    cache_control: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _drop_echoes(cls, data: Any) -> Any:
        """Clients echo a reply with fields of theirs; empty ones mean nothing in any message."""
        if not isinstance(data, dict) or _is_bare(data):
            return data
        data = {n: v for n, v in data.items() if not (n in EMPTY and not v)}
        return _echoed(data) if data.get("role") == "assistant" else data

    @model_validator(mode="after")
    def _fields_of_the_role(self) -> "ChatMessage":
        if self.tool_calls and self.role != "assistant":
            raise RequestRefused("only an assistant's message has tool_calls", field="messages")
        if self.tool_call_id is not None and self.role != "tool":
            raise RequestRefused("only a tool's message has tool_call_id", field="messages")
        if self.name is not None and self.role in ("user", "assistant"):
            raise RequestRefused(
                "chat templates show no names of speakers: remove name, or write it into the text",
                field="messages.name",
            )
        return self

    @property
    def text(self) -> str:
        """Content, its parts joined."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)

    @property
    def size_bytes(self) -> int:
        """Length of what is said in UTF-8."""
        said = self.text
        if self.tool_calls:
            said += "".join(call.function.arguments for call in self.tool_calls)
        return len(said) if said.isascii() else len(said.encode(errors="surrogatepass"))

    def plain(self) -> dict[str, Any]:
        """Return the message as a dict without empty fields, text parts joined."""
        message: dict[str, Any] = {"role": self.role, "content": self.text}
        if self.tool_calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": call.function.name,
                        "arguments": call.function.arguments,
                    },
                }
                for call in self.tool_calls
            ]
        for field in ("tool_call_id", "name", "reasoning_content"):
            value = getattr(self, field)
            if value is not None:
                message[field] = value
        return message


def _is_bare(data: Mapping[str, Any]) -> bool:
    """Whether a message is a role and a text and nothing else, as most are."""
    return len(data) == 2 and isinstance(data.get("content"), str) and "role" in data


def _echoed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return an assistant's message without what was added to it."""
    kept = without(data, ECHOED)
    content, thought = kept.get("content"), data.get("reasoning")
    if isinstance(content, list):
        kept["content"] = [part for part in map(_said, content) if part is not None]
    if not content and not kept.get("tool_calls") and isinstance(data.get("refusal"), str):
        kept["content"] = data["refusal"]
    if isinstance(thought, str) and kept.get("reasoning_content") is None:
        kept["reasoning_content"] = thought
    return kept


def _said(part: Any) -> Any:
    """Return a part of an assistant's content as text, None for a thought."""
    if not isinstance(part, Mapping):
        return part
    if part.get("type") == "refusal":
        return {"type": "text", "text": part.get("refusal")}
    return None if part.get("type") in THOUGHTS else part


class Function(Wire):
    """A function the model may call; ``parameters`` is a JSON schema.

    ``strict`` is a hint: arguments are checked against the schema, sampling is not constrained.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool = False


class Tool(Wire):
    """OpenAI's wrapping of a function; ``cache_control`` is a hint."""

    type: Literal["function"]
    function: Function
    cache_control: dict[str, Any] = Field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Return what the model is shown."""
        return self.model_dump(
            include={"type": True, "function": {"name", "description", "parameters"}}
        )


class NamedTool(Wire):
    """``tool_choice`` that names a function."""

    type: Literal["function"]
    function: FunctionName


class AllowedTools(Wire):
    """Some of the tools on offer, and whether one of them must be called."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedTool], Field(min_length=1, max_length=512)]


class AllowedChoice(Wire):
    """``tool_choice`` that leaves only some tools on offer."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag(TEXT)]
    | Annotated[NamedTool, Tag(CHOSEN)]
    | Annotated[AllowedChoice, Tag(ALLOWED)],
    CHOICE_KINDS,
]


class JsonSchema(Wire):
    """A schema the reply must obey; ``strict`` or not, it is obeyed."""

    name: str = ""
    description: str = ""
    schema_: dict[str, Any] = Field(default_factory=dict, alias="schema")
    strict: bool = True


class ResponseFormat(Wire):
    """What a reply must look like."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    @model_validator(mode="after")
    def _has_its_schema(self) -> "ResponseFormat":
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise RequestRefused(
                "type json_schema goes with json_schema, no other type does",
                field="response_format",
            )
        return self

    @property
    def schema_text(self) -> str:
        """The schema as JSON text, or "" for free text."""
        if self.type == "text":
            return ""
        if self.json_schema is None:
            return '{"type": "object"}'
        return json.dumps(self.json_schema.schema_)
