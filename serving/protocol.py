"""Wire models of the gateway: what a request may hold, and OpenAI's error shape. Light: no torch.

A field that is not listed is refused by name; a null there is the same as its absence. Options this
gateway does not offer are accepted in the value that means "off" (``presence_penalty: 0``), which
many clients send unasked, and refused in any other. Pure hints (effort, verbosity, caching, ids for
the detection of abuse) are accepted and change nothing; each model's docstring lists its own.
"""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, PrivateAttr, Tag, model_validator

from .chat_messages import AllowedChoice, ChatMessage, NamedTool, ResponseFormat, Tool, ToolChoice
from .errors import RequestRefused
from .wire import (
    ONLY_FUNCTIONS,
    TEXT,
    Name,
    Stop,
    Temperature,
    Wire,
    error_body,
    refusal,
)

__all__ = [
    "AdapterRequest",
    "ChatRequest",
    "CompletionRequest",
    "FeedbackRequest",
    "QualityRequest",
    "SamplingFields",
    "ScoreRequest",
    "WeightsRequest",
    "Wire",
    "error_body",
    "refusal",
]

MOST_TOP_LOGPROBS = 20
SEED_RANGE = 1 << 63
MOST_VERSION = (1 << 31) - 1  # each token keeps its version in four bytes
MOST_EXACT = 1 << 53  # integers beyond it are no longer exact in a browser


class StreamOptions(Wire):
    """Options of a streamed reply; ``include_obfuscation`` is a hint."""

    include_usage: bool = False
    include_obfuscation: bool = False


class SamplingFields(Wire):
    """What chat and text completions have in common."""

    model: str = "default"
    temperature: Temperature = 1.0
    top_p: float = Field(1.0, gt=0, le=1)
    seed: int | None = Field(None, ge=-SEED_RANGE, lt=SEED_RANGE)
    stop: Stop | None = None
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

    Hints without effect: ``reasoning_effort``, ``verbosity``, ``prompt_cache_key``,
    ``prompt_cache_retention``, ``safety_identifier``, ``service_tier``, ``store`` and a function's
    ``strict``.
    """

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=MOST_TOP_LOGPROBS)
    tools: Annotated[list[Annotated[Tool, ONLY_FUNCTIONS]], Field(max_length=512)] = Field(
        default_factory=list
    )
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool = True
    response_format: ResponseFormat | None = None
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, str] = Field(default_factory=dict)
    store: bool = False
    service_tier: str = "auto"
    reasoning_effort: str | None = None
    verbosity: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    modalities: tuple[Literal["text"], ...] = ("text",)

    _template_hints: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _options_agree(self) -> "ChatRequest":
        if self.top_logprobs and not self.logprobs:
            raise RequestRefused("top_logprobs needs logprobs: true", field="top_logprobs")
        names = [tool.function.name for tool in self.tools]
        if len(set(names)) < len(names):
            raise RequestRefused("two tools have one name", field="tools")
        for name in self._chosen or ():
            if name not in names:
                raise RequestRefused(
                    f"tool_choice names {name!r}, which tools lack", field="tool_choice"
                )
        if self.tool_choice == "required" and not names:
            raise RequestRefused("tool_choice: required needs tools", field="tool_choice")
        is_free = self.response_format is None or not self.response_format.schema_text
        if names and self.parses_calls and not is_free:
            raise RequestRefused(
                "response_format: cannot be combined with tools, since a reply is not both a call "
                "and of a schema; leave one out, or send tool_choice: none",
                field="response_format",
            )
        return self

    def with_hints(self, hints: dict[str, Any]) -> "ChatRequest":
        """Return the request with ``template_hints``."""
        hinted = self.model_copy()
        hinted._template_hints = dict(hints)
        return hinted

    @property
    def template_hints(self) -> dict[str, Any]:
        """Options for a chat template that knows them; to any other they say nothing.

        Another vendor's wire sets them, a client cannot.
        """
        return self._template_hints

    @property
    def session_hint(self) -> str | None:
        """The session named in ``metadata.session_id``, or None.

        ``prompt_cache_key`` is none: many conversations with one beginning share it.
        """
        return self.metadata.get("session_id")

    @property
    def limit(self) -> int | None:
        """Most tokens of the reply; None leaves it to the context."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def parses_calls(self) -> bool:
        """Whether calls in the reply are calls; with ``tool_choice: none`` they are text."""
        return self.tool_choice != "none"

    @property
    def must_call(self) -> bool:
        """Whether the reply must be a call."""
        match self.tool_choice:
            case NamedTool():
                return True
            case AllowedChoice(allowed_tools=allowed):
                return allowed.mode == "required"
        return self.tool_choice == "required"

    @property
    def forced_function(self) -> str | None:
        """The function that must be called, if one is named or there is only one."""
        if isinstance(self.tool_choice, NamedTool):
            return self.tool_choice.function.name
        offered = self._offered
        return offered[0].function.name if len(offered) == 1 else None

    def plain_messages(self) -> list[dict[str, Any]]:
        """Messages as dicts, text parts joined."""
        return [message.plain() for message in self.messages]

    def plain_tools(self) -> list[dict[str, Any]]:
        """The tools on offer as dicts; also those that may not be called this time, so that the
        prompt stays the same."""
        return [tool.plain() for tool in self._offered]

    @property
    def _chosen(self) -> list[str] | None:
        """Names that ``tool_choice`` holds, None if it holds none."""
        match self.tool_choice:
            case NamedTool(function=function):
                return [function.name]
            case AllowedChoice(allowed_tools=allowed):
                return [tool.function.name for tool in allowed.tools]
        return None

    @property
    def _offered(self) -> list[Tool]:
        if not isinstance(self.tool_choice, AllowedChoice):
            return self.tools
        allowed = self._chosen or ()
        return [tool for tool in self.tools if tool.function.name in allowed]


