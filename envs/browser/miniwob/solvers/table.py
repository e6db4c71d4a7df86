"""The tables that solvers stand in."""

from collections.abc import Callable
from dataclasses import dataclass

from envs.browser.miniwob.play import Solver


@dataclass(frozen=True)
class Entry:
    """A solver, how hard its page is, and the steps an agent gets there."""

    solve: Solver
    level: str
    steps: int


class Table:
    """Solvers by page."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def solves(self, *names: str, level: str, steps: int) -> Callable[[Solver], Solver]:
        """Register the function below for these pages."""

        def register(solver: Solver) -> Solver:
            self.entries.update(dict.fromkeys(names, Entry(solver, level, steps)))
            return solver

        return register
