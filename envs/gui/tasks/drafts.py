"""What a template of desktop tasks draws, and the groups templates stand in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from envs.terminal.draw import Draw, Level

Row = dict[str, Any]


@dataclass(frozen=True)
class Draft:
    """One problem.

    Attributes:
        instruction: in words.
        oracle: actions that solve it, without the last ``done``.
        checks: the goal state, see ``envs.gui.checks``.
        form: a window of our own, see ``envs.gui.inside.form``.
        files, apps: see ``DesktopEnv``.
    """

    instruction: str
    oracle: tuple[str, ...]
    checks: list[dict[str, Any]]
    form: Mapping[str, Any] | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    apps: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Template:
    """A family of problems; one that is ``heldout`` has no task in training."""

    name: str
    level: Level
    heldout: bool
    make: Callable[[Draw], Draft]


class Group:
    """Templates of one kind; ``group.template(level)`` adds the function below it."""

    def __init__(self) -> None:
        self.templates: list[Template] = []

    def template(
        self, level: Level, *, heldout: bool = False
    ) -> Callable[[Callable[[Draw], Draft]], Callable[[Draw], Draft]]:
        """Register a function as a template called by the function's name."""

        def register(make: Callable[[Draw], Draft]) -> Callable[[Draw], Draft]:
            self.templates.append(Template(make.__name__, level, heldout, make))
            return make

        return register


def start(rows: list[Row]) -> dict[str, Any]:
    """Return the values that a window of these rows starts with."""
    values: dict[str, Any] = {}
    for row in rows:
        match row["kind"]:
            case "entry":
                values[row["name"]] = row.get("text", "")
            case "check":
                values[row["name"]] = row.get("on", False)
            case "spin":
                values[row["name"]] = row.get("number", 0)
            case "radio" | "combo":
                values[row["name"]] = row["options"][0]
    return values


def ids(rows: list[Row]) -> dict[str, int]:
    """Return the element id of every row's widget, of every option of a radio row, by name."""
    numbers: dict[str, int] = {}
    for row in rows:
        if row["kind"] == "radio":
            for option in row["options"]:
                numbers[option] = len(numbers) + 1
        elif row["kind"] != "label":
            numbers[row["name"]] = len(numbers) + 1
    return numbers


def goal(
    rows: list[Row], pressed: tuple[str, ...] = (), changed: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the check for a window that differs from its start by ``changed`` and ``pressed``."""
    return {"kind": "form", "values": start(rows) | dict(changed or {}), "pressed": list(pressed)}
