"""A tool as it is offered to a model, and the check of a call against it.

Example:
    >>> tool = Tool("ring", "Ring a bell.", {"type": "object", "properties": {
    ...     "times": {"type": "integer", "minimum": 1}}, "required": ["times"]})
    >>> check_call(tool, '{"times": 3}')
    {'times': 3}
    >>> check_call(tool, '{"times": "3"}').message
    'times is "3"; expected integer'
"""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from envs.toolcall.failures import Failure, FailureKind
from envs.toolcall.schema import Checker, SchemaError, compiled
from envs.toolcall.strict import BadJson, loads, shown

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Tool:
    """One tool.

    Attributes:
        name: what a call says; only ever looked up among the tools offered, so ``exec`` or
            ``__class__`` are names like any other.
        description: for the model.
        parameters: JSON Schema of the arguments, an object.

    Raises:
        SchemaError: a name or parameters that cannot be used.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    checker: Checker = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise SchemaError(f"a tool named {shown(self.name)}: give letters, digits, _ . and -")
        if not isinstance(self.parameters, Mapping) or self.parameters.get("type") != "object":
            raise SchemaError(f"{self.name}: parameters must have the type object")
        try:
            text = json.dumps(self.parameters, allow_nan=False)
            checker = compiled(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise SchemaError(f"{self.name}: parameters must be JSON values: {error}") from None
        except SchemaError as error:
            raise SchemaError(f"{self.name}: {error}") from None
        object.__setattr__(self, "checker", checker)

    def __reduce__(self) -> tuple[type["Tool"], tuple[object, ...]]:
        """Cross processes without the compiled schema."""
        return (Tool, (self.name, self.description, self.parameters))

    def to_openai(self) -> dict[str, Any]:
        """Return OpenAI's form; ``from_openai`` is the inverse."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }
        return {"type": "function", "function": function}

    @classmethod
    def from_openai(cls, row: Mapping[str, Any]) -> "Tool":
        """Build a tool from OpenAI's form, with or without its envelope. Raises ``SchemaError``."""
        function = row.get("function", row) if isinstance(row, Mapping) else row
        if not isinstance(function, Mapping) or "name" not in function:
            raise SchemaError(f"no function: {shown(row)}")
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        return cls(function["name"], str(function.get("description", "")), parameters)


def offered(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Return tools by name. Raises ``SchemaError`` for a name that is there twice."""
    named: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in named:
            raise SchemaError(f"two tools are named {tool.name!r}")
        named[tool.name] = tool
    return named


def check_call(tool: Tool, arguments: str) -> dict[str, Any] | Failure:
    """Return a call's arguments, or what is wrong with them."""
    try:
        value = loads(arguments)
    except BadJson as error:
        return Failure(error.kind, f"the arguments of {tool.name} are {_are(error)}")
    return check_value(tool, value)


def check_value(tool: Tool, value: Any) -> dict[str, Any] | Failure:
    """Return a call's arguments that are JSON values already, or what is wrong with them."""
    if not isinstance(value, dict):
        message = f"the arguments of {tool.name} must be a JSON object, not {shown(value)}"
        return Failure(FailureKind.NOT_AN_OBJECT, message, "", shown(value), "object")
    return tool.checker.failure(value) or value


def unknown_tool(name: str, known: Iterable[str]) -> Failure:
    """Return the failure of a call of something that is not offered; names the nearest."""
    legal = sorted(known)
    close = difflib.get_close_matches(name[:64], legal, 1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else f"the tools are {', '.join(legal)}"[:400]
    message = f"there is no tool {shown(name, 64)}; {hint}"
    return Failure(FailureKind.UNKNOWN_TOOL, message, "name", shown(name, 64), hint)


def _are(error: BadJson) -> str:
    return error.message if error.kind is FailureKind.NOT_JSON else f"refused: {error.message}"
