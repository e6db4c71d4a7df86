"""What all wire models share: unknown fields refused, nulls dropped, faults named by plain paths.

A union is told apart by a function whose tags are written ``<so>``: ``refusal`` leaves them out of
the path, so that a fault in it names the field a client wrote and no type of ours.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from .errors import RequestRefused
from .types import checked_temperature

TEXT, LIST, CHOSEN, ALLOWED = "<text>", "<list>", "<chosen>", "<allowed>"
CHOICES = ("none", "auto", "required")
OFF_ONLY = ("frequency_penalty", "presence_penalty", "logit_bias", "best_of")
PICTURES = ("image_url", "image", "input_image")
FILES = ("input_file", "file", "document")
SOUNDS = ("input_audio", "audio", "video_url", "input_video")
MOST_STOPS = 16
LONGEST_STOP = 256  # characters

Temperature = Annotated[float, Field(ge=0, le=2), AfterValidator(checked_temperature)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
Element = TypeVar("Element")


class Wire(BaseModel):
    """Unknown fields are errors unless null."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        if isinstance(data, dict) and None in data.values():
            return {name: value for name, value in data.items() if value is not None}
        return data


class FunctionName(Wire):
    """Names a function."""

    name: str


def kind_of(value: Any) -> Any:
    """Return what a JSON object or a model has as ``type``."""
    return value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)


def _text_or_list(value: Any) -> str | None:
    return TEXT if isinstance(value, str) else LIST if isinstance(value, list) else None


TextOr = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[list[Element], Tag(LIST)],
    Discriminator(
        _text_or_list,
        custom_error_type="text_or_list",
        custom_error_message="must be a text or a list",
    ),
]


def choice_kind(value: Any) -> str | None:
    """Tell the forms of ``tool_choice`` apart."""
    if isinstance(value, str):
        return TEXT if value in CHOICES else None
    return {"function": CHOSEN, "allowed_tools": ALLOWED}.get(str(kind_of(value)))


CHOICE_KINDS = Discriminator(
    choice_kind,
    custom_error_type="tool_choice",
    custom_error_message="must be none, auto, required, a function or allowed_tools",
)


def _only_text(part: Any) -> Any:
    kind = kind_of(part)
    if kind in PICTURES:
        raise PydanticCustomError("image", "images are not offered by this model")
    if kind in FILES:
        raise PydanticCustomError("file", "files and images are not offered by this model")
    if kind in SOUNDS:
        raise PydanticCustomError("sound", "sound and film are not offered by this model")
    return part


def only_functions(written: str = "function") -> BeforeValidator:
    """Return a check that a tool is a function, whose ``type`` a vendor writes so."""

    def check(tool: Any) -> Any:
        kind = kind_of(tool)
        if isinstance(kind, str) and kind != written:
            raise PydanticCustomError(
                "tool", "only functions are offered, not '{kind}'", {"kind": kind}
            )
        return tool

    return BeforeValidator(check)


ONLY_TEXT = BeforeValidator(_only_text)
ONLY_FUNCTIONS = only_functions()

StopString = Annotated[str, Field(max_length=LONGEST_STOP)]
StopStrings = Annotated[list[StopString], Field(max_length=MOST_STOPS)]
Stop = Annotated[
    Annotated[StopString, Tag(TEXT)] | Annotated[StopStrings, Tag(LIST)],
    Discriminator(
        _text_or_list,
        custom_error_type="text_or_list",
        custom_error_message="must be a text or a list of texts",
    ),
]


def without(data: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return an object without some of its fields."""
    return {name: value for name, value in data.items() if name not in names}


def refusal(error: ValidationError) -> RequestRefused:
    """Return the first fault of a body as an error naming the field and the remedy."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    unknown = first["type"] == "extra_forbidden"
    written = [str(part) for part in first["loc"]]
    last = len(written) - 1
    place = [
        part
        for at, part in enumerate(written)
        if not (part.startswith("<") and part.endswith(">")) or (unknown and at == last)
    ]
    field = ".".join(place) or None
    if unknown:
        return RequestRefused(f"unsupported field {field!r}; remove it", field=field)
    if place and place[0] in OFF_ONLY:
        return RequestRefused(f"{field} is not offered: remove it or leave it off", field=field)
    return RequestRefused(f"{field or 'body'}: {first['msg']}", field=field)


def error_body(
    message: str, kind: str = "invalid_request_error", field: str | None = None, code: str = ""
) -> dict[str, Any]:
    """Return OpenAI's error shape."""
    return {"error": {"message": message, "type": kind, "param": field, "code": code or None}}
