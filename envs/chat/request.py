"""What a user asks, with the answer that was kept for it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from envs.errors import TaskError


@dataclass(frozen=True)
class Request:
    """One message that wants a reply.

    Attributes:
        text: the message as the user writes it.
        answer: the kept short answer (``12``, ``Canberra``), or "" where none is short.
        sentences: a plain good reply, one or more sentences in the request's language; the first
            one holds the answer, none holds markup, exclamation marks or imperial units.
        aside: small talk: any reply will do, no wish is checked.

    Example:
        >>> Request("What is 3 + 4?", "7", ("The answer is 7.",)).answer
        '7'
    """

    text: str
    answer: str = ""
    sentences: tuple[str, ...] = ()
    aside: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; ``from_json`` is the inverse."""
        return {**asdict(self), "sentences": list(self.sentences)}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Request":
        """Build a request from ``to_json``'s value. Raises ``TaskError``."""
        try:
            values = dict(row)
            values["sentences"] = tuple(values.get("sentences", ()))
            return cls(**values)
        except (TypeError, ValueError) as error:
            raise TaskError(f"not a request: {error}") from error
