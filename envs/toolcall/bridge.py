"""A program that lives in a sandbox and is asked, again and again, by way of its shell.

``Sandbox`` knows commands, not conversations. The program (``envs.toolcall.inside``) reads from a
named pipe and answers into a file; the persistent shell hands a line over with builtins alone, so a
question costs a round trip and no process. Whatever the agent's code does to program, pipes or
shell, it ends as ``BridgeLost``: a fact about the sandbox's inside, not a failure of the world.

Example:
    >>> with Bridge(sandbox, "cells", {"memory_bytes": 1 << 28}) as bridge:  # doctest: +SKIP
    ...     bridge.ask({"op": "run", "code": "6 * 7", "timeout_s": 5, "output_bytes": 4096}, 8.0)
    {'status': 'ok', 'output': '42\\n', …}
"""

import contextlib
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from types import TracebackType
from typing import Any, Self

from envs.errors import SandboxError, SetupError
from envs.sandbox.protocol import Sandbox

INSIDE = Path(__file__).parent / "inside"
START_S = 20.0
GRACE_S = 5.0
MAX_REPLY_BYTES = 2 << 20
_RUN = "import sys; sys.path.insert(0, sys.argv[1]); from inside.{name} import main; main()"


class BridgeLost(Exception):
    """The program gave no answer: it is gone, or what lies between was broken from inside."""


class Bridge:
    """See the module. A context manager.

    Args:
        sandbox: owned by the caller; its persistent shell is used.
        program: a module of ``envs.toolcall.inside``.
        config: for the program, JSON values.
        place: a writable folder of the sandbox.

    Raises:
        SetupError: the program does not start.
        SandboxLost: the sandbox is gone.
    """

    def __init__(
        self, sandbox: Sandbox, program: str, config: Mapping[str, Any], place: str = "/tmp"
    ) -> None:
        self._sandbox, self._program, self._config = sandbox, program, dict(config)
        self._place, self._number = place, 0
        self.start()

    def start(self) -> None:
        """Start the program, or another in place of one that was lost. Raises ``SetupError``."""
        self._folder = f"{self._place}/.clawgym-{uuid.uuid4().hex[:12]}"
        folder = quote(self._folder)
        files = {name: (INSIDE / name).read_text("utf-8")
                 for name in ("__init__.py", "door.py", f"{self._program}.py")}  # fmt: skip
        lines = [f"mkdir -p {folder}/inside && mkfifo -m 600 {folder}/in {folder}/done"]
        lines += [f"printf %s {quote(text)} >{folder}/inside/{n}" for n, text in files.items()]
        run = quote(_RUN.format(name=self._program))
        config = quote(json.dumps(self._config))
        lines += [
            f"{{ python3 -c {run} {folder} {config} </dev/null >/dev/null 2>{folder}/log & }}",
            "builtin disown",
            f"IFS= builtin read -r -t {START_S:.0f} __n 0<>{folder}/done; tail -c 400 {folder}/log",
            'builtin printf %s "[$__n]"',
        ]
        made = self._sandbox.shell("\n".join(lines), timeout_s=START_S + GRACE_S)
        if not made.output.endswith("[0]"):
            why = made.output.strip()[-400:]
            raise SetupError(f"the program {self._program} does not start: {why}")

    def ask(self, request: Mapping[str, Any], wait_s: float) -> dict[str, Any]:
        """Return the program's answer.

        Raises:
            BridgeLost: none came in time, or it is none.
            SandboxLost: the sandbox is gone.
        """
        self._number += 1
        line = json.dumps({**request, "number": self._number})
        folder, wait = quote(self._folder), max(1, round(wait_s + 0.5))
        command = (
            f"builtin printf '%s\\n' {quote(line)} 1<>{folder}/in; __got=; "
            f"while IFS= builtin read -r -t {wait} __n; do [[ $__n == {self._number} ]] && "
            f"{{ __got=1; break; }}; done 0<>{folder}/done; "
            f"[[ $__got ]] && {{ IFS= builtin read -r -d '' __n <{folder}/out; "
            f'builtin printf %s "$__n"; }}; __n='
        )
        result = self._sandbox.shell(
            command, timeout_s=wait + GRACE_S, max_output_bytes=MAX_REPLY_BYTES
        )
        if result.truncated:
            raise BridgeLost(f"an answer of {result.output_bytes} bytes")
        try:
            answer = json.loads(result.output[result.output.index("{") :])
            fits = answer["number"] == self._number
        except (ValueError, TypeError, KeyError):
            fits = False
        if not fits:
            raise BridgeLost(f"no answer within {wait_s:g} s: {result.output[:80]!r}")
        return dict(answer)

    def close(self) -> None:
        """End the program with everything else that runs in the sandbox. Idempotent."""
        with contextlib.suppress(SandboxError):
            self._sandbox.kill_processes()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()
