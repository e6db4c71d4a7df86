"""Wire models of the gateway: what a request may hold, and OpenAI's error shape. Light: no torch.

A field that is not listed is refused by name; a null there is the same as its absence. Options this
gateway does not offer are accepted in the value that means "off" (``presence_penalty: 0``), which
many clients send unasked, and refused in any other.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from .errors import RequestRefused
from .types import checked_temperature

DEFAULT_MAX_TOKENS = 1024
MOST_TOP_LOGPROBS = 20
SEED_RANGE = 1 << 63

Temperature = Annotated[float, Field(ge=0, le=2), AfterValidator(checked_temperature)]
Name = Annotated[str, Field(min_length=1, max_length=256)]


class Wire(BaseModel):
    """Unknown fields are errors unless null."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {name: value for name, value in data.items() if value is not None}
        return data


class TextPart(Wire):
    """A part of a message's content."""

    type: Literal["text"]
    text: str


class FunctionCall(Wire):
    """What a call says.

    Attributes:
        arguments: JSON text as the client holds it, valid or not.
    """

    name: Name
    arguments: str = "{}"


class ToolCallMessage(Wire):
    """A call in an assistant's message; ``index`` is what clients keep of a stream."""

    id: str = ""
    type: Literal["function"] = "function"
    function: FunctionCall
    index: int | None = None


class ChatMessage(Wire):
    """One message. Images are not part of this version.

    Attributes:
        reasoning_content: thoughts a client sends back; the recorded tokens hold them already.
    """

    role: Literal["system", "user", "assistant", "developer", "tool"]
    content: str | list[TextPart] = ""
    tool_calls: list[ToolCallMessage] = Field(default_factory=list)
    tool_call_id: str | None = None
    name: str | None = None
    reasoning_content: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, data: Any) -> Any:
        """Clients echo a reply with fields of theirs; empty ones mean nothing."""
        if isinstance(data, dict):
            empty = ("tool_calls", "annotations", "function_call", "audio", "refusal")
            return {n: v for n, v in data.items() if not (n in empty and not v)}
        return data

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
        said = self.text + "".join(call.function.arguments for call in self.tool_calls)
        return len(said.encode(errors="surrogatepass"))

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


class Function(Wire):
    """A function the model may call; ``parameters`` is a JSON schema."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: Literal[False] = False


class Tool(Wire):
    """OpenAI's wrapping of a function."""

    type: Literal["function"]
    function: Function


class NamedFunction(Wire):
    """The function a client insists on."""

    name: str


class NamedTool(Wire):
    """``tool_choice`` that names a function."""

    type: Literal["function"]
    function: NamedFunction


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


class StreamOptions(Wire):
    """Options of a streamed reply."""

    include_usage: bool = False
    include_obfuscation: Literal[False] = False


