"""A Python interpreter in a sandbox: cells in, output out, state kept in between."""

from dataclasses import dataclass
from typing import Any

from envs.sandbox.protocol import Sandbox
from envs.toolcall.bridge import Bridge, BridgeLost

MAX_CODE_BYTES = 64 * 1024
STOP_S = 8.0  # interrupts, then the kill, see ``envs.toolcall.inside.cells``
NOTES = {
    ("timed_out", "kept"): "interrupted after {timeout_s:g} s; what it did so far is kept",
    ("timed_out", "before"): "killed after {timeout_s:g} s; the state is the one before this cell",
    ("flooded", "kept"): "interrupted: too much output; what it did so far is kept",
    ("flooded", "before"): "killed: too much output; the state is the one before this cell",
    ("killed", "before"): "the process died ({why}); the state is the one before this cell",
    ("interrupted", "kept"): "KeyboardInterrupt",
}
LOST = "the interpreter is lost and was started anew; variables are gone"


@dataclass(frozen=True)
class CellResult:
    """What a cell did.

    Attributes:
        status: ``ok``, ``error`` (an exception), ``timed_out``, ``flooded`` (too much output),
            ``interrupted`` (by itself), ``killed`` (its process died), ``lost`` (no interpreter
            was left), ``refused`` (not run).
        output: standard output and error, the value of a last expression, the traceback; cut in
            the middle.
        state: ``kept``, ``before`` (as before this cell) or ``lost``.
        note: one line for the agent, or "".
        cpu_s, wall_s: of the cell, in seconds; 0 when unknown.
        output_bytes: written, kept or not.
    """

    status: str
    output: str = ""
    state: str = "kept"
    note: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    output_bytes: int = 0

    @property
    def shown(self) -> str:
        """What the agent sees: output and note."""
        note = f"[{self.note}]" if self.note else ""
        return "\n".join(filter(None, (self.output.rstrip("\n"), note)))


class Interpreter:
    """See the module.

    Args:
        sandbox: with ``python3``; owned by the caller.
        memory_bytes: address space of a cell; beyond it is ``MemoryError``.
        timeout_s: wall-clock limit of a cell.
        output_bytes: most bytes of a cell's output kept.

    Raises:
        SetupError: no Python there.
        SandboxLost: the sandbox is gone.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        memory_bytes: int = 384 << 20,
        timeout_s: float = 10.0,
        output_bytes: int = 4096,
    ) -> None:
        self.timeout_s, self.output_bytes = timeout_s, output_bytes
        self._bridge = Bridge(sandbox, "cells", {"memory_bytes": memory_bytes})

    def run(self, code: str) -> CellResult:
        """Run a cell. What it does wrong is in the result.

        Raises:
            SetupError: an interpreter that was lost does not come back.
            SandboxLost: the sandbox is gone.
        """
        size = len(code.encode("utf-8", "replace"))
        if size > MAX_CODE_BYTES:
            return CellResult("refused", note=f"{size} bytes of code; at most {MAX_CODE_BYTES}")
        request = {
            "op": "run",
            "code": code.encode("utf-8", "replace").decode(),
            "timeout_s": self.timeout_s,
            "output_bytes": self.output_bytes,
        }
        try:
            return self._result(self._bridge.ask(request, self.timeout_s + STOP_S))
        except (BridgeLost, ValueError, TypeError):
            self._bridge.close()
            self._bridge.start()
            return CellResult("lost", state="lost", note=LOST)

    def close(self) -> None:
        """End it. Idempotent."""
        self._bridge.close()

    def _result(self, row: dict[str, Any]) -> CellResult:
        status, state = str(row["status"]), str(row.get("state", "kept"))
        words = {"timeout_s": self.timeout_s, "why": str(row.get("why", ""))[:80]}
        note = LOST if state == "lost" else NOTES.get((status, state), "").format(**words)
        return CellResult(
            status=status,
            output=str(row.get("output", ""))[: 2 * self.output_bytes + 200],
            state=state,
            note=note,
            cpu_s=float(row.get("cpu_s", 0.0)),
            wall_s=float(row.get("wall_s", 0.0)),
            output_bytes=int(row.get("written", 0)),
        )
