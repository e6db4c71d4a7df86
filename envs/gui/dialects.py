"""How other systems write desktop actions, read into ours. Nothing is ever evaluated.

``pyautogui`` code (its syntax tree against an allow-list), Anthropic's computer-use tool, OpenAI's
computer-use actions, and Qwen-VL's ``computer_use`` with coordinates from 0 to 999 or in pixels.
Left out, and refused by name: single button presses without release, keys held for a time.

Example:
    >>> from_anthropic({"action": "left_click", "coordinate": [10, 20]})
    (Click(target=Point(x=10, y=20), button='left', count=1, hold=()),)
"""

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any

from envs.gui.actions import (
    MOST_NOTCHES,
    MOST_WAIT_S,
    Action,
    BadAction,
    Button,
    Click,
    Done,
    Drag,
    Fail,
    Keys,
    Move,
    Point,
    Screenshot,
    Scroll,
    Type,
    Wait,
    typeable,
)
from envs.gui.keys import UnknownKey, chord, key

Actions = tuple[Action, ...]
RELATIVE = 1000
PIXELS_A_NOTCH = 100
CLICKS: dict[str, tuple[Button, int]] = {
    "left_click": ("left", 1),
    "right_click": ("right", 1),
    "middle_click": ("middle", 1),
    "double_click": ("left", 2),
    "triple_click": ("left", 3),
}
BUTTONS: dict[str, Button] = {"left": "left", "right": "right", "middle": "middle",
                              "wheel": "middle"}  # fmt: skip
WAYS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}


def from_anthropic(row: Mapping[str, Any]) -> Actions:
    """Read the input of Anthropic's computer-use tool. Raises ``BadAction``."""
    name = row.get("action")
    if name in CLICKS:
        button, count = CLICKS[name]
        place = _pair(row["coordinate"]) if row.get("coordinate") is not None else None
        hold = _keys(_text(row, "text")) if row.get("text") else ()
        return (Click(place, button, count, hold),)
    match name:
        case "mouse_move":
            return (Move(_pair(row.get("coordinate"))),)
        case "left_click_drag":
            return (Drag((_pair(row.get("start_coordinate")), _pair(row.get("coordinate")))),)
        case "type":
            return (Type(typeable(_text(row, "text"))),)
        case "key":
            return tuple(Keys(_keys(part)) for part in _text(row, "text").split())
        case "scroll":
            right, down = _way(row.get("scroll_direction"), row.get("scroll_amount"))
            place = _pair(row["coordinate"]) if row.get("coordinate") is not None else None
            return (Scroll(place, right, down),)
        case "wait":
            return (Wait(_seconds(row.get("duration"))),)
        case "screenshot" | "cursor_position":
            return (Screenshot(),)
    raise BadAction(f"action {name!r} is not supported")


def from_openai(row: Mapping[str, Any]) -> Actions:
    """Read one of OpenAI's computer-use actions. Raises ``BadAction``."""
    match row.get("type"):
        case "click":
            button = BUTTONS.get(str(row.get("button", "left")))
            if button is None:
                raise BadAction(f"button {row.get('button')!r} is not supported")
            return (Click(_point(row), button),)
        case "double_click":
            return (Click(_point(row), "left", 2),)
        case "move":
            return (Move(_point(row)),)
        case "drag":
            path = row.get("path")
            if not isinstance(path, Sequence) or len(path) < 2:
                raise BadAction("drag needs a path of at least two points")
            return (Drag(tuple(_point(place) for place in path)),)
        case "scroll":
            right, down = (_notches(row.get(name, 0)) for name in ("scroll_x", "scroll_y"))
            return (Scroll(_point(row), right, down),)
        case "type":
            return (Type(typeable(_text(row, "text"))),)
        case "keypress":
            names = row.get("keys")
            if not isinstance(names, Sequence) or isinstance(names, str) or not names:
                raise BadAction("keypress needs a list of keys")
            return (Keys(tuple(_key(str(name)) for name in names)),)
        case "wait":
            return (Wait(1.0),)
        case "screenshot":
            return (Screenshot(),)
    raise BadAction(f"action {row.get('type')!r} is not supported")


