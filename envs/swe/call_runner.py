"""Evaluates calls on a source text and writes each value down. Runs inside the sandbox.

Sent as text to ``python3 -I -S -c`` by ``call_grading``; imports nothing of ours. Standard input
holds ``{"tag", "file", "source", "calls", "memory_bytes", "cpu_s"}``. Every line written begins
with the tag: first ``ready``, then per call ``[index, "value" | "error", text]``. Expected values
are not here: the host compares. What the source prints goes nowhere.
"""

import json
import os
import resource
import sys
from typing import Any

_MOST_CHARS = 20_000


def main() -> None:
    """Read the request, run it, answer line by line."""
    request: dict[str, Any] = json.load(sys.stdin)
    answers = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)

    def say(text: str) -> None:
        os.write(answers, f"{request['tag']} {text}\n".encode())

    for limit, most in (
        (resource.RLIMIT_AS, request["memory_bytes"]),
        (resource.RLIMIT_CPU, request["cpu_s"]),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))
    say("ready")
    namespace: dict[str, Any] = {"__name__": request["file"].removesuffix(".py")}
    try:
        exec(compile(request["source"], request["file"], "exec"), namespace)
    except BaseException as error:
        say(json.dumps([-1, "error", type(error).__name__]))
        return
    for index, call in enumerate(request["calls"]):
        try:
            answer = [index, "value", repr(eval(call, namespace))[:_MOST_CHARS]]
        except BaseException as error:
            answer = [index, "error", type(error).__name__]
        say(json.dumps(answer))


main()
