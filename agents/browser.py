"""The agent of browsers: ``agents.gui`` with the browser's actions, its dialogs and its tabs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.gui import GuiAgent
from envs.browser.actions import Action, Own, parse, to_text

SYSTEM = (
    "You use a web page. Reply with one action: click 3, fill 3 TEXT, select 3 OPTION, "
    "press Enter, done."
)
SYSTEM_VISION = (
    "You use a web page and see its picture, {width}x{height} pixels. Reply with one action: "
    "click X Y, double X Y, hover X Y, drag X Y X Y, scroll X Y down 3, type TEXT, press ctrl+a, "
    "goto URL, back, tab 2, dialog accept, wait 1, done, fail."
)


@dataclass(frozen=True)
class BrowserAgent(GuiAgent):
    """Prompt and parser; attributes as in ``GuiAgent``, ``screen`` being the page's picture."""

    screen: tuple[int, int] = (640, 480)

    def system(self) -> str:
        """Return the system message."""
        width, height = self.shown
        return SYSTEM if self.sees == "text" else SYSTEM_VISION.format(width=width, height=height)

    def read(self, line: str) -> Action:
        """Return the action of a line. Raises ``BadAction``."""
        return parse(line)

    def write(self, action: Any) -> str:
        """Return the line of an action."""
        return to_text(action)

    def scaled(self, action: Any) -> Any:
        """Return an action of the shown picture as one of the real page."""
        return action if isinstance(action, Own) else super().scaled(action)

    def aside(self, observation: Mapping[str, Any]) -> str:
        """Return what stands before the page: errors, notes, an open dialog, tabs if several."""
        parts = [observation["error"], *observation["notes"].splitlines()]
        if observation["dialog"]:
            parts.append(f"dialog: {observation['dialog']}")
        if "\n" in observation["tabs"]:
            parts.append(f"tabs:\n{observation['tabs']}")
        return "".join(f"[{part}]\n" for part in parts if part)