class SamplingFields(Wire):
    """What chat and text completions have in common."""

    model: str = "default"
    temperature: Temperature = 1.0
    top_p: float = Field(1.0, gt=0, le=1)
    seed: int | None = Field(None, ge=-SEED_RANGE, lt=SEED_RANGE)
    stop: str | list[str] | None = None
    n: int = Field(1, ge=1, le=128)
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    return_token_ids: bool = False
    # off is all that is offered of these
    frequency_penalty: Annotated[float, Field(ge=0, le=0)] = 0.0
    presence_penalty: Annotated[float, Field(ge=0, le=0)] = 0.0
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _options_of_a_stream(self) -> "SamplingFields":
        if self.stream_options is not None and not self.stream:
            raise RequestRefused("stream_options needs stream: true", field="stream_options")
        return self

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """Stop strings as a tuple without empty ones."""
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(string for string in given if string)

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with token counts."""
        return self.stream_options is not None and self.stream_options.include_usage


class ChatRequest(SamplingFields):
    """``POST /v1/chat/completions``.

    The reply ends with ``length`` where the context ends, whatever ``max_tokens`` says; a prompt
    that fills the context is refused. Extensions: ``return_token_ids`` (what a learner needs) and
    ``chat_template_kwargs`` (such as ``{"enable_thinking": false}``).
    """

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=MOST_TOP_LOGPROBS)
    tools: Annotated[list[Tool], Field(max_length=512)] = Field(default_factory=list)
    tool_choice: Literal["none", "auto", "required"] | NamedTool = "auto"
    parallel_tool_calls: bool = True
    response_format: ResponseFormat | None = None
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, str] = Field(default_factory=dict)
    store: bool = False
    service_tier: Literal["auto", "default"] = "auto"
    modalities: tuple[Literal["text"], ...] = ("text",)

    @field_validator("tool_choice", mode="before")
    @classmethod
    def _known_choice(cls, value: Any) -> Any:
        if isinstance(value, str) and value not in ("none", "auto", "required"):
            raise RequestRefused(
                f"tool_choice is none, auto, required or a function, not {value!r}",
                field="tool_choice",
            )
        return value

    @model_validator(mode="after")
    def _options_agree(self) -> "ChatRequest":
        if self.top_logprobs and not self.logprobs:
            raise RequestRefused("top_logprobs needs logprobs: true", field="top_logprobs")
        names = [tool.function.name for tool in self.tools]
        if len(set(names)) < len(names):
            raise RequestRefused("two tools have one name", field="tools")
        if isinstance(self.tool_choice, NamedTool):
            if self.tool_choice.function.name not in names:
                raise RequestRefused(
                    f"tool_choice names {self.tool_choice.function.name!r}, which tools lack",
                    field="tool_choice",
                )
        elif self.tool_choice == "required" and not names:
            raise RequestRefused("tool_choice: required needs tools", field="tool_choice")
        if self.must_call and self.response_format and self.response_format.schema_text:
            raise RequestRefused(
                "a reply cannot be both a call and of a response_format", field="response_format"
            )
        return self

    @property
    def limit(self) -> int:
        """Most tokens of the reply."""
        return self.max_completion_tokens or self.max_tokens or DEFAULT_MAX_TOKENS

    @property
    def must_call(self) -> bool:
        """Whether the reply must be a call."""
        return self.tool_choice == "required" or isinstance(self.tool_choice, NamedTool)

    @property
    def forced_function(self) -> str | None:
        """The function that must be called, if one is named or there is only one."""
        if isinstance(self.tool_choice, NamedTool):
            return self.tool_choice.function.name
        return self.tools[0].function.name if len(self.tools) == 1 else None

    def plain_messages(self) -> list[dict[str, Any]]:
        """Messages as dicts, text parts joined."""
        return [message.plain() for message in self.messages]

    def plain_tools(self) -> list[dict[str, Any]]:
        """Tools as dicts; none when the client wants no call."""
        if self.tool_choice == "none":
            return []
        return [tool.model_dump(exclude={"function": {"strict"}}) for tool in self.tools]


class CompletionRequest(SamplingFields):
    """``POST /v1/completions``: text or token ids go on as they are, without a chat template.

    ``logprobs: 0`` lists the sampled tokens' log-probs, ``k`` also the ``k`` most probable ones.
    """

    prompt: (
        str
        | Annotated[list[int], Field(min_length=1)]
        | Annotated[list[str], Field(min_length=1, max_length=128)]
        | Annotated[list[list[int]], Field(min_length=1, max_length=128)]
    )
    max_tokens: int = Field(16, ge=1)
    logprobs: int | None = Field(None, ge=0, le=MOST_TOP_LOGPROBS)
    echo: Literal[False] = False
    best_of: Literal[1] = 1
    suffix: Literal[""] = ""

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts as a list."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        several = [prompt for prompt in self.prompt if not isinstance(prompt, int)]
        return [*several] or [[token for token in self.prompt if isinstance(token, int)]]


class FeedbackRequest(Wire):
    """``POST /v1/feedback``: what a user thought of a reply.

    Attributes:
        id: of the response.
        choice: which of its ``n`` choices.
        rating: 1 good, -1 bad, 0 neither; "up" and "down" mean 1 and -1.
        correction: what should have been done, in words.
        edit: the reply as it should have read.
    """

    id: Name
    choice: int = Field(0, ge=0)
    rating: Literal[1, 0, -1, "up", "down"] | None = None
    correction: str | None = Field(None, min_length=1)
    edit: str | None = None
    comment: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "FeedbackRequest":
        if (self.rating, self.correction, self.edit, self.comment) == (None,) * 4:
            raise RequestRefused(
                "give a rating, a correction, an edit or a comment", field="rating"
            )
        return self

    @property
    def score(self) -> int | None:
        """The rating as a number."""
        if self.rating is None or isinstance(self.rating, int):
            return self.rating
        return 1 if self.rating == "up" else -1


class WeightsRequest(Wire):
    """``POST /admin/weights``."""

    path: str
    version: int = Field(ge=0)


class AdapterRequest(Wire):
    """``POST /admin/adapters``: load an adapter, or replace the one of that name."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.@-]{1,128}$")]
    path: str
    version: int = Field(ge=0)


class ScoreRequest(Wire):
    """``POST /admin/score``: log-probs of given tokens, ``n - 1`` numbers for ``n`` ids."""

    token_ids: Annotated[list[Annotated[list[int], Field(min_length=1)]], Field(min_length=1)]
    temperature: Temperature = 1.0


def refusal(error: ValidationError) -> RequestRefused:
    """Return the first fault of a body as an error naming the field and the remedy."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"]]
    field = ".".join(place) or None
    if first["type"] == "extra_forbidden":
        return RequestRefused(f"unsupported field {field!r}; remove it", field=field)
    if place[:1] in (["frequency_penalty"], ["presence_penalty"], ["logit_bias"], ["best_of"]):
        return RequestRefused(f"{field} is not offered: remove it or leave it off", field=field)
    return RequestRefused(f"{field or 'body'}: {first['msg']}", field=field)


def error_body(
    message: str, kind: str = "invalid_request_error", field: str | None = None, code: str = ""
) -> dict[str, Any]:
    """Return OpenAI's error shape."""
    return {"error": {"message": message, "type": kind, "param": field, "code": code or None}}
