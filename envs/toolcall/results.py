"""How a call's result is shown: one line of JSON, cut with a note when it is too long."""

import json
from typing import Any

from envs.text import printable
from envs.toolcall.failures import Failure

LEAST_BYTES = 200


def result_line(name: str, result: Any, budget_bytes: int) -> str:
    """Return ``{"tool": …, "result": …}``; over the budget the head of the result as text.

    Example:
        >>> result_line("now", {"time": "12:00"}, 4096)
        '{"tool": "now", "result": {"time": "12:00"}}'
    """
    text = json.dumps(result, ensure_ascii=False)
    size = len(text.encode("utf-8", "replace"))
    if size <= budget_bytes:
        return printable(f'{{"tool": {json.dumps(name)}, "result": {text}}}')
    head = text.encode("utf-8", "replace")[: budget_bytes // 2].decode("utf-8", "ignore")
    note = f"cut: the first {len(head.encode())} of {size} bytes are shown; ask for less"
    return json.dumps({"tool": name, "result": head, "note": note}, ensure_ascii=False)


def failure_line(name: str, failure: Failure) -> str:
    """Return ``{"tool": …, "error": …, "message": …}``."""
    row = {"tool": name[:64], **failure.to_json()} if name else failure.to_json()
    return printable(json.dumps(row, ensure_ascii=False))
