"""The accessibility tree: what is visible, with boxes, states and ids that stay."""

from __future__ import annotations

from typing import Any

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi, GLib  # noqa: E402

MOST_NODES = 800
MOST_DEPTH = 40
STATES = {
    "focused": Atspi.StateType.FOCUSED,
    "checked": Atspi.StateType.CHECKED,
    "selected": Atspi.StateType.SELECTED,
    "expanded": Atspi.StateType.EXPANDED,
    "editable": Atspi.StateType.EDITABLE,
    "sensitive": Atspi.StateType.SENSITIVE,
    "modal": Atspi.StateType.MODAL,
}
CALL_MS = 1500
TEXTS = ("text", "entry", "password text", "terminal", "paragraph")
NUMBERS = ("slider", "spin button", "progress bar")


class Tree:
    """Reads trees and remembers which id it gave to which element."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.ids: dict[Any, int] = {}
        Atspi.init()
        Atspi.set_timeout(CALL_MS, CALL_MS)

    def read(self) -> list[dict[str, Any]]:
        """Return visible elements in document order, each with the depth it stands at."""
        self.nodes: list[dict[str, Any]] = []
        context = GLib.MainContext.default()
        while context.iteration(False):
            pass
        desktop = Atspi.get_desktop(0)
        desktop.clear_cache()
        for index in range(desktop.get_child_count()):
            try:
                app = desktop.get_child_at_index(index)
                if app is None:
                    continue
                app.clear_cache()
                for place in range(app.get_child_count()):
                    self.visit(app.get_child_at_index(place), 0)
            except GLib.Error:
                continue  # an application that is ending or does not answer
        return self.nodes

    def visit(self, element: Any, depth: int) -> None:
        if element is None or depth > MOST_DEPTH or len(self.nodes) >= MOST_NODES:
            return
        states = element.get_state_set()
        if not states.contains(Atspi.StateType.SHOWING):
            return
        box = element.get_extents(Atspi.CoordType.SCREEN)
        inside = box.width > 0 and box.height > 0 and box.x < self.width and box.y < self.height
        inside = inside and box.x + box.width > 0 and box.y + box.height > 0
        if inside:
            self.nodes.append(self.node(element, states, box, depth))
        for index in range(min(element.get_child_count(), MOST_NODES)):
            self.visit(element.get_child_at_index(index), depth + inside)

    def node(self, element: Any, states: Any, box: Any, depth: int) -> dict[str, Any]:
        role = element.get_role_name()
        row = {
            "id": self.ids.setdefault((element.app.bus_name, element.path), len(self.ids) + 1),
            "depth": depth,
            "role": role,
            "name": element.get_name() or "",
            "box": [box.x, box.y, box.width, box.height],
            "states": [name for name, state in STATES.items() if states.contains(state)],
        }
        value = self.value(element, role)
        if value is not None:
            row["value"] = value
        return row

    def value(self, element: Any, role: str) -> str | None:
        try:
            if role in TEXTS and (text := element.get_text_iface()) is not None:
                return str(Atspi.Text.get_text(text, 0, min(text.get_character_count(), 2000)))
            if role in NUMBERS and (number := element.get_value_iface()) is not None:
                return f"{number.get_current_value():g}"
        except GLib.Error:
            return None
        return None
