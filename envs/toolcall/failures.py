"""What can be wrong with a call, by name, and how a model is told."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class FailureKind(StrEnum):
    """Why a call was not carried out, or gave no result."""

    # of an action as a whole
    MALFORMED_ACTION = "malformed_action"
    TOO_MANY_CALLS = "too_many_calls"
    # of a call's text
    NOT_JSON = "not_json"
    DUPLICATE_KEY = "duplicate_key"
    NOT_A_NUMBER = "not_a_number"  # NaN, Infinity
    NUMBER_TOO_LARGE = "number_too_large"
    BAD_UNICODE = "bad_unicode"  # half of a surrogate pair
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    # of a call against its tool
    UNKNOWN_TOOL = "unknown_tool"
    NOT_AN_OBJECT = "not_an_object"
    MISSING_FIELD = "missing_field"
    EXTRA_FIELD = "extra_field"
    WRONG_TYPE = "wrong_type"
    WRONG_VALUE = "wrong_value"  # not among the legal ones
    OUT_OF_RANGE = "out_of_range"
    WRONG_FORM = "wrong_form"  # pattern, length of text or list
    WRONG_SHAPE = "wrong_shape"  # any other keyword
    UNCHECKABLE = "uncheckable"  # checking costs more than is granted
    # of the tool
    TOOL_ERROR = "tool_error"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True)
class Failure:
    """A named failure with a message that a model can act on.

    Attributes:
        kind: its name.
        message: one or two sentences, at most a few hundred characters.
        path: where in the arguments, such as ``lines[0].quantity``; "" for the whole.
        value: what stands there, shortened; "" where nothing does.
        expected: what should, shortened.
    """

    kind: FailureKind
    message: str
    path: str = ""
    value: str = ""
    expected: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return what the model is shown."""
        shown = {"path": self.path, "value": self.value, "expected": self.expected}
        told = {key: text for key, text in shown.items() if text}
        return {"error": str(self.kind), "message": self.message, **told}
