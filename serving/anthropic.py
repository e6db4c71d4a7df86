"""Anthropic's Messages in front of the same gateway: requests, replies, events, errors.

A request becomes a ``ChatRequest``; tool results become tool messages, thoughts are kept where they
were sampled. Left out: images, documents, prefilled replies, server-side tools.
"""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from .anthropic_blocks import (
    CacheControl,
    MessageParam,
    Metadata,
    TextBlock,
    ToolChoice,
    ToolParam,
    messages_of,
    system_text,
)
from .errors import RequestRefused
from .formats.pieces import Content, Reasoning
from .gateway import Gateway
from .jobs import Job
from .protocol import ChatRequest
from .reply import Answer
from .streaming import End, Progress, sample
from .types import checked_temperature
from .wire import ONLY_TEXT, StopStrings, TextOr, Wire, only_functions

STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "cancelled": "end_turn",
}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


class Thinking(Wire):
    """Whether to think before the reply, for templates that can tell a model so.

    ``budget_tokens`` and ``display`` are hints: how long is the model's own choice, and thoughts
    are always shown.
    """

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = None
    display: Literal["summarized", "omitted"] | None = None


class SchemaFormat(Wire):
    """A schema the reply must obey."""

    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class OutputConfig(Wire):
    """What a reply must look like; ``effort`` and ``task_budget`` are hints."""

    effort: str | None = None
    format: SchemaFormat | None = None
    task_budget: Any = None


class CountRequest(Wire):
    """``POST /v1/messages/count_tokens``.

    Hints without effect: ``cache_control`` wherever it stands, ``context_management`` (a client
    that wants less context sends less), ``inference_geo``, ``service_tier`` and ``speed``.
    """

    model: str
    messages: Annotated[list[MessageParam], Field(min_length=1)]
    system: TextOr[Annotated[TextBlock, ONLY_TEXT]] = ""
    tools: list[Annotated[ToolParam, only_functions("custom")]] = Field(default_factory=list)
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    context_management: dict[str, Any] = Field(default_factory=dict)
    cache_control: CacheControl | None = None
    mcp_servers: Annotated[list[Any], Field(max_length=0)] = Field(default_factory=list)
    service_tier: str | None = None
    inference_geo: str | None = None
    speed: str | None = None

    def chat(self) -> ChatRequest:
        """Return the same request in OpenAI's shape.

        Raises:
            RequestRefused: what that shape does not know; names the field.
        """
        try:
            chat = ChatRequest.model_validate(self._fields())
        except RequestRefused as error:
            if error.field != "response_format":
                raise
            message = error.message.replace("response_format", "output_config.format")
            raise RequestRefused(message, field="output_config.format") from error
        if self.thinking is None:
            return chat
        return chat.with_hints({"enable_thinking": self.thinking.type != "disabled"})

    def _fields(self) -> dict[str, Any]:
        messages: list[dict[str, Any]] = []
        if system := system_text(self.system):
            messages.append({"role": "system", "content": system})
        for index, message in enumerate(self.messages):
            messages += messages_of(message, f"messages.{index}")
        if self.messages[-1].role == "assistant":
            raise RequestRefused(
                "the last message must be the user's: prefilled replies are not offered",
                field="messages",
            )
        fields: dict[str, Any] = {"model": self.model, "messages": messages}
        if self.tools:
            fields["tools"] = [tool.plain() for tool in self.tools]
        if self.tool_choice is not None:
            fields |= self.tool_choice.fields()
        if self.output_config is not None and self.output_config.format is not None:
            schema = {"name": "reply", "schema": self.output_config.format.schema_}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        return fields


class MessagesRequest(CountRequest):
    """``POST /v1/messages``; hints as for ``CountRequest``."""

    max_tokens: int = Field(ge=1)
    temperature: float = Field(1.0, ge=0, le=1)
    top_p: float = Field(1.0, gt=0, le=1)
    stop_sequences: StopStrings = Field(default_factory=list)
    stream: bool = False
    metadata: Metadata | None = None

    @model_validator(mode="after")
    def _temperature_in_range(self) -> "MessagesRequest":
        checked_temperature(self.temperature)
        return self

    @property
    def user(self) -> str:
        """Whom the request is for, or ""."""
        return self.metadata.user if self.metadata else ""

    @property
    def session_hint(self) -> str | None:
        """The session some clients write into ``metadata.user_id``, or None."""
        return self.metadata.session if self.metadata else None

    def _fields(self) -> dict[str, Any]:
        return super()._fields() | {
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "stop": [string for string in self.stop_sequences if string] or None,
        }


