"""What an agent can do on a desktop, and the short language it is written in.

    click 3            element 3; also double, right, middle, move
    click 120 45       a point of the screen
    click "Save"       the one element of that name
    drag 3 200 80      from a place to a place
    scroll 3 down 2    notches; also up, left, right; a place is not needed
    type TEXT          into what has the focus; fill 3 TEXT replaces what element 3 holds
    key ctrl+s         a chord
    wait 0.5, screenshot, done, fail

Text that starts with ``"`` is a JSON string: the way to write line ends and outer blanks. Other
systems' ways are in ``envs.gui.dialects``.

Example:
    >>> parse("fill 3 hello you")
    Type(text='hello you', target=Element(id=3))
    >>> to_text(parse("double 10 20"))
    'double 10 20'
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from envs.gui.keys import UnknownKey, chord

MOST_TEXT = 4000
MOST_NOTCHES = 50
MOST_WAIT_S = 10.0
Button = Literal["left", "right", "middle"]


class BadAction(ValueError):
    """Text that is no action, or one that cannot be done. The message is what the agent sees."""


@dataclass(frozen=True)
class Point:
    """Pixels from the screen's left and top edge."""

    x: int
    y: int


@dataclass(frozen=True)
class Element:
    """An element by the id it has in the tree."""

    id: int


@dataclass(frozen=True)
class Named:
    """The one visible element of a name."""

    name: str


Target = Point | Element | Named


@dataclass(frozen=True)
class Click:
    """Press and release a button ``count`` times; ``hold`` are modifiers held meanwhile."""

    target: Target | None
    button: Button = "left"
    count: int = 1
    hold: tuple[str, ...] = ()


@dataclass(frozen=True)
class Move:
    """Move the pointer."""

    target: Target


@dataclass(frozen=True)
class Drag:
    """Press the left button at the first of at least two places, release it at the last."""

    path: tuple[Target, ...]


@dataclass(frozen=True)
class Scroll:
    """Turn the wheel: notches to the right and down, negative ones to the left and up."""

    target: Target | None
    right: int = 0
    down: int = 0


@dataclass(frozen=True)
class Type:
    """Type any text; with a target, in place of what that holds."""

    text: str
    target: Target | None = None


