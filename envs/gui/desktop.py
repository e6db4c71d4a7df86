"""A session with the desktop of one sandbox: started, acted in, looked at.

Example:
    >>> desktop = Desktop(sandbox)  # doctest: +SKIP
    >>> desktop.launch(["mousepad", "/workspace/a.txt"])  # doctest: +SKIP
    >>> desktop.step([["type", "hello"]]).tree  # doctest: +SKIP
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from envs.errors import SandboxLost, SetupError
from envs.gui.tree import Node, nodes
from envs.sandbox.protocol import Sandbox

if TYPE_CHECKING:
    from numpy.typing import NDArray

INSIDE = Path(__file__).parent / "inside"
FOLDER = "/tmp/.desktop"
START_S = 60.0
ANSWER_S = 60.0
SETTLE_S = 2.0
MOST_ANSWER = 4 << 20
_RUN = "import sys; sys.path.insert(0, sys.argv[1]); from inside.actor import main; main()"
_START = f"""
setsid python3 -c '{_RUN}' "$@" </dev/null >/dev/null 2>{FOLDER}/log &
pid=$!
until [ -S {FOLDER}/door ]; do
  kill -0 $pid 2>/dev/null || {{ tail -c 600 {FOLDER}/log; exit 1; }}
  sleep 0.02
done
"""


class DesktopLost(SandboxLost):
    """The X server or the program that drives it ended; the world failed, not the agent."""


@dataclass(frozen=True)
class View:
    """What is to be seen.

    Attributes:
        tree: visible elements; empty when not asked for.
        screenshot: height × width × 3, or None when not asked for.
        window: title of the active window.
        pointer: x and y in pixels.
        settled: the screen had come to rest.
        ended: exit codes of applications that ended since the last look.
    """

    tree: tuple[Node, ...]
    screenshot: "NDArray[np.uint8] | None"
    window: str
    pointer: tuple[int, int]
    settled: bool
    ended: tuple[int, ...]


class Desktop:
    """See the module. The sandbox stays its owner's; resetting it ends the desktop.

    Args:
        sandbox: of image ``gui``.
        width, height: of the screen, in pixels.

    Raises:
        SetupError: the desktop does not start.
        SandboxLost: the sandbox is gone.
    """

    def __init__(self, sandbox: Sandbox, width: int = 1024, height: int = 768) -> None:
        self.sandbox, self.width, self.height = sandbox, width, height
        self._ids: dict[int, int] = {}
        for path in INSIDE.glob("*.py"):
            sandbox.write_file(f"{FOLDER}/inside/{path.name}", path.read_bytes())
        made = sandbox.exec(
            ["/bin/sh", "-c", _START, "desktop", FOLDER, str(width), str(height)],
            timeout_s=START_S, cwd="/",
        )  # fmt: skip
        # The program's own arguments: $1 is the folder in which its modules lie.
        if made.exit_code != 0:
            raise SetupError(f"the desktop does not start: {made.output.strip()[-400:]}")

    def launch(self, argv: Sequence[str], cwd: str = "/workspace", said: str = "") -> None:
        """Start an application, tell it ``said`` on its standard input and wait for its window.

        Raises:
            SetupError: no window comes.
            SandboxLost: the sandbox is gone.
        """
        answer = self.ask({"op": "launch", "argv": list(argv), "cwd": cwd, "said": said})
        if "error" in answer:
            raise SetupError(f"{argv[0]} does not start: {answer['error']}")

    def step(
        self,
        events: Sequence[Sequence[Any]] = (),
        see: Sequence[str] = ("tree",),
        settle_s: float = SETTLE_S,
    ) -> View:
        """Do events (``envs.gui.inside.hands``), wait until nothing moves, look.

        Raises:
            DesktopLost: the X server ended, or nobody answers.
            SandboxLost: the sandbox is gone.
        """
        request = {"op": "step", "events": events, "settle_s": settle_s, "see": list(see)}
        answer = self.ask(request)
        if "error" in answer:
            raise DesktopLost(f"{self.sandbox.id}: {answer['error']}")
        picture = self._picture(answer["screenshot"]) if "screenshot" in answer else None
        x, y = answer["pointer"]
        return View(
            tree=tuple(nodes(answer.get("tree", ()), self._ids)),
            screenshot=picture,
            window=str(answer["window"]),
            pointer=(x, y),
            settled=bool(answer["settled"]),
            ended=tuple(answer["ended"]),
        )

    def clipboard(self) -> str:
        """Return the clipboard's text. Raises ``SandboxLost``."""
        return str(self.ask({"op": "clipboard"}).get("text", ""))

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the program's answer. Raises ``DesktopLost``, ``SandboxLost``."""
        result = self.sandbox.exec(
            ["socat", "-t", f"{ANSWER_S:.0f}", "-", f"UNIX-CONNECT:{FOLDER}/door"],
            stdin=json.dumps(request).encode(), timeout_s=ANSWER_S, cwd="/",
            max_output_bytes=MOST_ANSWER,
        )  # fmt: skip
        try:
            answer = json.loads(result.output)
        except ValueError:
            said = result.output.strip()[-200:] or f"no answer within {ANSWER_S:.0f} s"
            raise DesktopLost(f"{self.sandbox.id}: the desktop is gone: {said}") from None
        if not isinstance(answer, dict) or "gone" in answer:
            raise DesktopLost(f"{self.sandbox.id}: the desktop is gone: {result.output[:200]}")
        return answer

    def _picture(self, path: str) -> "NDArray[np.uint8]":
        from PIL import Image

        with Image.open(io.BytesIO(self.sandbox.read_file(path))) as image:
            return np.asarray(image.convert("RGB"), dtype=np.uint8)
