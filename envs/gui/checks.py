"""What a desktop task's goal state is made of, and how it is judged from outside.

    {"kind": "form", "values": {…}, "pressed": […]}   what the task's own window holds; both exact
    {"kind": "file", "path": …, "text": …}            a file's text, one line end at its end aside
    {"kind": "absent", "path": …}                     no such file

Files are read through the sandbox, after everything of the agent's has ended.
"""

import hmac
import json
from collections.abc import Mapping
from typing import Any

from envs.errors import SandboxFileError, SandboxLimitError, TaskError, VerifierError
from envs.sandbox.protocol import Sandbox

FORM_STATE = "/tmp/.desktop/form.json"
MOST_BYTES = 1 << 20
KEYS = {"form": {"kind", "values", "pressed"}, "file": {"kind", "path", "text"},
        "absent": {"kind", "path"}}  # fmt: skip


def require(task: str, checks: object) -> None:
    """Refuse what is no list of checks. Raises ``TaskError``."""
    if not isinstance(checks, list | tuple) or not checks:
        raise TaskError(f"{task}: data.checks must be a list of at least one check")
    for check in checks:
        kind = check.get("kind") if isinstance(check, Mapping) else None
        if kind not in KEYS or set(check) != KEYS[kind]:
            raise TaskError(f"{task}: {check!r} is no check: see envs.gui.checks")


def name(check: Mapping[str, Any]) -> str:
    """Return what a report calls a check."""
    return f"{check['kind']} {check.get('path', '')}".strip()


def judge(sandbox: Sandbox, check: Mapping[str, Any], key: str = "") -> str:
    """Return "" when the check holds, else why not.

    Args:
        key: with which the form of the episode signs its state.

    Raises:
        VerifierError: the form left no state.
        SandboxLost: the sandbox is gone.
    """
    if check["kind"] == "form":
        return _form(sandbox, check, key)
    try:
        data = sandbox.read_file(check["path"], max_bytes=MOST_BYTES)
    except SandboxFileError:
        return "" if check["kind"] == "absent" else "no such file"
    except SandboxLimitError:
        return "the file is too large"
    if check["kind"] == "absent":
        return "the file is there"
    text = data.decode("utf-8", "backslashreplace")
    right = text.removesuffix("\n") == str(check["text"]).removesuffix("\n")
    return "" if right else f"holds {text[:100]!r}"


def _form(sandbox: Sandbox, check: Mapping[str, Any], key: str) -> str:
    try:
        data = sandbox.read_file(FORM_STATE, max_bytes=MOST_BYTES)
        written, _, signature = data.rstrip(b"\n").rpartition(b"\n")
        right = hmac.new(key.encode(), written, "sha256").hexdigest().encode()
        if not hmac.compare_digest(signature, right):
            return "the form's state was written by somebody else"
        state = json.loads(written)
        values, pressed = state["values"], state["pressed"]
    except (SandboxFileError, SandboxLimitError, ValueError, KeyError, TypeError) as error:
        raise VerifierError(f"the window's state cannot be read: {error}") from error
    if values != check["values"]:
        wrong = sorted(key for key in values if values[key] != check["values"].get(key))
        return f"wrong: {', '.join(f'{key}={values[key]!r}' for key in wrong)}"[:300]
    return "" if pressed == check["pressed"] else f"pressed {pressed}"[:300]
