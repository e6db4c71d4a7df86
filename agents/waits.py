"""Waits of a made-up policy and environment, the same for every system that is asked for them."""

import hashlib
from collections.abc import Sequence

TURNS = 4
POLICY_S = (0.5, 1.5)  # least and most
ENV_S = (0.05, 0.25)


def wait_s(episode: str, turn: int, span: tuple[float, float]) -> float:
    """Return how long a call takes: evenly spread over the span, the same every time."""
    digest = hashlib.sha256(f"{episode}:{turn}:{span}".encode()).digest()
    return span[0] + (span[1] - span[0]) * int.from_bytes(digest[:4], "big") / 2**32


def ideal_s(episodes: Sequence[str]) -> float:
    """Return the longest episode's waits."""
    return max(
        sum(wait_s(name, turn, span) for turn in range(TURNS) for span in (POLICY_S, ENV_S))
        for name in episodes
    )
