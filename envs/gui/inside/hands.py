"""Mouse and keyboard through the X server's test extension. Events are checked outside."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

with contextlib.redirect_stdout(open(os.devnull, "w")):  # the library prints when it connects
    from Xlib import XK, X, display
    from Xlib.ext import xtest

UNICODE = 0x01000000
REMAP_S = 0.05
SHIFTS = {"shift": "Shift_L", "ctrl": "Control_L", "alt": "Alt_L", "super": "Super_L"}


class Hands:
    """Does events: ``["move", x, y]``, ``["down"|"up", button]``, ``["keys", names]``,
    ``["hold"|"free", name]``, ``["type", text]``, ``["wait", seconds]``."""

    def __init__(self, name: str) -> None:
        self.display = display.Display(name)
        low, high = self.display.display.info.min_keycode, self.display.display.info.max_keycode
        table = self.display.get_keyboard_mapping(low, high - low + 1)
        self.spare = [low + i for i, row in enumerate(table) if not any(row)]
        self.lent: dict[int, int] = {}

    def await_manager(self, limit_s: float) -> None:
        """Wait for the window manager: a window mapped before it comes is moved and not focused."""
        atom = self.display.intern_atom("_NET_SUPPORTING_WM_CHECK")
        root, end = self.display.screen().root, time.monotonic() + limit_s
        while root.get_full_property(atom, X.AnyPropertyType) is None:
            if time.monotonic() > end:
                raise TimeoutError("the window manager did not start")
            time.sleep(0.01)

    def do(self, events: list[list[Any]]) -> None:
        for kind, *values in events:
            getattr(self, f"do_{kind}")(*values)
        self.display.sync()

    def send(self, kind: int, detail: int = 0, x: int = 0, y: int = 0) -> None:
        xtest.fake_input(self.display, kind, detail, x=x, y=y)

    def do_move(self, x: int, y: int) -> None:
        self.send(X.MotionNotify, 0, x, y)
        self.display.sync()

    def do_down(self, button: int) -> None:
        self.send(X.ButtonPress, button)
        self.display.sync()

    def do_up(self, button: int) -> None:
        self.send(X.ButtonRelease, button)
        self.display.sync()

    def do_wait(self, seconds: float) -> None:
        self.display.sync()
        time.sleep(seconds)

    def do_hold(self, name: str) -> None:
        self.send(X.KeyPress, self.code(XK.string_to_keysym(SHIFTS.get(name, name)))[0])

    def do_free(self, name: str) -> None:
        self.send(X.KeyRelease, self.code(XK.string_to_keysym(SHIFTS.get(name, name)))[0])

    def do_keys(self, names: list[str]) -> None:
        pressed = []
        for name in names:
            symbol = XK.string_to_keysym(SHIFTS.get(name, name))
            if symbol == 0 and len(name) == 1:
                symbol = symbol_of(name)
            code, shifted = self.code(symbol)
            if shifted and "shift" not in names:
                self.do_hold("shift")
                pressed.append(self.code(XK.string_to_keysym("Shift_L"))[0])
            self.send(X.KeyPress, code)
            pressed.append(code)
        for code in reversed(pressed):
            self.send(X.KeyRelease, code)
        self.display.sync()

    def do_type(self, text: str) -> None:
        """Type any text. What the keyboard lacks is put on spare keys first, a batch at a time."""
        symbols = [symbol_of(letter) for letter in text]
        place = 0
        while place < len(symbols):
            batch: set[int] = set()
            end = place
            while end < len(symbols):
                if not self.display.keysym_to_keycodes(symbols[end]):
                    batch.add(symbols[end])
                    if len(batch) > len(self.spare):
                        break
                end += 1
            self.lend(batch - {symbols[end]} if end < len(symbols) else batch)
            for symbol in symbols[place:end]:
                self.press(symbol)
            self.display.sync()
            place = end

    def press(self, symbol: int) -> None:
        code, shifted = self.code(symbol)
        if shifted:
            self.do_hold("shift")
        self.send(X.KeyPress, code)
        self.send(X.KeyRelease, code)
        if shifted:
            self.do_free("shift")

    def lend(self, symbols: set[int]) -> None:
        missing = symbols - set(self.lent)
        if not missing:
            return
        if len(self.lent) + len(missing) > len(self.spare):
            self.display.sync()
            time.sleep(REMAP_S)  # what was typed must be read before its keys change
            self.lent.clear()
            missing = symbols
        free = [code for code in self.spare if code not in self.lent.values()]
        for symbol, code in zip(sorted(missing), free, strict=False):
            self.display.change_keyboard_mapping(code, [[symbol, symbol]])
            self.lent[symbol] = code
        self.display.sync()
        time.sleep(REMAP_S)  # applications read the new map

    def code(self, symbol: int) -> tuple[int, bool]:
        if symbol in self.lent:
            return self.lent[symbol], False
        codes = self.display.keysym_to_keycodes(symbol)
        for code, index in codes:
            if index in (0, 1):
                return code, index == 1
        self.lend({symbol})
        return self.lent[symbol], False


def symbol_of(letter: str) -> int:
    """Return the key symbol of a character."""
    if letter in "\n\r":
        return int(XK.string_to_keysym("Return"))
    if letter == "\t":
        return int(XK.string_to_keysym("Tab"))
    point = ord(letter)
    return point if point < 0x100 else UNICODE + point
