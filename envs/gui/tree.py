"""What an agent reads: the tree of accessible elements as records, and as text.

A line is ``[id] role "name" = "value" states @left,top,widthxheight``, indented by depth. Elements
that say nothing and can do nothing (panels, fillers, separators) are left out.

Example:
    >>> node = Node(3, 1, "push button", "Save", None, (10, 20, 80, 30), ())
    >>> render([node])
    '  [3] button "Save" @10,20,80x30'
    >>> compact(render([node]))
    '3 button Save'
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ROLES = {
    "push button": "button", "toggle button": "toggle", "check box": "checkbox",
    "radio button": "radio", "combo box": "combo", "page tab": "tab", "menu item": "item",
    "check menu item": "check item", "radio menu item": "radio item", "table cell": "cell",
    "spin button": "spinner", "password text": "password", "list item": "row", "frame": "window",
    "text": "text", "entry": "text", "icon": "icon", "progress bar": "progress",
}  # fmt: skip
SILENT = {
    "panel", "filler", "separator", "scroll pane", "scroll bar", "page tab list", "root pane",
    "tool bar", "layered pane", "viewport", "split pane", "redundant object", "unknown",
    "application", "grouping", "section", "list", "list box", "tree table", "table", "menu bar",
    "status bar", "status", "image", "tool tip", "option pane",
}  # fmt: skip
PASSIVE = {"label", "frame", "dialog", "window", "alert"}
QUIET = {"sensitive", "editable"}
TOLD = ("checked", "selected", "disabled")
MOST_VALUE = 400


@dataclass(frozen=True)
class Node:
    """An element: id, depth among the shown, role, name, value, box (left, top, width, height) in
    pixels, states."""

    id: int
    depth: int
    role: str
    name: str
    value: str | None
    box: tuple[int, int, int, int]
    states: tuple[str, ...]

    @property
    def center(self) -> tuple[int, int]:
        """The middle of the box."""
        left, top, width, height = self.box
        return left + width // 2, top + height // 2


def nodes(rows: Iterable[Mapping[str, Any]], ids: dict[int, int] | None = None) -> list[Node]:
    """Turn what the sandbox reports into records, without what says nothing.

    Args:
        rows: of ``envs.gui.inside.access``, in document order.
        ids: the short ids given so far, by the sandbox's own; new elements get the next ones, what
            can be used before labels and windows.

    Raises:
        KeyError, TypeError: not rows of that program.
    """
    short = {} if ids is None else ids
    kept = [row for row in rows if row["role"] not in SILENT]
    said = {row["name"] for row in kept if row["role"] not in PASSIVE}
    kept = [row for row in kept if row["role"] != "label" or row["name"] not in said]
    for row in sorted(kept, key=lambda row: row["role"] in PASSIVE):
        short.setdefault(row["id"], len(short) + 1)
    found: list[Node] = []
    depths: list[int] = []
    for row in kept:
        while depths and depths[-1] >= row["depth"]:
            depths.pop()
        left, top, width, height = row["box"]
        found.append(
            Node(
                id=short[row["id"]],
                depth=len(depths),
                role=str(row["role"]),
                name=str(row["name"]),
                value=row.get("value"),
                box=(left, top, width, height),
                states=tuple(row["states"]),
            )
        )
        depths.append(row["depth"])
    return found


def render(tree: Sequence[Node]) -> str:
    """Return the tree as text, see the module."""
    return "\n".join(_line(node) for node in tree)


def _line(node: Node) -> str:
    parts = [f"{'  ' * node.depth}[{node.id}]", ROLES.get(node.role, node.role)]
    if node.name:
        parts.append(json.dumps(node.name, ensure_ascii=False))
    if node.value is not None:
        parts += ["=", json.dumps(node.value[:MOST_VALUE], ensure_ascii=False)]
    parts += [state for state in node.states if state not in QUIET]
    if "sensitive" not in node.states and node.role not in PASSIVE:
        parts.append("disabled")
    left, top, width, height = node.box
    return f"{' '.join(parts)} @{left},{top},{width}x{height}"


_LINE = re.compile(
    r'^ *\[(\d+)\] ([a-z ]+?)(?: ("(?:[^"\\]|\\.)*"))?(?: = ("(?:[^"\\]|\\.)*"))?'
    r"((?: (?:focused|checked|selected|expanded|modal|disabled|offscreen|multiline))*) @[-\d,x]+$"
)


def compact(text: str) -> str:
    """Return the tree's text in fewer words: no boxes, no depth; for small models."""
    lines = []
    for line in text.split("\n"):
        found = _LINE.match(line)
        if not found:
            continue
        number, role, name, value, states = found.groups()
        parts = [number if role != "label" else "-", role]
        parts += [json.loads(name)] if name else []
        parts += [f"= {json.loads(value)}"] if value is not None else []
        shown = [state for state in states.split() if state in ("focused", *TOLD)]
        lines.append(" ".join([*parts, *shown]))
    return "\n".join(lines)
