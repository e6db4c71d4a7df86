"""Reads failures out of tool calls and their results, only where they are stated as data.

A result may hold the word "error" for a thousand good reasons (a log that was asked for, a search
for it), so text counts only where a program wrote it as a status: a field of a JSON object, a flag
of the message, an exit code on a line of its own.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from serving.types import Message

EXIT_KEYS = ("exit_code", "exitCode", "exit_status", "returncode", "return_code")
NO_ERROR = frozenset({"", "none", "null", "no error", "no errors", "ok", "false", "0"})
# Programs whose exit code 1 is an answer ("no match", "they differ"), not a failure.
ANSWER_BY_ONE = frozenset({"grep", "egrep", "fgrep", "rg", "diff", "cmp", "test", "[", "pgrep"})

MOST_LINE_CHARS = 200  # of a line that may be an exit code
_EXIT_LINE = re.compile(
    r"\[?\s*(?:process )?(?:exit(?:ed)?(?: with)?(?: status| code)?|return ?code)\s*[:=]?\s*(-?\d+)"
    r"\s*\]?\.?|<(?:returncode|exit_code)>\s*(-?\d+)\s*</(?:returncode|exit_code)>",
    re.IGNORECASE,
)


def text_of(message: Message) -> str:
    """Return a message's text; parts of other kinds are left out."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    parts = (part.get("text") for part in content if isinstance(part, Mapping))
    return "\n".join(part for part in parts if isinstance(part, str))


def calls_of(message: Message) -> list[tuple[str, str, str]]:
    """Return the (id, name, arguments) of each tool call; arguments as they were written."""
    found = []
    for call in message.get("tool_calls") or ():
        function = call.get("function", call)
        arguments = function.get("arguments", "")
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, sort_keys=True, ensure_ascii=False)
        found.append((str(call.get("id", "")), str(function.get("name", "")), arguments))
    return found


def parsed(arguments: str) -> Any:
    """Return arguments as JSON values, or None when they are not JSON."""
    try:
        return json.loads(arguments) if arguments.strip() else {}
    except ValueError:
        return None


def failure(result: Message, arguments: str = "") -> str:
    """Return how a tool's result says that the call failed, in words; "" when it does not.

    Args:
        result: a message of role ``tool``.
        arguments: of the call it answers, to know programs that answer by their exit code.
    """
    if result.get("is_error") is True or result.get("isError") is True:
        return "the result is flagged as an error"
    parts = result.get("content")
    if isinstance(parts, Sequence) and not isinstance(parts, str):
        flags = [part for part in parts if isinstance(part, Mapping)]
        if any(part.get("is_error") is True or part.get("isError") is True for part in flags):
            return "a part of the result is flagged as an error"
    text = text_of(result).strip()
    code, errors = _exit_code(text), ""
    if text.startswith("{"):
        value = parsed(text)
        if isinstance(value, Mapping):
            if value.get("isError") is True or value.get("is_error") is True:
                return "the result is flagged as an error"
            errors = _stated(value)
            code = next((c for k in EXIT_KEYS if (c := _whole(value.get(k))) is not None), code)
            if code == 1 and not str(value.get("stderr") or "").strip() and _answers(arguments):
                code = 0
    elif code == 1 and _answers(arguments):
        code = 0
    if code:
        return f"exit code {code}"
    return errors


def _stated(value: Mapping[str, Any]) -> str:
    """Return the error a JSON object states; numbers are measurements, not statements."""
    if value.get("ok") is True or value.get("success") is True:
        return ""
    error = value.get("error")
    if isinstance(error, Mapping) and error:
        return (
            f"error: {error.get('message') or error.get('code') or error.get('type') or 'stated'}"
        )
    if error is True:
        return "the result says error: true"
    if isinstance(error, str) and error.strip().lower() not in NO_ERROR:
        return f"error: {' '.join(error.split())[:120]}"
    return ""


def _exit_code(text: str) -> int | None:
    """Return the exit code written on the first or last line of a result, alone on it."""
    lines = text.splitlines()
    for line in dict.fromkeys((*lines[:1], *lines[-1:])):
        match = _EXIT_LINE.fullmatch(line.strip()) if len(line) <= MOST_LINE_CHARS else None
        if match:
            return int(match[1] or match[2])
    return None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _answers(arguments: str) -> bool:
    """Whether the last program of a called command answers with exit code 1."""
    value = parsed(arguments)
    command = ""
    if isinstance(value, Mapping):
        command = next((v for k in ("command", "cmd") if isinstance(v := value.get(k), str)), "")
    last = re.split(r"[|;&\n]+", command.strip())[-1]
    try:
        words = shlex.split(last)
    except ValueError:
        return False
    return bool(words) and words[0].rsplit("/", 1)[-1] in ANSWER_BY_ONE
