"""OpenAI's Responses in front of the same gateway: the part of it that agents use.

A request becomes a ``ChatRequest``. ``previous_response_id`` goes on from a recorded reply; its
``instructions`` are not carried over, as documented by OpenAI. Left out: images, files, hosted
tools, background mode, stored items by reference.
"""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from .errors import RequestRefused
from .formats.pieces import Content, Reasoning
from .gateway import Gateway
from .ids import new_id
from .jobs import Job
from .protocol import ChatRequest
from .reply import Answer
from .responses_items import (
    Choice,
    FunctionTool,
    Item,
    ReasoningOptions,
    TextOptions,
    messages_of,
)
from .sessions import SessionStore
from .streaming import End, Progress, sample
from .wire import ONLY_FUNCTIONS, Temperature, TextOr, Wire

INSTRUCTIONS = "instructions"  # name of the system message they become
ENCRYPTED = "reasoning.encrypted_content"


def _known_extra(name: Any) -> Any:
    if isinstance(name, str) and name != ENCRYPTED:
        raise PydanticCustomError("include", "{name} is not offered", {"name": name})
    return name


class StreamOptions(Wire):
    """Options of a stream: a hint."""

    include_obfuscation: bool = False


class ResponsesRequest(Wire):
    """``POST /v1/responses``.

    Hints without effect: ``reasoning``, ``text.verbosity``, ``phase``, ``prompt_cache_key``,
    ``prompt_cache_retention``, ``safety_identifier``, ``service_tier``, ``client_metadata``,
    ``stream_options``, a function's ``strict``, and ``include`` of encrypted thoughts (ours come
    in plain text). ``truncation: auto`` is as ``disabled``: a prompt too long is refused rather
    than cut, and no other is changed by either.
    """

    model: str = "default"
    input: TextOr[Item]
    instructions: str | None = None
    previous_response_id: str | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    temperature: Temperature = 1.0
    top_p: float = Field(1.0, gt=0, le=1)
    top_logprobs: Annotated[int, Field(ge=0, le=0)] = 0
    tools: list[Annotated[FunctionTool, ONLY_FUNCTIONS]] = Field(default_factory=list)
    tool_choice: Choice = "auto"
    parallel_tool_calls: bool = True
    text: TextOptions = Field(default_factory=TextOptions)
    reasoning: ReasoningOptions | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    store: bool = True
    truncation: Literal["auto", "disabled"] = "disabled"
    background: Literal[False] = False
    include: list[Annotated[str, BeforeValidator(_known_extra)]] = Field(default_factory=list)
    metadata: dict[str, str] = Field(default_factory=dict)
    client_metadata: dict[str, Any] = Field(default_factory=dict)
    user: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None

    @property
    def session_hint(self) -> str | None:
        """The session named in ``metadata.session_id``, or None."""
        return self.metadata.get("session_id")

    @property
    def keeps(self) -> bool:
        """Whether ``previous_response_id`` may go on from the reply."""
        return self.store


def chat(sessions: SessionStore, owner: str, body: ResponsesRequest) -> ChatRequest:
    """Return the same request in OpenAI's chat shape.

    Raises:
        RequestRefused: the previous response is not kept, or what that shape does not know.
    """
    messages: list[Mapping[str, Any]] = []
    if body.instructions is not None:
        content = body.instructions
        messages.append({"role": "system", "content": content, "name": INSTRUCTIONS})
    if body.previous_response_id is not None:
        earlier = sessions.conversation(owner, body.previous_response_id)
        if earlier is None:
            raise RequestRefused(
                f"no response {body.previous_response_id!r} of yours is kept; send the whole input",
                status=404,
                field="previous_response_id",
            )
        messages += [said for said in earlier if said.get("name") != INSTRUCTIONS]
    messages += messages_of(body.input)
    choice = body.tool_choice
    fields: dict[str, Any] = {
        "model": body.model,
        "messages": messages,
        "max_completion_tokens": body.max_output_tokens,
        "temperature": body.temperature,
        "top_p": body.top_p,
        "parallel_tool_calls": body.parallel_tool_calls,
        "tool_choice": choice if isinstance(choice, str) else choice.plain(),
        "tools": [tool.plain() for tool in body.tools],
        "response_format": body.text.format.plain(),
    }
    try:
        return ChatRequest.model_validate(fields)
    except RequestRefused as error:
        if error.field != "response_format":
            raise
        message = error.message.replace("response_format", "text.format")
        raise RequestRefused(message, field="text.format") from error


def response(body: ResponsesRequest, job: Job, answer: Answer) -> dict[str, Any]:
    """Return a whole reply."""
    output: list[dict[str, Any]] = []
    if answer.parsed.reasoning:
        output.append(_reasoning_item(_new("rs_"), answer.parsed.reasoning))
    if answer.parsed.content or not answer.tool_calls:
        output.append(_message_item(_new("msg_"), answer.parsed.content))
    output += [_call_item(_new("fc_"), call) for call in answer.tool_calls]
    return _body(body, job, output, answer)


async def events(gateway: Gateway, body: ResponsesRequest, job: Job) -> AsyncGenerator[bytes, None]:
    """Yield the server-sent events of a streamed reply.

    Raises:
        ContextOverflow: before the first event.
        EngineError: the engine failed.
    """
    items = _Items()
    async with aclosing(sample(gateway, job)) as news:
        async for event in news:
            if isinstance(event, End):
                for sent in items.close(at_end=True):
                    yield sent
                whole = _body(body, job, items.output, event.answer)
                yield items.event(f"response.{whole['status']}", response=whole)
                continue
            if event.token is None and not event.pieces:
                begun = _body(body, job, [], None)
                yield items.event("response.created", response=begun)
                yield items.event("response.in_progress", response=begun)
            for sent in items.add(event):
                yield sent


