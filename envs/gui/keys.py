"""Names of keys: what the X server calls them, and what others call them.

Example:
    >>> chord("Ctrl+Shift+Enter")
    ('ctrl', 'shift', 'Return')
"""

MODIFIERS = ("ctrl", "alt", "shift", "super")
ALIASES = {
    "control": "ctrl", "control_l": "ctrl", "control_r": "ctrl", "ctrlleft": "ctrl",
    "ctrlright": "ctrl", "alt_l": "alt", "alt_r": "alt", "option": "alt", "altleft": "alt",
    "altright": "alt", "shift_l": "shift", "shift_r": "shift", "shiftleft": "shift",
    "shiftright": "shift", "win": "super", "cmd": "super", "command": "super", "meta": "super",
    "super_l": "super", "winleft": "super", "enter": "Return", "return": "Return",
    "kp_enter": "KP_Enter", "esc": "Escape", "escape": "Escape", "tab": "Tab", "space": "space",
    "backspace": "BackSpace", "delete": "Delete", "del": "Delete", "insert": "Insert",
    "home": "Home", "end": "End", "pageup": "Page_Up", "page_up": "Page_Up", "pgup": "Page_Up",
    "prior": "Page_Up", "pagedown": "Page_Down", "page_down": "Page_Down", "pgdn": "Page_Down",
    "next": "Page_Down", "up": "Up", "down": "Down", "left": "Left", "right": "Right",
    "arrowup": "Up", "arrowdown": "Down", "arrowleft": "Left", "arrowright": "Right",
    "menu": "Menu", "apps": "Menu", "plus": "plus", "minus": "minus", "capslock": "Caps_Lock",
    **{f"f{number}": f"F{number}" for number in range(1, 13)},
}  # fmt: skip


class UnknownKey(ValueError):
    """A key nobody knows by this name. The message is what the agent sees."""


def key(name: str) -> str:
    """Return our name of a key: a modifier, an X name, or one character. Raises ``UnknownKey``."""
    plain = name.strip().lower()
    if plain in MODIFIERS:
        return plain
    if plain in ALIASES:
        return ALIASES[plain]
    if len(name) == 1 and name.isprintable():
        return name
    raise UnknownKey(
        f"no key {name[:20]!r}: give one character, a modifier ({', '.join(MODIFIERS)}) or a name "
        "such as enter, tab, esc, backspace, delete, home, end, pageup, pagedown, up, down, left, "
        "right, f1"
    )


def chord(text: str) -> tuple[str, ...]:
    """Return the keys of a chord written with ``+``. Raises ``UnknownKey``."""
    if text == "+":
        return ("+",)
    parts = text.split("+") if not text.endswith("++") else [*text[:-2].split("+"), "+"]
    return tuple(key(part) for part in parts)