@dataclass(frozen=True)
class Keys:
    """Press keys together, by the names of ``envs.gui.keys``."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class Wait:
    """Let time pass."""

    seconds: float = 1.0


@dataclass(frozen=True)
class Screenshot:
    """Look, and do nothing."""


@dataclass(frozen=True)
class Clipboard:
    """Look at the clipboard."""


@dataclass(frozen=True)
class Done:
    """The agent holds the task to be done."""


@dataclass(frozen=True)
class Fail:
    """The agent holds the task to be impossible."""


Action = Click | Move | Drag | Scroll | Type | Keys | Wait | Screenshot | Clipboard | Done | Fail

CLICKS: dict[str, tuple[Button, int]] = {
    "click": ("left", 1),
    "double": ("left", 2),
    "triple": ("left", 3),
    "right": ("right", 1),
    "middle": ("middle", 1),
}
BARE: dict[str, Action] = {
    "screenshot": Screenshot(),
    "clipboard": Clipboard(),
    "done": Done(),
    "fail": Fail(),
}
WORDS = (*CLICKS, "move", "drag", "scroll", "type", "fill", "key", "wait", *BARE)
WAYS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
_PLACE = re.compile(
    r'\s*(?:(-?\d{1,6})[ ,]+(-?\d{1,6})(?=\s|$)|(\d{1,6})(?=\s|$)|("(?:[^"\\]|\\.)*"))'
)


def parse(text: str) -> Action:
    """Return the action that a text says. Raises ``BadAction``."""
    word, _, rest = text.strip("\n").lstrip().partition(" ")
    word = word.strip()
    if word in BARE:
        if rest.strip():
            raise BadAction(f"{word} stands alone")
        return BARE[word]
    try:
        return _parse(word, rest)
    except UnknownKey as error:
        raise BadAction(str(error)) from None


def _parse(word: str, rest: str) -> Action:
    if word in CLICKS:
        button, count = CLICKS[word]
        return Click(_only_place(word, rest), button, count) if rest.strip() else Click(
            None, button, count)  # fmt: skip
    makers: dict[str, Callable[[str], Action]] = {
        "move": lambda rest: Move(_only_place("move", rest)),
        "drag": _drag,
        "scroll": _scroll,
        "type": lambda rest: Type(_words(rest)),
        "fill": _fill,
        "key": lambda rest: Keys(chord(rest.strip())),
        "wait": _wait,
    }
    if word not in makers:
        raise BadAction(f"no action {word[:20]!r}: choose one of {', '.join(WORDS)}")
    return makers[word](rest)


def _place(word: str, rest: str) -> tuple[Target, str]:
    found = _PLACE.match(rest)
    if not found:
        raise BadAction(
            f"{word} needs a place: an element ({word} 3), a point ({word} 120 45) or a name "
            f'({word} "Save")'
        )
    x, y, element, name = found.groups()
    left = rest[found.end() :]
    if x is not None:
        return Point(int(x), int(y)), left
    if element is not None:
        return Element(int(element)), left
    return Named(_json_text(name)), left


def _only_place(word: str, rest: str) -> Target:
    target, left = _place(word, rest)
    if left.strip():
        raise BadAction(f"{word} takes one place; {left.strip()[:20]!r} is too much")
    return target


def _drag(rest: str) -> Drag:
    path: list[Target] = []
    numbers = rest.split()
    if len(numbers) == 2 and all(number.isdigit() for number in numbers):
        return Drag((Element(int(numbers[0])), Element(int(numbers[1]))))
    if len(numbers) == 3 and all(number.isdigit() for number in numbers):
        return Drag((Element(int(numbers[0])), Point(int(numbers[1]), int(numbers[2]))))
    while rest.strip():
        target, rest = _place("drag", rest)
        path.append(target)
    if len(path) < 2:
        raise BadAction("drag needs two places: drag 3 5, drag 3 200 80, drag 10 20 200 80")
    return Drag(tuple(path))


def _scroll(rest: str) -> Scroll:
    parts = rest.rsplit(maxsplit=2)
    count = "1"
    if parts and parts[-1].isdigit() and len(parts) > 1 and parts[-2] in WAYS:
        count = parts[-1]
        place, way = (parts[0] if len(parts) == 3 else ""), parts[-2]
    elif parts and parts[-1] in WAYS:
        place, way = rest.rstrip()[: -len(parts[-1])], parts[-1]
    else:
        raise BadAction("scroll needs a way: scroll down 3, scroll 4 up, scroll 120 45 left 2")
    if int(count) > MOST_NOTCHES:
        raise BadAction(f"scroll {count}: at most {MOST_NOTCHES}")
    right, down = (step * int(count) for step in WAYS[way])
    return Scroll(_only_place("scroll", place) if place.strip() else None, right, down)


def _fill(rest: str) -> Type:
    target, left = _place("fill", rest)
    if isinstance(target, Point) and not left.strip():  # an element and a number to fill in
        word, _, left = rest.strip().partition(" ")
        target = Element(int(word.strip(",")))
    return Type(_words(left.removeprefix(" "), empty=True), target)


def _wait(rest: str) -> Wait:
    try:
        seconds = float(rest or "1")
    except ValueError:
        raise BadAction(f"wait {rest[:20]!r}: give seconds") from None
    if not math.isfinite(seconds) or not 0 <= seconds <= MOST_WAIT_S:
        raise BadAction(f"wait {rest}: give seconds from 0 to {MOST_WAIT_S:g}")
    return Wait(seconds)


def _words(rest: str, *, empty: bool = False) -> str:
    text = _json_text(rest) if rest.startswith('"') and rest.rstrip().endswith('"') else rest
    if not text and not empty:
        raise BadAction("type needs a text")
    return typeable(text)


def typeable(text: str) -> str:
    """Return a text that can be typed. Raises ``BadAction``."""
    if len(text) > MOST_TEXT:
        raise BadAction(f"{len(text)} characters: at most {MOST_TEXT} at once")
    for letter in text:
        if (ord(letter) < 32 and letter not in "\n\t\r") or 0xD800 <= ord(letter) < 0xE000:
            raise BadAction(f"character {letter!r} cannot be typed")
    return text


def _json_text(text: str) -> str:
    try:
        value = json.loads(text.strip())
    except ValueError:
        return text
    return value if isinstance(value, str) else text


def to_text(action: Action) -> str:
    """Return the text that ``parse`` reads back. ``hold`` and three or more names are not written;
    raises ``ValueError`` for them."""
    for word, action_ in BARE.items():
        if action == action_:
            return word
    match action:
        case Click(target, button, count, ()):
            for word, what in CLICKS.items():
                if what == (button, count):
                    return f"{word} {_place_text(target)}".rstrip()
        case Move(target):
            return f"move {_place_text(target)}"
        case Drag(path):
            return "drag " + " ".join(_place_text(place) for place in path)
        case Scroll(target, right, down) if not (right and down):
            way = next(w for w, (x, y) in WAYS.items() if x * right + y * down > 0)
            return f"scroll {_place_text(target)} {way} {abs(right or down)}".replace("  ", " ")
        case Type(text, None):
            return f"type {_text(text)}"
        case Type(text, target):
            numbers = isinstance(target, Element) and re.match(r"-?\d+[ ,]", text)
            written = json.dumps(text, ensure_ascii=False) if numbers else _text(text)
            return f"fill {_place_text(target)} {written}"
        case Keys(keys):
            return "key " + "+".join(keys)
        case Wait(seconds):
            return f"wait {seconds:g}"
    raise ValueError(f"{action} has no short form")


def _place_text(target: Target | None) -> str:
    match target:
        case Point(x, y):
            return f"{x} {y}"
        case Element(id=number):
            return str(number)
        case Named(name):
            return json.dumps(name, ensure_ascii=False)
    return ""


def _text(text: str) -> str:
    plain = text and text == text.strip() and not text.startswith('"') and text.isprintable()
    return text if plain else json.dumps(text, ensure_ascii=False)