class _Items:
    """Output items of a stream: opened, added to and closed in order.

    Attributes:
        output: complete items.
    """

    def __init__(self) -> None:
        self.output: list[dict[str, Any]] = []
        self._number = 0
        self._kind = ""  # of the open item
        self._id = ""
        self._text: list[str] = []

    def event(self, kind: str, **fields: Any) -> bytes:
        """Return one numbered event."""
        body = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return f"event: {kind}\ndata: {json.dumps(body, ensure_ascii=False)}\n\n".encode()

    def add(self, event: Progress) -> list[bytes]:
        """Return the events of some news."""
        sent: list[bytes] = []
        calls = iter(event.calls)
        for piece in event.pieces:
            if isinstance(piece, Content):
                sent += self._said("message", piece.text)
            elif isinstance(piece, Reasoning):
                sent += self._said("reasoning", piece.text)
            elif (call := next(calls, None)) is not None:
                sent += self.close() + self._called(call)
        return sent

    def close(self, at_end: bool = False) -> list[bytes]:
        """Return the events that end the open item; an empty reply has an empty message."""
        sent: list[bytes] = []
        if at_end and not self.output and not self._kind:
            sent += self._said("message", "")
        if not self._kind:
            return sent
        text, place = "".join(self._text), self._place()
        if self._kind == "message":
            item = _message_item(self._id, text)
            part = item["content"][0]
            sent.append(self.event("response.output_text.done", **place, text=text, logprobs=[]))
            sent.append(self.event("response.content_part.done", **place, part=part))
        else:
            item = _reasoning_item(self._id, text)
            sent.append(self.event("response.reasoning_text.done", **place, text=text))
        sent.append(self._item_event("done", item))
        self.output.append(item)
        self._kind, self._text = "", []
        return sent

    def _said(self, kind: str, text: str) -> list[bytes]:
        sent: list[bytes] = []
        if self._kind != kind:
            sent += self.close()
            self._kind = kind
            self._id = _new("msg_" if kind == "message" else "rs_")
            make = _message_item if kind == "message" else _reasoning_item
            item = make(self._id, "") | {"status": "in_progress", "content": []}
            sent.append(self._item_event("added", item))
            if kind == "message":
                part = _message_item(self._id, "")["content"][0]
                sent.append(self.event("response.content_part.added", **self._place(), part=part))
        self._text.append(text)
        if text:
            delta = "output_text" if kind == "message" else "reasoning_text"
            extra: dict[str, Any] = {"logprobs": []} if kind == "message" else {}
            name = f"response.{delta}.delta"
            sent.append(self.event(name, **self._place(), delta=text, **extra))
        return sent

    def _called(self, call: Mapping[str, Any]) -> list[bytes]:
        item = _call_item(_new("fc_"), call)
        begun = item | {"status": "in_progress", "arguments": ""}
        place = {"item_id": item["id"], "output_index": len(self.output)}
        arguments = item["arguments"]
        name = "response.function_call_arguments"
        sent = [
            self._item_event("added", begun),
            self.event(f"{name}.delta", **place, delta=arguments),
            self.event(f"{name}.done", **place, name=item["name"], arguments=arguments),
            self._item_event("done", item),
        ]
        self.output.append(item)
        return sent

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._id, "output_index": len(self.output), "content_index": 0}

    def _item_event(self, what: str, item: Mapping[str, Any]) -> bytes:
        index = len(self.output)
        return self.event(f"response.output_item.{what}", output_index=index, item=item)


def error_event(body: Mapping[str, Any]) -> bytes:
    """Return a fault in mid-stream as an event."""
    error = body["error"]
    fields = {
        "type": "error",
        "code": error["code"] or error["type"],
        "message": error["message"],
        "param": error["param"],
        "sequence_number": 0,
    }
    return f"event: error\ndata: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()


def _new(prefix: str) -> str:
    return f"{prefix}{new_id()}"


def _message_item(item_id: str, text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "type": "message",
        "id": item_id,
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def _reasoning_item(item_id: str, text: str) -> dict[str, Any]:
    content = [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "id": item_id, "summary": [], "content": content}


def _call_item(item_id: str, call: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": item_id,
        "call_id": call["id"],
        "status": "completed",
        "name": call["function"]["name"],
        "arguments": call["function"]["arguments"],
    }


def _body(
    body: ResponsesRequest, job: Job, output: list[dict[str, Any]], answer: Answer | None
) -> dict[str, Any]:
    cut = answer is not None and answer.ending == "length"
    status = "in_progress" if answer is None else "incomplete" if cut else "completed"
    asked = body.model_dump(by_alias=True, exclude_none=True)
    return {
        "id": job.id,
        "object": "response",
        "created_at": job.created,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "model": body.model,
        "output": list(output),
        "parallel_tool_calls": body.parallel_tool_calls,
        "previous_response_id": body.previous_response_id,
        "temperature": body.temperature,
        "top_p": body.top_p,
        "tool_choice": asked["tool_choice"],
        "tools": asked["tools"],
        "text": asked["text"],
        "truncation": body.truncation,
        "usage": None if answer is None else _usage(job, answer),
        "metadata": body.metadata,
        "user": body.user,
    }


def _usage(job: Job, answer: Answer) -> dict[str, Any]:
    """Return token counts; how many were thoughts is only known where there are none."""
    prompt, sampled = len(job.prompt.ids_P), len(answer.generation.token_ids_T)
    details = {} if answer.parsed.reasoning else {"reasoning_tokens": 0}
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": answer.generation.num_cached},
        "output_tokens": sampled,
        **({"output_tokens_details": details} if details else {}),
        "total_tokens": prompt + sampled,
    }
