"""The agent of desktops: it reads the tree, sees the screen, or both, and says one short action.

``text`` shows the tree in few words and suits small models; ``vision`` shows the last screenshots,
scaled down to what the model takes, and scales its coordinates back up; ``both`` shows both. The
action is the last line of a reply, in the language of ``envs.gui.actions``.
"""

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agents.protocol import ParseError
from agents.shell import shorten
from envs.gui.actions import (
    BadAction,
    Click,
    Drag,
    Move,
    Point,
    Scroll,
    Target,
    Type,
    to_text,
)
from envs.gui.actions import parse as parse_action
from envs.gui.tree import compact
from envs.types import Task
from serving.types import Message, Reply

Sees = Literal["text", "vision", "both"]
SYSTEM = (
    "You use a desktop. Reply with one action: click 3, fill 3 TEXT, type TEXT, key ctrl+s, done."
)
SYSTEM_VISION = (
    "You use a desktop and see its screen, {width}x{height} pixels. Reply with one action: "
    "click X Y, double X Y, right X Y, drag X Y X Y, scroll X Y down 3, type TEXT, key ctrl+s, "
    "wait 1, done, fail."
)


@dataclass(frozen=True)
class GuiAgent:
    """Prompt and parser.

    Attributes:
        sees: see the module; the environment must show what is asked for.
        max_tree_chars: most characters of a tree shown; head and tail are kept.
        screen: width and height of the real screen, in pixels.
        most_pixels: longest side of the picture the model sees.
    """

    sees: Sees = "text"
    max_tree_chars: int = 1200
    screen: tuple[int, int] = (1024, 768)
    most_pixels: int = 1024

    def system(self) -> str:
        """Return the system message."""
        width, height = self.shown
        return SYSTEM if self.sees == "text" else SYSTEM_VISION.format(width=width, height=height)

    def read(self, line: str) -> Any:
        """Return the action of a line. Raises ``BadAction``."""
        return parse_action(line)

    def write(self, action: Any) -> str:
        """Return the line of an action."""
        return to_text(action)

    @property
    def shown(self) -> tuple[int, int]:
        """Width and height of the picture the model sees, in pixels."""
        scale = min(1.0, self.most_pixels / max(self.screen))
        return round(self.screen[0] * scale), round(self.screen[1] * scale)

    def begin(self, task: Task, observation: Mapping[str, Any]) -> list[Message]:
        """Return system and user message of the task."""
        first = f"{observation['instruction']}\n"
        return [{"role": "system", "content": self.system()}, self._message(observation, first)]

    def parse(self, reply: Reply) -> str:
        """Return the action. Raises ``ParseError`` with what the model should do instead."""
        if reply.generation.finish_reason == "length":
            cut = len(reply.generation.token_ids_T)
            raise ParseError(f"Your reply was cut off after {cut} tokens. Be shorter.")
        lines = [line for line in reply.text.strip().strip("`").splitlines() if line.strip()]
        if not lines:
            raise ParseError("Your reply held no action.")
        try:
            action = self.read(lines[-1].strip())
        except BadAction as error:
            raise ParseError(str(error)) from None
        if self.sees == "text" or self.shown == self.screen:
            return lines[-1].strip()
        return self.write(self.scaled(action))

    def observe(self, observation: Mapping[str, Any]) -> Message:
        """Return what is to be seen, and what was wrong with the last action."""
        return self._message(observation, self.aside(observation))

    def aside(self, observation: Mapping[str, Any]) -> str:
        """Return what stands before the screen: what was wrong with the last action."""
        return f"[{observation['error']}]\n" if observation["error"] else ""

    def complain(self, error: ParseError) -> Message:
        """Return the parser's reason."""
        return {"role": "user", "content": f"[{error}]"}

    def scaled(self, action: Any) -> Any:
        """Return an action of the shown picture as one of the real screen."""
        match action:
            case Click(target, button, count, hold) if target is not None:
                return Click(self._up(target), button, count, hold)
            case Move(target):
                return Move(self._up(target))
            case Drag(path):
                return Drag(tuple(self._up(place) for place in path))
            case Scroll(target, right, down) if target is not None:
                return Scroll(self._up(target), right, down)
            case Type(text, target) if target is not None:
                return Type(text, self._up(target))
        return action

    def _up(self, target: Target) -> Target:
        if not isinstance(target, Point):
            return target
        (width, height), (shown_width, shown_height) = self.screen, self.shown
        return Point(
            round((target.x + 0.5) * width / shown_width - 0.5),
            round((target.y + 0.5) * height / shown_height - 0.5),
        )

    def _message(self, observation: Mapping[str, Any], before: str) -> Message:
        text = before
        if self.sees in ("text", "both"):
            text += shorten(compact(str(observation["tree"])), self.max_tree_chars)
        if self.sees == "text":
            return {"role": "user", "content": text or "[nothing is visible]"}
        picture = {"type": "image_url", "image_url": {"url": self._picture(observation)}}
        return {"role": "user", "content": [{"type": "text", "text": text or "Screen:"}, picture]}

    def _picture(self, observation: Mapping[str, Any]) -> str:
        from PIL import Image

        image = Image.fromarray(observation["screenshot"])
        if image.size != self.shown:
            image = image.resize(self.shown, Image.Resampling.LANCZOS)
        data = io.BytesIO()
        image.save(data, "PNG")
        return "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()
