"""Episodes as animated pictures: every action drawn onto what was seen before it.

An environment made with ``record=FOLDER`` writes one file an episode, when that ends or the next
begins. ``python -m envs.gui record`` plays a task's oracle and writes it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.gui.drawing import with_action
from envs.gui.tree import Node

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

FRAME_MS = 900
LAST_MS = 2500
MOST_FRAMES = 500


class Recording:
    """The frames of one episode at a time.

    Args:
        folder: where files go, made at need.
        kind: ``webp`` or ``gif``.

    Raises:
        ValueError: another kind.
    """

    def __init__(self, folder: Path, kind: str = "webp") -> None:
        if kind not in ("webp", "gif"):
            raise ValueError(f"kind={kind!r}: choose webp or gif")
        self.folder, self.kind = folder, kind
        self.written: list[Path] = []
        self._name = ""
        self._frames: list[Image.Image] = []

    def begin(self, name: str) -> None:
        """Start an episode; one that was not ended is written first."""
        self.end()
        self._name = name.replace("/", "_")

    def add(
        self, picture: "NDArray[np.uint8] | None", action: Any, tree: Sequence[Node], caption: str
    ) -> None:
        """Add what was seen before an action; nothing where there is no picture."""
        if picture is not None and self._name and len(self._frames) < MOST_FRAMES:
            self._frames.append(with_action(picture, action, tree, caption))

    def end(self) -> Path | None:
        """Write the episode and return its file; None when there is nothing to write."""
        frames, self._frames = self._frames, []
        name, self._name = self._name, ""
        if not frames:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        number = sum(1 for _ in self.folder.glob(f"{name}-*.{self.kind}"))
        path = self.folder / f"{name}-{number:03d}.{self.kind}"
        times = [FRAME_MS] * (len(frames) - 1) + [LAST_MS]
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=times, loop=0)
        self.written.append(path)
        return path
