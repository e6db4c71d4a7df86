"""Wire models of the gateway: what a request may hold, and OpenAI's error shape. Light: no torch.

A field that is not listed is refused by name; a null there is the same as its absence.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from .errors import RequestRefused
from .types import checked_temperature

DEFAULT_MAX_TOKENS = 1024

Temperature = Annotated[float, Field(ge=0, le=2), AfterValidator(checked_temperature)]


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


class ChatMessage(Wire):
    """One message. Tool calls and images are not part of this version."""

    role: Literal["system", "user", "assistant", "developer"]
    content: str | list[TextPart] = ""

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, data: Any) -> Any:
        """Clients echo a reply with fields of theirs; empty ones mean nothing."""
        if isinstance(data, dict):
            empty = ("tool_calls", "annotations", "function_call", "audio", "refusal")
            return {n: v for n, v in data.items() if not (n in empty and not v)}
        return data

    @property
    def text(self) -> str:
        """Content, its parts joined."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)

    @property
    def size_bytes(self) -> int:
        """Length of the content in UTF-8."""
        return len(self.text.encode(errors="surrogatepass"))


class StreamOptions(Wire):
    """Options of a streamed reply."""

    include_usage: bool = False


class ChatRequest(Wire):
    """``POST /v1/chat/completions``.

    The reply ends with ``length`` where the context ends, whatever ``max_tokens`` says; a prompt
    that fills the context is refused. ``return_token_ids`` is our extension.
    """

    model: str = "default"
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: Temperature = 1.0
    top_p: float = Field(1.0, gt=0, le=1)
    seed: int | None = None
    stop: str | list[str] | None = None
    n: int = Field(1, ge=1, le=128)
    stream: bool = False
    stream_options: StreamOptions | None = None
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=0)
    user: str | None = None
    return_token_ids: bool = False

    @model_validator(mode="after")
    def _options_of_a_stream(self) -> "ChatRequest":
        if self.stream_options is not None and not self.stream:
            raise RequestRefused("stream_options needs stream: true", field="stream_options")
        return self

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """Stop strings as a tuple without empty ones."""
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(string for string in given if string)

    @property
    def limit(self) -> int:
        """Most tokens of the reply."""
        return self.max_completion_tokens or self.max_tokens or DEFAULT_MAX_TOKENS

    def plain_messages(self) -> list[dict[str, Any]]:
        """Messages as dicts, text parts joined."""
        return [{"role": message.role, "content": message.text} for message in self.messages]


class WeightsRequest(Wire):
    """``POST /admin/weights``."""

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
    if place[:1] == ["top_logprobs"]:
        message = "only log-probs of the sampled tokens are given: top_logprobs must be 0"
        return RequestRefused(message, field=field)
    return RequestRefused(f"{field or 'body'}: {first['msg']}", field=field)


def error_body(
    message: str, kind: str = "invalid_request_error", field: str | None = None, code: str = ""
) -> dict[str, Any]:
    """Return OpenAI's error shape."""
    return {"error": {"message": message, "type": kind, "param": field, "code": code or None}}