TOKENS, TEXTS, PROMPTS = "<tokens>", "<texts>", "<prompts>"


def _prompt_kind(value: Any) -> str | None:
    if isinstance(value, str):
        return TEXT
    if not isinstance(value, list):
        return None
    if value and isinstance(value[0], str):
        return TEXTS
    return PROMPTS if value and isinstance(value[0], list) else TOKENS


Prompts = Annotated[
    Annotated[str, Tag(TEXT)]
    | Annotated[list[int], Field(min_length=1), Tag(TOKENS)]
    | Annotated[list[str], Field(min_length=1, max_length=128), Tag(TEXTS)]
    | Annotated[list[list[int]], Field(min_length=1, max_length=128), Tag(PROMPTS)],
    Discriminator(
        _prompt_kind,
        custom_error_type="prompt",
        custom_error_message="must be a text, a list of token ids, or a list of these",
    ),
]


class CompletionRequest(SamplingFields):
    """``POST /v1/completions``: text or token ids go on as they are, without a chat template.

    ``logprobs: 0`` lists the sampled tokens' log-probs, ``k`` also the ``k`` most probable ones.
    """

    prompt: Prompts
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
    version: int = Field(ge=0, le=MOST_VERSION)


class AdapterRequest(Wire):
    """``POST /admin/adapters``: load an adapter, or replace the one of that name."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.@-]{1,128}$")]
    path: str
    version: int = Field(ge=0, le=MOST_VERSION)


class ScoreRequest(Wire):
    """``POST /admin/score``: log-probs of given tokens, ``n - 1`` numbers for ``n`` ids."""

    token_ids: Annotated[list[Annotated[list[int], Field(min_length=1)]], Field(min_length=1)]
    temperature: Temperature = 1.0
    adapter: str = ""


class QualityRequest(Wire):
    """``POST /admin/quality``: how well the replies of a policy version were judged.

    Attributes:
        score: mean over ``judged`` replies.
        at: seconds since the epoch; now, if left out.
    """

    version: int = Field(ge=0, le=MOST_VERSION)
    score: float = Field(ge=-1e6, le=1e6, allow_inf_nan=False)
    judged: int = Field(ge=1, le=MOST_EXACT)
    at: float | None = Field(None, ge=0, le=1e11)
