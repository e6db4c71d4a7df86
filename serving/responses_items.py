"""What a Responses request is made of, and how it becomes OpenAI's chat messages and tools.

What clients echo of a response, ours or another vendor's, is dropped. Left out: images, files,
hosted tools, items by reference.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from .errors import RequestRefused
from .wire import ALLOWED, CHOICE_KINDS, CHOSEN, ONLY_TEXT, TEXT, TextOr, Wire, kind_of


class InputText(Wire):
    """Text of a message; annotations, log-probs and parsed values sent back are dropped."""

    type: Literal["input_text", "output_text", "text"]
    text: str
    annotations: list[Any] = Field(default_factory=list)
    logprobs: list[Any] = Field(default_factory=list)
    parsed: Any = None


class RefusalText(Wire):
    """What an assistant said to refuse."""

    type: Literal["refusal"]
    refusal: str

    @property
    def text(self) -> str:
        """It."""
        return self.refusal


def _part_kind(value: Any) -> str:
    return "<refusal>" if kind_of(value) == "refusal" else "<text>"


Part = Annotated[
    Annotated[InputText, Tag("<text>")] | Annotated[RefusalText, Tag("<refusal>")],
    Discriminator(_part_kind),
    ONLY_TEXT,
]


class InputMessage(Wire):
    """A message; ``phase`` is a hint."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: TextOr[Part]
    id: str | None = None
    status: str | None = None
    phase: str | None = None


class InputCall(Wire):
    """A call the assistant made; ``parsed_arguments``, an SDK's, is dropped."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    status: str | None = None
    parsed_arguments: Any = None


class InputResult(Wire):
    """What came of a call."""

    type: Literal["function_call_output"]
    call_id: str
    output: TextOr[Part]
    id: str | None = None
    status: str | None = None


class InputReasoning(Wire):
    """A thought sent back; the recorded tokens hold it already."""

    type: Literal["reasoning"]
    id: str | None = None
    summary: list[Any] = Field(default_factory=list)
    content: list[Any] = Field(default_factory=list)
    encrypted_content: str | None = None
    status: str | None = None

    @property
    def text(self) -> str:
        """The thought, as far as it can be read."""
        parts = (part.get("text") for part in self.content if isinstance(part, dict))
        return "".join(text for text in parts if isinstance(text, str))


ITEMS = ("message", "function_call", "function_call_output", "reasoning")


def _item_kind(value: Any) -> str | None:
    kind = kind_of(value) or "message"
    return f"<{kind}>" if kind in ITEMS else None


def _known_item(item: Any) -> Any:
    if kind_of(item) == "item_reference":
        raise PydanticCustomError(
            "item", "item_reference is not offered: send the item itself, or previous_response_id"
        )
    return item


Item = Annotated[
    Annotated[InputMessage, Tag("<message>")]
    | Annotated[InputCall, Tag("<function_call>")]
    | Annotated[InputResult, Tag("<function_call_output>")]
    | Annotated[InputReasoning, Tag("<reasoning>")],
    Discriminator(
        _item_kind,
        custom_error_type="item",
        custom_error_message=f"must be an item of type {', '.join(ITEMS)}",
    ),
    ONLY_TEXT,
    BeforeValidator(_known_item),
]


class FunctionTool(Wire):
    """A function the model may call.

    ``strict`` is a hint: arguments are checked against the schema, sampling is not constrained.
    """

    type: Literal["function"]
    name: str
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool = False

    def plain(self) -> dict[str, Any]:
        """Return the tool in chat's shape."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}


class ChosenFunction(Wire):
    """The function a client insists on."""

    type: Literal["function"]
    name: str

    def plain(self) -> dict[str, Any]:
        """Return it in chat's shape."""
        return {"type": "function", "function": {"name": self.name}}


class AllowedFunctions(Wire):
    """Some of the tools on offer, and whether one of them must be called."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[list[ChosenFunction], Field(min_length=1, max_length=512)]

    def plain(self) -> dict[str, Any]:
        """Return it in chat's shape."""
        allowed = {"mode": self.mode, "tools": [tool.plain() for tool in self.tools]}
        return {"type": "allowed_tools", "allowed_tools": allowed}


Choice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag(TEXT)]
    | Annotated[ChosenFunction, Tag(CHOSEN)]
    | Annotated[AllowedFunctions, Tag(ALLOWED)],
    CHOICE_KINDS,
]


class TextFormat(Wire):
    """What a reply must look like."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool = True

    def plain(self) -> dict[str, Any] | None:
        """Return it in chat's shape."""
        if self.type == "text":
            return None
        if self.type == "json_object":
            return {"type": "json_object"}
        schema = {"name": self.name or "reply", "schema": self.schema_ or {}}
        return {"type": "json_schema", "json_schema": schema}


class TextOptions(Wire):
    """Options of the reply's text; ``verbosity`` is a hint."""

    format: TextFormat = Field(default_factory=TextFormat)
    verbosity: Literal["low", "medium", "high"] = "medium"


class ReasoningOptions(Wire):
    """How to think: hints, all of them."""

    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None
    context: str | None = None


def messages_of(said: str | Sequence[Item]) -> list[dict[str, Any]]:
    """Return items as messages; an assistant's items with no other between make one message, as
    the reply they came from was one."""
    if isinstance(said, str):
        return [{"role": "user", "content": said}]
    messages: list[dict[str, Any]] = []
    thoughts = ""
    for item in said:
        if isinstance(item, InputReasoning):
            thoughts += item.text
            continue
        if isinstance(item, InputCall) or (
            isinstance(item, InputMessage) and item.role == "assistant"
        ):
            reply = _reply(messages)
            if thoughts:
                reply["reasoning_content"] = reply.get("reasoning_content", "") + thoughts
            _add(reply, item)
        elif isinstance(item, InputMessage):
            messages.append({"role": item.role, "content": _text(item.content)})
        else:
            content = _text(item.output)
            messages.append({"role": "tool", "tool_call_id": item.call_id, "content": content})
        thoughts = ""
    if not messages:
        raise RequestRefused("the input says nothing", field="input")
    return messages


def _reply(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the assistant's message at the end, put there if there is none."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})
    return messages[-1]


def _add(reply: dict[str, Any], item: InputMessage | InputCall) -> None:
    if isinstance(item, InputMessage):
        reply["content"] += _text(item.content)
        return
    function = {"name": item.name, "arguments": item.arguments}
    call = {"id": item.call_id, "type": "function", "function": function}
    reply.setdefault("tool_calls", []).append(call)


def _text(content: str | Sequence[InputText | RefusalText]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)
