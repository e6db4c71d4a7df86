"""Spaces for text worlds. Gymnasium's ``Text`` has no blank in its default character set."""

from typing import Any

from gymnasium import spaces


class Unicode(spaces.Space[str]):
    """Any text up to ``max_length`` characters; samples are short printable commands.

    Args:
        max_length: most characters.
        samples: what ``sample`` draws from, for random agents and conformance checks.
        seed: of the sampler.
    """

    def __init__(
        self,
        max_length: int = 1 << 20,
        samples: tuple[str, ...] = ("true",),
        seed: int | None = None,
    ) -> None:
        super().__init__(dtype=str, seed=seed)
        self.max_length = max_length
        self.samples = samples

    @property
    def is_np_flattenable(self) -> bool:
        """Text of no fixed length has no flat form."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw one of ``samples``."""
        return self.samples[int(self.np_random.integers(len(self.samples)))]

    def contains(self, x: Any) -> bool:
        """True for a ``str`` within the length."""
        return isinstance(x, str) and len(x) <= self.max_length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unicode) and self.max_length == other.max_length

    def __repr__(self) -> str:
        return f"Unicode(max_length={self.max_length})"
