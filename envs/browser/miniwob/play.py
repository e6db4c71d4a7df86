"""The scripted oracle at play: a solver looks at the page, acts, and looks again.

Solvers see what an agent sees (the goal in words and the tree) and do what an agent does; what they
did is the task's oracle, to be played again from the same seed.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from envs.core import TaskEnv
from envs.gui.tree import Node
from envs.types import Task

Solver = Callable[["Play"], None]
MOST_ACTIONS = 60


class Over(Exception):
    """The episode has ended."""


class Stuck(Exception):
    """A solver does not find what it looks for."""


class Play:
    """A running episode as a solver sees it."""

    def __init__(self, env: TaskEnv[Any], task: Task) -> None:
        self.env = env
        seen, _ = env.reset(options={"task": task})
        self.goal = str(seen["instruction"])
        self.actions: list[str] = []
        self.info: dict[str, Any] = {}

    @property
    def tree(self) -> tuple[Node, ...]:
        """The elements that are seen now."""
        found: tuple[Node, ...] = self.env.tree  # type: ignore[attr-defined]
        return found

    def do(self, action: str) -> None:
        """Do an action. Raises ``Over`` when it ended the episode, ``Stuck`` when it cannot be."""
        if len(self.actions) >= MOST_ACTIONS:
            raise Stuck(f"more than {MOST_ACTIONS} actions")
        seen, _, terminated, truncated, self.info = self.env.step(action)
        self.actions.append(action)
        if terminated or truncated:
            raise Over
        if seen["error"]:
            raise Stuck(f"{action}: {seen['error']}")

    def all(self, *roles: str) -> list[Node]:
        """Return the elements of these roles, all without one."""
        return [node for node in self.tree if not roles or node.role in roles]

    def named(self, name: str, *roles: str) -> Node:
        """Return the first element of a name. Raises ``Stuck``."""
        wanted = name.strip()
        for node in self.all(*roles):
            if node.name.strip() == wanted:
                return node
        for node in self.all(*roles):
            if node.name.strip().lower() == wanted.lower():
                return node
        raise Stuck(f"no {' or '.join(roles) or 'element'} {name!r}")

    def has(self, name: str, *roles: str) -> bool:
        """Tell whether there is such an element."""
        return any(node.name.strip() == name for node in self.all(*roles))

    def click(self, target: Node | str, *roles: str) -> None:
        """Click an element, or the one of a name."""
        node = self.named(target, *roles) if isinstance(target, str) else target
        self.do(f"click {node.id}")

    def fill(self, node: Node, text: str) -> None:
        """Fill a field."""
        plain = text and text == text.strip() and not text.startswith('"')
        self.do(f"fill {node.id} {text if plain else json.dumps(text, ensure_ascii=False)}")

    def submit(self) -> None:
        """Press the button that sends the form."""
        self.click("Submit", "button")

    def find(self, pattern: str) -> tuple[str, ...]:
        """Return the groups of a pattern in the goal. Raises ``Stuck``."""
        found = re.search(pattern, self.goal)
        if found is None:
            raise Stuck(f"the goal is not understood: {self.goal!r}")
        return found.groups()

    def quoted(self) -> list[str]:
        """Return what stands between quotation marks in the goal."""
        return re.findall(r'"([^"]*)"', self.goal)