def message(body: MessagesRequest, job: Job, answer: Answer) -> dict[str, Any]:
    """Return a whole reply."""
    content: list[dict[str, Any]] = []
    if answer.parsed.reasoning:
        thought = answer.parsed.reasoning
        content.append({"type": "thinking", "thinking": thought, "signature": ""})
    if answer.parsed.content or not answer.tool_calls:
        content.append({"type": "text", "text": answer.parsed.content})
    for call in answer.tool_calls:
        arguments = json.loads(call["function"]["arguments"])
        content.append({**_tool_use(call), "input": arguments})
    return _envelope(body, job) | {
        "content": content,
        "stop_reason": _stop_reason(answer),
        "stop_sequence": answer.stopped_by or None,
        "usage": _usage(job, answer),
    }


async def events(gateway: Gateway, body: MessagesRequest, job: Job) -> AsyncGenerator[bytes, None]:
    """Yield the server-sent events of a streamed reply.

    Raises:
        ContextOverflow: before the first event.
        EngineError: the engine failed.
    """
    blocks = _Blocks()
    async with aclosing(sample(gateway, job)) as news:
        async for event in news:
            if isinstance(event, End):
                for block in blocks.close():
                    yield block
                yield _event(
                    "message_delta",
                    delta={
                        "stop_reason": _stop_reason(event.answer),
                        "stop_sequence": event.answer.stopped_by or None,
                    },
                    usage=_usage(job, event.answer),
                )
                continue
            if event.token is None and not event.pieces:
                usage = {"input_tokens": len(job.prompt.ids_P), "output_tokens": 0}
                start = _envelope(body, job) | {"content": [], "usage": usage}
                yield _event(
                    "message_start", message=start | {"stop_reason": None, "stop_sequence": None}
                )
                yield _event("ping")
            for block in blocks.add(event):
                yield block
    yield _event("message_stop")


class _Blocks:
    """Content blocks of a stream: opened, added to and closed in order."""

    def __init__(self) -> None:
        self._index = -1
        self._open = ""

    def add(self, event: Progress) -> list[bytes]:
        """Return the events of some news."""
        sent: list[bytes] = []
        calls = iter(event.calls)
        for piece in event.pieces:
            if isinstance(piece, Content):
                sent += self._text("text", "text_delta", piece.text)
            elif isinstance(piece, Reasoning):
                sent += self._text("thinking", "thinking_delta", piece.text)
            elif (call := next(calls, None)) is not None:
                sent += self._call(call)
        return sent

    def close(self) -> list[bytes]:
        """Return the events that end the block being open; an empty reply has an empty block."""
        opened = [] if self._index >= 0 else self._text("text", "text_delta", "")
        closing = [_event("content_block_stop", index=self._index)] if self._open else []
        self._open = ""
        return opened + closing

    def _text(self, kind: str, delta: str, text: str) -> list[bytes]:
        field = delta.removesuffix("_delta")
        sent: list[bytes] = []
        if self._open != kind:
            empty = {"type": kind, field: ""} | ({"signature": ""} if kind == "thinking" else {})
            sent += self._start(kind, empty)
        change = {"type": delta, field: text}
        return [*sent, _event("content_block_delta", index=self._index, delta=change)]

    def _call(self, call: Mapping[str, Any]) -> list[bytes]:
        sent = self._start("tool_use", {**_tool_use(call), "input": {}})
        change = {"type": "input_json_delta", "partial_json": call["function"]["arguments"]}
        return [
            *sent,
            _event("content_block_delta", index=self._index, delta=change),
            *self.close(),
        ]

    def _start(self, kind: str, block: Mapping[str, Any]) -> list[bytes]:
        closing = self.close() if self._open else []
        self._index += 1
        self._open = kind
        start = _event("content_block_start", index=self._index, content_block=block)
        return [*closing, start]


def error_body(body: Mapping[str, Any], status: int) -> dict[str, Any]:
    """Return OpenAI's error body in Anthropic's shape."""
    kind = ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": body["error"]["message"]}}


def error_event(body: Mapping[str, Any]) -> bytes:
    """Return a fault in mid-stream as an event."""
    fields = error_body(body, 500)
    return f"event: error\ndata: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()


def _event(kind: str, **fields: Any) -> bytes:
    body = json.dumps({"type": kind, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {body}\n\n".encode()


def _envelope(body: MessagesRequest, job: Job) -> dict[str, Any]:
    return {"id": job.id, "type": "message", "role": "assistant", "model": body.model}


def _stop_reason(answer: Answer) -> str:
    return "stop_sequence" if answer.stopped_by else STOP_REASONS[answer.ending]


def _usage(job: Job, answer: Answer) -> dict[str, int]:
    cached = answer.generation.num_cached
    return {
        "input_tokens": len(job.prompt.ids_P) - cached,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": len(answer.generation.token_ids_T),
    }


def _tool_use(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call["id"], "name": call["function"]["name"]}
