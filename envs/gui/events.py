"""From an action to the events of mouse and keyboard, checked against screen and tree."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from envs.gui.actions import (
    Action,
    BadAction,
    Click,
    Drag,
    Element,
    Keys,
    Move,
    Named,
    Point,
    Scroll,
    Target,
    Type,
    Wait,
    typeable,
)
from envs.gui.tree import PASSIVE, Node

Event = list[Any]
BUTTONS = {"left": 1, "middle": 2, "right": 3}
WHEEL = {"up": 4, "down": 5, "left": 6, "right": 7}
DRAG_STEPS = 8


def events_of(action: Action, tree: Sequence[Node], width: int, height: int) -> list[Event]:
    """Return events in the order they are done. Raises ``BadAction``."""

    def at(target: Target) -> tuple[int, int]:
        return place(target, tree, width, height)

    match action:
        case Click(target, button, count, hold):
            press = [["down", BUTTONS[button]], ["up", BUTTONS[button]]] * count
            return [
                *([["move", *at(target)]] if target is not None else []),
                *[["hold", key] for key in hold],
                *press,
                *[["free", key] for key in reversed(hold)],
            ]
        case Move(target):
            return [["move", *at(target)]]
        case Drag(path):
            return _drag([at(target) for target in path])
        case Scroll(target, right, down):
            ways = [WHEEL["right" if right > 0 else "left"]] * abs(right)
            ways += [WHEEL["down" if down > 0 else "up"]] * abs(down)
            start = [["move", *at(target)]] if target is not None else []
            return start + [[kind, way] for way in ways for kind in ("down", "up")]
        case Type(text, target):
            typed: list[Event] = [["type", typeable(text)]] if text else []
            if target is None:
                return typed
            click: list[Event] = [["move", *at(target)], ["down", 1], ["up", 1], ["wait", 0.05]]
            clear: list[Event] = [["keys", ["ctrl", "a"]], ["keys", ["Delete"]]]
            return click + clear + typed
        case Keys(keys):
            return [["keys", list(keys)]]
        case Wait(seconds):
            return [["wait", seconds]]
    return []


def _drag(path: Sequence[tuple[int, int]]) -> list[Event]:
    """Move in small steps: applications need some motion to see a drag."""
    events: list[Event] = [["move", *path[0]], ["down", 1], ["wait", 0.05]]
    for (x0, y0), (x1, y1) in pairwise(path):
        for step in range(1, DRAG_STEPS + 1):
            x = x0 + (x1 - x0) * step // DRAG_STEPS
            y = y0 + (y1 - y0) * step // DRAG_STEPS
            events += [["move", x, y], ["wait", 0.01]]
    return [*events, ["wait", 0.05], ["up", 1]]


def place(target: Target, tree: Sequence[Node], width: int, height: int) -> tuple[int, int]:
    """Return the pixel of a target. Raises ``BadAction``: outside, unknown, or not unique."""
    match target:
        case Point(x, y):
            if not (0 <= x < width and 0 <= y < height):
                raise BadAction(f"point {x} {y} is outside the screen of {width}x{height}")
            return x, y
        case Element(id=number):
            found = [node for node in tree if node.id == number]
            if not found:
                ids = ", ".join(str(node.id) for node in tree[:40])
                raise BadAction(f"no element {number} is visible; visible: {ids or 'none'}")
        case Named(name):
            found = [node for node in tree if node.name == name and node.role not in PASSIVE]
            if len(found) != 1:
                raise BadAction(f"{len(found)} elements are called {name[:40]!r}; give an id")
    x, y = found[0].center
    return min(max(x, 0), width - 1), min(max(y, 0), height - 1)
