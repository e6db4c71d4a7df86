"""A world in a process of its own: for tools that are somebody's code and may never return.

A call that takes too long ends with its process; a new one repeats the calls carried out before, so
the world is as if the call had not been made. A tool that crashes, or takes its process with it, is
a named failure too. Worlds of this package need none of it: their tools return.
Left out: protection of files and network from the tools' code; that is a sandbox's matter.
"""

import contextlib
import importlib
import json
import multiprocessing
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from envs.errors import SetupError
from envs.toolcall.failures import FailureKind
from envs.toolcall.tools import Tool
from envs.toolcall.world import ToolError

START_TIMEOUT_S = 60.0
END_TIMEOUT_S = 5.0
MAX_RESULT_CHARS = 1 << 20


class IsolatedWorld:
    """See the module and ``envs.toolcall.world.World``.

    Args:
        path: ``module:class`` of a world with ``of(data)``.
        data: of the task.
        timeout_s: longest wait for one call.

    Raises:
        SetupError: the world does not start.
    """

    def __init__(self, path: str, data: Mapping[str, Any], timeout_s: float) -> None:
        self._path, self._data, self._timeout_s = path, dict(data), timeout_s
        self._done: list[tuple[str, dict[str, Any]]] = []
        self.violations: Sequence[str] = ()
        self._start()

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Carry out a call in the other process. Raises ``ToolError``, ``SetupError``."""
        try:
            kind, value, violations = self._ask((name, arguments), self._timeout_s)
        except TimeoutError:
            self._restart()
            message = f"no answer within {self._timeout_s:g} s; nothing was done"
            raise ToolError(message, FailureKind.TIMED_OUT) from None
        except (EOFError, OSError):
            self._restart()
            raise ToolError("the tool broke down; nothing was done") from None
        if kind == "crash":
            self._restart()
            raise ToolError(f"the tool failed: {value}; nothing was done")
        self.violations = violations
        self._done.append((name, arguments))
        if kind == "error":
            message, failure = value
            raise ToolError(message, FailureKind(failure))
        return json.loads(value)

    def state(self) -> Mapping[str, object]:
        """Return the state. Raises ``SetupError``."""
        try:
            _, value, _ = self._ask(None, self._timeout_s)
        except (TimeoutError, EOFError, OSError) as error:
            raise SetupError(f"{self._path} does not tell its state: {error!r}") from error
        state: Mapping[str, object] = value
        return state

    def close(self) -> None:
        """End the process. Idempotent."""
        self._ours.close()
        self._process.kill()
        self._process.join(END_TIMEOUT_S)

    # ------------------------------------------------------------- inside

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, self._path, self._data), daemon=True
        )
        self._process.start()
        theirs.close()
        try:
            kind, value, self.violations = self._receive(START_TIMEOUT_S)
        except (TimeoutError, EOFError, OSError) as error:
            self.close()
            raise SetupError(f"{self._path} does not start: {error!r}") from error
        if kind == "crash":
            self.close()
            raise SetupError(f"{self._path} does not start: {value}")
        self.tools: Mapping[str, Tool]
        self.policy: str
        self.tools, self.policy = value

    def _restart(self) -> None:
        """Start anew and repeat what was done."""
        self.close()
        self._start()
        for call in self._done:
            try:
                kind, _, self.violations = self._ask(call, self._timeout_s)
            except (TimeoutError, EOFError, OSError) as error:
                self.close()
                raise SetupError(f"{self._path} cannot repeat {call[0]}: {error!r}") from error
            if kind == "crash":
                self.close()
                raise SetupError(f"{self._path} cannot repeat {call[0]}")

    def _ask(self, question: object, timeout_s: float) -> tuple[str, Any, Sequence[str]]:
        self._ours.send(question)
        return self._receive(timeout_s)

    def _receive(self, timeout_s: float) -> tuple[str, Any, Sequence[str]]:
        if not self._ours.poll(timeout_s):
            raise TimeoutError(f"no answer within {timeout_s:g} s")
        answer: tuple[str, Any, Sequence[str]] = self._ours.recv()
        return answer


def _serve(pipe: Connection, path: str, data: Mapping[str, Any]) -> None:
    """Answer questions until the other end is closed."""
    module, _, attribute = path.partition(":")
    with contextlib.suppress(EOFError, OSError):
        try:
            world = getattr(importlib.import_module(module), attribute).of(data)
            pipe.send(("world", (dict(world.tools), world.policy), tuple(world.violations)))
        except Exception as error:  # whatever it is, it is told as the reason
            pipe.send(("crash", repr(error)[:300], ()))
            return
        while True:
            question = pipe.recv()
            if question is None:
                pipe.send(("state", dict(world.state()), tuple(world.violations)))
                continue
            name, arguments = question
            try:
                text = json.dumps(world.call(name, arguments))
                if len(text) > MAX_RESULT_CHARS:
                    text = json.dumps(text[:MAX_RESULT_CHARS])
                answer: tuple[str, Any] = ("result", text)
            except ToolError as error:
                answer = ("error", (error.message, str(error.kind)))
            except Exception as error:  # somebody's code: its failure is named, not ours
                answer = ("crash", repr(error)[:300])
            pipe.send((*answer, tuple(world.violations)))
