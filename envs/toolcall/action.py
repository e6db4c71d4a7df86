"""What an agent does in a step: it says something, calls tools, or both.

An action is JSON text of one object: ``{"content": "…", "tool_calls": [{"name": "…", "arguments":
{…}}]}``, either key may be missing. Arguments may also be a text that holds JSON, as OpenAI has it.

Example:
    >>> parse_action('{"tool_calls": [{"name": "now", "arguments": {}}]}')
    Action(content='', calls=(Call(name='now', arguments={}),))
    >>> Action("Done.").to_text()
    '{"content": "Done."}'
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envs.toolcall.failures import Failure, FailureKind
from envs.toolcall.strict import BadJson, loads, shown

MAX_ACTION_BYTES = 256 * 1024
MAX_CALLS = 16
KEYS = {"content", "tool_calls"}
FORM = 'an action is {"content": TEXT} or {"tool_calls": [{"name": NAME, "arguments": {...}}]}'


@dataclass(frozen=True)
class Call:
    """A call as the agent wrote it, not checked yet.

    Attributes:
        name: of the tool.
        arguments: JSON values, or JSON text.
    """

    name: str
    arguments: Any

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"name": self.name, "arguments": self.arguments}


@dataclass(frozen=True)
class Action:
    """One step of the agent.

    Attributes:
        content: what it says to the user.
        calls: in the order in which they are carried out.
    """

    content: str = ""
    calls: tuple[Call, ...] = ()

    def to_text(self) -> str:
        """Return the action as JSON text; ``parse_action`` is the inverse."""
        row: dict[str, Any] = {}
        if self.content or not self.calls:
            row["content"] = self.content
        if self.calls:
            row["tool_calls"] = [call.to_json() for call in self.calls]
        return json.dumps(row, ensure_ascii=False)


def call(name: str, /, **arguments: Any) -> Action:
    """Return the action of one call."""
    return Action(calls=(Call(name, arguments),))


def parse_action(text: str) -> Action | Failure:
    """Read an action. What is none is a named failure, never an error."""
    try:
        row = loads(text, MAX_ACTION_BYTES)
    except BadJson as error:
        kind = error.kind
        if kind is FailureKind.NOT_JSON:
            kind = FailureKind.MALFORMED_ACTION
        return Failure(kind, f"{error.message}; {FORM}")
    return action_of(row)


def action_of(row: Any) -> Action | Failure:
    """Read an action from JSON values."""
    if not isinstance(row, Mapping):
        return _malformed(f"{shown(row)} is no object")
    if not row or set(row) - KEYS:
        return _malformed(f"its keys are {shown(sorted(row))}")
    content, calls = row.get("content") or "", row.get("tool_calls") or []
    if not isinstance(content, str):
        return _malformed("content must be text")
    if not isinstance(calls, list):
        return _malformed("tool_calls must be a list")
    if len(calls) > MAX_CALLS:
        return Failure(FailureKind.TOO_MANY_CALLS, f"{len(calls)} calls; {MAX_CALLS} at most")
    read = [_call(each) for each in calls]
    wrong = next((each for each in read if isinstance(each, Failure)), None)
    return wrong or Action(content, tuple(each for each in read if isinstance(each, Call)))


def _call(row: Any) -> Call | Failure:
    if not isinstance(row, Mapping):
        return _malformed(f"a call must be an object, not {shown(row)}")
    if isinstance(row.get("function"), Mapping):  # OpenAI's envelope
        row = row["function"]
    if not isinstance(row.get("name"), str):
        return _malformed(f'the call {shown(row)} has no "name"')
    return Call(row["name"], row.get("arguments", {}))


def _malformed(what: str) -> Failure:
    return Failure(FailureKind.MALFORMED_ACTION, f"{what}; {FORM}")
