"""What an agent can do in a browser, and the language it is written in.

All of ``envs.gui.actions`` (``click 3``, ``fill 3 TEXT``, ``scroll down 2``, ``drag 3 5``, places
as points of the page's picture, ``done``, ``fail``), and

    select 4 "Red"         one or more options of a list; an option's own id is chosen by click
    hover 3                move the mouse there
    press ctrl+a           a chord; press 3 Enter has element 3 focused first
    upload 5 notes.txt     a file that the task grants
    goto URL, back, forward, reload
    tab 2, tab new, tab close
    dialog accept, dialog accept TEXT, dialog dismiss

Example:
    >>> parse('select 4 "Dark red" blue')
    Select(target=Element(id=4), labels=('Dark red', 'blue'))
    >>> parse("tab 2")
    Tab(what='2')
"""

import json
import re
from dataclasses import dataclass
from typing import Literal

from envs.gui import actions as gui
from envs.gui.actions import BadAction, Element, Keys, Move, Named, Target
from envs.gui.keys import UnknownKey, chord

MOST_URL = 2000


@dataclass(frozen=True)
class Select:
    """Choose exactly these options of a list, by label or value."""

    target: Target
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Press:
    """Press a chord with an element focused."""

    keys: tuple[str, ...]
    target: Target


@dataclass(frozen=True)
class Upload:
    """Give a file of the task to a file field."""

    target: Target
    name: str


@dataclass(frozen=True)
class Goto:
    """Load an address in the active tab."""

    url: str


@dataclass(frozen=True)
class History:
    """Move in the history of the active tab."""

    way: Literal["back", "forward", "reload"]


@dataclass(frozen=True)
class Tab:
    """``new``, ``close``, or the number of the tab to bring to the front, from 1."""

    what: str


@dataclass(frozen=True)
class Dialog:
    """Answer the open dialog."""

    accept: bool
    text: str | None = None


Own = Select | Press | Upload | Goto | History | Tab | Dialog
Action = gui.Action | Own
OWN_WORDS = ("select", "hover", "press", "upload", "goto", "back", "forward", "reload", "tab",
             "dialog")  # fmt: skip
WORDS = tuple(word for word in (*gui.WORDS, *OWN_WORDS) if word != "clipboard")
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\S+)')


def parse(text: str) -> Action:
    """Return the action that a text says. Raises ``BadAction``."""
    word, _, rest = text.strip("\n").lstrip().partition(" ")
    word, rest = word.strip(), rest.strip()
    if word == "clipboard" or (word not in OWN_WORDS and word not in gui.WORDS):
        raise BadAction(f"no action {word[:20]!r}: choose one of {', '.join(WORDS)}")
    if word not in OWN_WORDS:
        return gui.parse(text)
    try:
        return _parse(word, rest)
    except UnknownKey as error:
        raise BadAction(str(error)) from None


def _parse(word: str, rest: str) -> Action:
    if word in ("back", "forward", "reload"):
        if rest:
            raise BadAction(f"{word} stands alone")
        return History(word)  # type: ignore[arg-type]
    match word:
        case "hover":
            move = gui.parse(f"move {rest}")
            assert isinstance(move, Move)
            return move
        case "goto":
            if not rest or len(rest) > MOST_URL or any(c.isspace() for c in rest):
                raise BadAction(f"goto needs one address of at most {MOST_URL} characters")
            return Goto(rest)
        case "tab":
            if rest not in ("new", "close") and not (rest.isdigit() and len(rest) < 4):
                raise BadAction("tab needs a number, new or close: tab 2")
            return Tab(rest)
        case "dialog":
            return _dialog(rest)
        case "press":
            return _press(rest)
    words = [_word(token) for token in _TOKEN.findall(rest)]
    if len(words) < 2:
        raise BadAction(f"{word} needs an element and a text: {word} 3 "
                        + ("notes.txt" if word == "upload" else "Red"))  # fmt: skip
    target = _target(words[0], quoted=rest.startswith('"'))
    if word == "select":
        return Select(target, _labels(rest, words))
    return Upload(target, " ".join(words[1:]))


def _labels(rest: str, words: list[str]) -> tuple[str, ...]:
    """Without quotation marks everything behind the element is one label."""
    behind = _TOKEN.sub("", rest, count=1).strip()
    return tuple(words[1:]) if '"' in behind else (behind,)


def _target(word: str, *, quoted: bool) -> Target:
    if quoted:
        return Named(word)
    if not word.isdigit() or len(word) > 6:
        raise BadAction(f"{word[:20]!r} is no element: give its number or its name in quotes")
    return Element(int(word))


def _word(token: str) -> str:
    if token.startswith('"') and token.endswith('"') and len(token) > 1:
        try:
            return str(json.loads(token))
        except ValueError:
            return token
    return token


def _press(rest: str) -> Action:
    first, _, keys = rest.partition(" ")
    if first.isdigit() and keys.strip() and len(first) < 7:
        return Press(chord(keys.strip()), Element(int(first)))
    if not rest:
        raise BadAction("press needs a key: press Enter, press 3 ctrl+a")
    return Keys(chord(rest))


def _dialog(rest: str) -> Dialog:
    word, _, text = rest.partition(" ")
    if word == "dismiss" and not text.strip():
        return Dialog(False)
    if word == "accept":
        return Dialog(True, gui.typeable(_word(text)) if text else None)
    raise BadAction("dialog needs accept (with a text where it asks for one) or dismiss")


def to_text(action: Action) -> str:
    """Return the text that ``parse`` reads back. Raises ``ValueError``: no short form."""
    match action:
        case Select(target, labels):
            quoted = " ".join(json.dumps(label, ensure_ascii=False) for label in labels)
            return f"select {_place(target)} {quoted}"
        case Press(keys, target):
            return f"press {_place(target)} {'+'.join(keys)}"
        case Upload(target, name):
            return f"upload {_place(target)} {json.dumps(name, ensure_ascii=False)}"
        case Goto(url):
            return f"goto {url}"
        case History(way):
            return way
        case Tab(what):
            return f"tab {what}"
        case Dialog(True, text):
            return f"dialog accept {json.dumps(text, ensure_ascii=False) if text else ''}".rstrip()
        case Dialog():
            return "dialog dismiss"
    return gui.to_text(action)


def _place(target: Target) -> str:
    match target:
        case Element(id=number):
            return str(number)
        case Named(name):
            return json.dumps(name, ensure_ascii=False)
    raise ValueError(f"{target} is no element")
