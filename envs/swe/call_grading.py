"""Judges a source by what its calls return. The host compares; the sandbox only evaluates.

The agent's source shares a process with the evaluating loop, and can therefore lie about any value
it likes: print, forge lines, ``os._exit(0)``, replace ``repr``. It cannot win by that, since the
right values are nowhere in the sandbox: to forge one it has to know it. What remains possible:
hard-coding the example that the instruction shows, which the other checks catch, and learning the
*arguments* of hidden checks by writing them to a file in one grading and reading it in a later one.
"""

import ast
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from envs.sandbox.protocol import Sandbox
from envs.swe.corpus import Check
from envs.swe.programs import run_program

MEMORY_BYTES = 256 * 2**20
CPU_S = 4
_PYTHON = "/usr/bin/python3"
_MOST_OUTPUT_BYTES = 4 << 20


@dataclass(frozen=True)
class Answer:
    """What one call did: ``value`` with the value's repr, ``error`` with the exception's name."""

    kind: Literal["value", "error", "nothing"]
    text: str = ""

    def meets(self, check: Check) -> bool:
        """True when the value equals the expected one."""
        if self.kind != "value":
            return False
        try:
            value = ast.literal_eval(self.text)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            return False
        return bool(value == ast.literal_eval(check.expected))

    def __str__(self) -> str:
        words = {"value": f"returns {self.text}", "error": f"raises {self.text}"}
        return words.get(self.kind, "does not return")


@cache
def runner_text() -> str:
    """Return the program that evaluates calls."""
    return Path(__file__).with_name("call_runner.py").read_text("utf-8")


def runner_argv(python: str = _PYTHON) -> list[str]:
    """Return its command line: no site packages, no environment, no byte code left behind."""
    return [python, "-I", "-S", "-B", "-c", runner_text()]


def request_bytes(tag: str, file: str, source: str, checks: Sequence[Check]) -> bytes:
    """Return the runner's standard input."""
    request = {
        "tag": tag,
        "file": file,
        "source": source,
        "calls": [check.call for check in checks],
        "memory_bytes": MEMORY_BYTES,
        "cpu_s": CPU_S,
    }
    return json.dumps(request).encode()


def read_answers(lines: Sequence[str], num_calls: int) -> list[Answer]:
    """Read the runner's lines. A call without one got ``nothing``: the process ended before it."""
    answers = [Answer("nothing")] * num_calls
    for line in lines:
        row = _read_row(line)
        if row is None:
            continue
        index, kind, text = row
        if index < 0:
            return [Answer("error", text)] * num_calls
        if index < num_calls and kind in ("value", "error"):
            answers[index] = Answer(kind, text)
    return answers


def _read_row(line: str) -> tuple[int, Any, str] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    match row:
        case [int(index), str(kind), str(text)]:
            return index, kind, text
    return None


def run_calls(
    sandbox: Sandbox, file: str, source: str, checks: Sequence[Check], timeout_s: float
) -> list[Answer]:
    """Evaluate the checks' calls on a source in the sandbox, in a process of its own.

    Raises:
        VerifierError: the interpreter did not start.
        SandboxLost: the sandbox is gone.
    """
    tag = secrets.token_hex(8)
    lines = run_program(
        sandbox,
        runner_argv(),
        tag=tag,
        stdin=request_bytes(tag, file, source, checks),
        timeout_s=timeout_s,
        max_output_bytes=_MOST_OUTPUT_BYTES,
    )
    return read_answers(lines, len(checks))
