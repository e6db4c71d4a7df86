"""Judged turns that no step has consumed: which of them make the next batch, and when.

A turn that teaches nothing (a 0 without a hint) takes no place in a batch. It is kept for as long
as feedback on it could still be learned from, and consumed once the policy has moved on too far.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rl.settings import RunConfig
from rl.types import TurnSignal
from serving.turns import Turn

SCORED = ("binary", "hybrid")  # methods that learn from a score
HINTED = ("opd", "opd_topk", "hybrid")  # methods that learn from a hint


@dataclass(frozen=True)
class Waiting:
    """One turn.

    Attributes:
        signal: what was found.
        since: monotonic seconds at which it was judged.
        said_at: when it was answered, in seconds since the epoch.
        version: the oldest policy version of its tokens.
    """

    signal: TurnSignal
    since: float
    said_at: float = 0.0
    version: int = 0


class Backlog:
    """Turns by episode id, in the order in which they were judged.

    Args:
        config: of the run.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._turns: dict[str, Waiting] = {}

    def __len__(self) -> int:
        return len(self._turns)

    def __iter__(self) -> Iterator[str]:
        return iter(self._turns)

    def __contains__(self, name: str) -> bool:
        return name in self._turns

    @property
    def num_useful(self) -> int:
        """Turns that teach something."""
        return sum(self._teaches(waiting.signal) for waiting in self._turns.values())

    def add(self, signal: TurnSignal, turn: Turn | None, now: float) -> None:
        """Take a judged turn; one that was removed meanwhile has no ``turn``."""
        said_at = turn.created if turn else 0.0
        version = min(turn.versions_T, default=0) if turn else 0
        self._turns[signal.episode_id] = Waiting(signal, now, said_at, version)

    def change(self, signal: TurnSignal) -> None:
        """Take another signal for a turn, unless it is gone."""
        if (waiting := self._turns.get(signal.episode_id)) is not None:
            self._turns[signal.episode_id] = replace(waiting, signal=signal)

    def signal(self, name: str) -> TurnSignal | None:
        """Return a turn's signal."""
        waiting = self._turns.get(name)
        return waiting.signal if waiting else None

    def pop(self, name: str) -> None:
        """Let a turn go, if it is there."""
        self._turns.pop(name, None)

    def due(self, now: float, version: int) -> list[str]:
        """Return the batch that is due by number or by age, or nothing.

        Args:
            now: monotonic seconds.
            version: of the policy.

        Returns:
            the oldest replies that teach something, in whatever order they were judged, and behind
            them what is too old to teach anything any more.
        """
        useful = [name for name, w in self._turns.items() if self._teaches(w.signal)]
        useful.sort(key=lambda name: self._turns[name].said_at)
        settings = self._config.chat
        oldest = min((self._turns[name].since for name in useful), default=now)
        if not useful or (len(useful) < settings.batch and now - oldest < settings.max_wait_s):
            return []
        bound = version - math.ceil(self._config.rollout.max_staleness)
        rest = [name for name, w in self._turns.items() if w.version < bound]
        return useful[: settings.batch] + [name for name in rest if name not in useful]

    def _teaches(self, signal: TurnSignal) -> bool:
        method = self._config.algorithm.name
        return (method in SCORED and bool(signal.score)) or (
            method in HINTED and bool(signal.hints)
        )