def from_qwen(row: Mapping[str, Any], width: int, height: int, *, relative: bool = True) -> Actions:
    """Read the arguments of Qwen-VL's ``computer_use``. Raises ``BadAction``.

    Args:
        row: ``action`` with ``coordinate``, ``text``, ``keys``, ``pixels``, ``time``, ``status``.
        width, height: of the screen, in pixels.
        relative: coordinates run from 0 to 999 across the screen; else they are pixels.
    """

    def place() -> Point:
        point = _pair(row.get("coordinate"))
        if not relative:
            return point
        if not (0 <= point.x <= RELATIVE and 0 <= point.y <= RELATIVE):
            raise BadAction(f"coordinate {point.x} {point.y}: give 0 to {RELATIVE - 1}")
        return Point(
            min(point.x * width // RELATIVE, width - 1),
            min(point.y * height // RELATIVE, height - 1),
        )

    name = row.get("action")
    if name in CLICKS:
        button, count = CLICKS[name]
        return (Click(place() if row.get("coordinate") is not None else None, button, count),)
    match name:
        case "mouse_move":
            return (Move(place()),)
        case "type":
            return (Type(typeable(_text(row, "text"))),)
        case "key":
            names = row.get("keys")
            if not isinstance(names, Sequence) or isinstance(names, str) or not names:
                raise BadAction("key needs a list of keys")
            return (Keys(tuple(_key(str(item)) for item in names)),)
        case "scroll":  # positive is up
            down = -_notches(row.get("pixels", 0))
            return (Scroll(place() if row.get("coordinate") is not None else None, 0, down),)
        case "wait":
            return (Wait(_seconds(row.get("time"))),)
        case "terminate":
            return (Done() if row.get("status") == "success" else Fail(),)
    raise BadAction(f"action {name!r} is not supported")


# ----------------------------------------------------------------- pyautogui

NAMES = {
    "click": ("x", "y", "clicks", "interval", "button"),
    "doubleClick": ("x", "y", "interval", "button"),
    "tripleClick": ("x", "y", "interval", "button"),
    "rightClick": ("x", "y"),
    "middleClick": ("x", "y"),
    "moveTo": ("x", "y", "duration"),
    "write": ("message", "interval"),
    "typewrite": ("message", "interval"),
    "press": ("keys", "presses", "interval"),
    "scroll": ("clicks", "x", "y"),
    "hscroll": ("clicks", "x", "y"),
    "sleep": ("seconds",),
}
COUNTS = {"click": 1, "doubleClick": 2, "tripleClick": 3, "rightClick": 1, "middleClick": 1}


def from_pyautogui(code: str) -> Actions:
    """Read calls of ``pyautogui`` and ``time.sleep`` with literal arguments, and the words DONE,
    FAIL and WAIT. Imports of the two are passed over. Raises ``BadAction``."""
    bare: dict[str, Action] = {"DONE": Done(), "FAIL": Fail(), "WAIT": Wait(1.0)}
    if code.strip() in bare:
        return (bare[code.strip()],)
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadAction(f"this is no Python: {error}") from None
    found: list[Action] = []
    for line in body:
        if isinstance(line, ast.Import) and all(
            alias.name in ("pyautogui", "time") and alias.asname is None for alias in line.names
        ):
            continue
        if not isinstance(line, ast.Expr) or not isinstance(line.value, ast.Call):
            raise BadAction(f"line {line.lineno}: only calls of pyautogui are carried out")
        found += _call(line.value)
    if not found:
        raise BadAction("the code does nothing")
    return tuple(found)


def _call(call: ast.Call) -> list[Action]:
    match call.func:
        case ast.Attribute(value=ast.Name(id="pyautogui"), attr=name) if name != "sleep":
            pass
        case ast.Attribute(value=ast.Name(id="time" | "pyautogui"), attr="sleep"):
            name = "sleep"
        case _:
            raise BadAction(f"{ast.unparse(call.func)[:40]} is not allowed")
    try:
        given = [ast.literal_eval(item) for item in call.args]
        named = {item.arg: ast.literal_eval(item.value) for item in call.keywords}
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise BadAction(f"{name}: arguments must be plain values") from None
    if name == "hotkey":
        given = given[0] if len(given) == 1 and isinstance(given[0], list) else given
        return [Keys(tuple(_key(str(item)) for item in given))]
    if name not in NAMES:
        raise BadAction(f"pyautogui.{name} is not supported; choose one of {', '.join(NAMES)}")
    if len(given) > len(NAMES[name]) or not set(named) <= set(NAMES[name]):
        raise BadAction(f"pyautogui.{name} takes {', '.join(NAMES[name])}")
    values: dict[str, Any] = dict(zip(NAMES[name], given, strict=False)) | {
        str(word): value for word, value in named.items()
    }
    return _pyautogui(name, values)


def _pyautogui(name: str, values: dict[str, Any]) -> list[Action]:
    place = _pair((values["x"], values.get("y"))) if values.get("x") is not None else None
    if name in COUNTS:
        default = {"rightClick": "right", "middleClick": "middle"}.get(name, "left")
        button = BUTTONS.get(str(values.get("button", default)))
        count = values.get("clicks", COUNTS[name])
        if button is None or not isinstance(count, int) or not 1 <= count <= 3:
            raise BadAction(f"{name}: button left, right or middle, one to three clicks")
        return [Click(place, button, count)]
    match name:
        case "moveTo" if place is not None:
            return [Move(place)]
        case "write" | "typewrite":
            message = values.get("message")
            if isinstance(message, list):
                return [Keys((_key(str(item)),)) for item in message]
            return [Type(typeable(str(message)))]
        case "press":
            keys = values.get("keys")
            times = values.get("presses", 1)
            if not isinstance(times, int) or not 1 <= times <= MOST_NOTCHES:
                raise BadAction(f"press: presses from 1 to {MOST_NOTCHES}")
            names = keys if isinstance(keys, list) else [keys]
            return [Keys((_key(str(item)),)) for item in names * times]
        case "scroll" | "hscroll":
            count = values.get("clicks")
            if not isinstance(count, int) or abs(count) > MOST_NOTCHES:
                raise BadAction(f"{name}: clicks from -{MOST_NOTCHES} to {MOST_NOTCHES}")
            return [Scroll(place, count, 0) if name == "hscroll" else Scroll(place, 0, -count)]
        case "sleep":
            return [Wait(_seconds(values.get("seconds")))]
    raise BadAction(f"pyautogui.{name} needs {', '.join(NAMES[name])}")


# ----------------------------------------------------------------- values


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadAction(f"{what} {str(value)[:20]!r}: give a number")
    return float(value)


def _pair(value: Any) -> Point:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise BadAction(f"coordinate {str(value)[:30]!r}: give x and y")
    return Point(round(_number(value[0], "x")), round(_number(value[1], "y")))


def _point(row: Any) -> Point:
    if not isinstance(row, Mapping):
        raise BadAction(f"point {str(row)[:30]!r}: give x and y")
    return _pair((row.get("x"), row.get("y")))


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise BadAction(f"{name} is required for {row.get('action', row.get('type'))}")
    return value


def _keys(text: str) -> tuple[str, ...]:
    try:
        return chord(text)
    except UnknownKey as error:
        raise BadAction(str(error)) from None


def _key(name: str) -> str:
    try:
        return key(name)
    except UnknownKey as error:
        raise BadAction(str(error)) from None


def _seconds(value: Any) -> float:
    seconds = _number(1.0 if value is None else value, "seconds")
    if not 0 <= seconds <= MOST_WAIT_S:
        raise BadAction(f"{seconds:g} seconds: give 0 to {MOST_WAIT_S:g}")
    return seconds


def _notches(pixels: Any) -> int:
    """Return wheel notches for pixels, at least one for any motion."""
    amount = _number(pixels, "scroll")
    if amount == 0:
        return 0
    count = max(1, round(abs(amount) / PIXELS_A_NOTCH))
    return int(math.copysign(min(count, MOST_NOTCHES), amount))


def _way(direction: Any, amount: Any) -> tuple[int, int]:
    count = int(_number(3 if amount is None else amount, "scroll_amount"))
    if direction not in WAYS or not 0 <= count <= MOST_NOTCHES:
        raise BadAction(f"scroll {direction!r} {count}: up, down, left or right, to {MOST_NOTCHES}")
    right, down = WAYS[direction]
    return right * count, down * count
