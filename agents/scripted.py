"""Policies without a model: they say what they were told to, in the tokens the model would use.

``ScriptedPolicy`` plays oracle trajectories (demonstrations for a warm start) and drives tests. Its
replies carry real token ids but no log-probs: nothing was sampled, and a policy gradient refuses
such turns.
"""

from collections.abc import Sequence
from typing import Protocol

from serving.types import Generation, Message, Reply, Sampling


class ReplyEncoder(Protocol):
    """The token side of a model: renders conversations and replies."""

    def encode_prompt(
        self, messages: Sequence[Message], history: Sequence[tuple[int, ...]]
    ) -> tuple[int, ...]:
        """Return the prompt for ``messages``.

        Args:
            history: alternately the prompt and reply ids of the previous turn, or empty; the result
                starts with their concatenation.
        """
        ...

    def encode_reply(self, text: str) -> tuple[int, ...]:
        """Return a reply's ids with the end-of-turn token."""
        ...


class ScriptedPolicy:
    """Says the given replies in order, then the last one for ever.

    Args:
        replies: what to say; at least one.
        encoder: gives the tokens; without one the ids are empty.
    """

    def __init__(self, replies: Sequence[str], encoder: ReplyEncoder | None = None) -> None:
        if not replies:
            raise ValueError("a script needs at least one reply")
        self.replies = list(replies)
        self.encoder = encoder
        self._said = 0
        self._history: tuple[tuple[int, ...], ...] = ()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        session: str,
        sampling: Sampling,
        timeout_s: float | None = None,
    ) -> Reply:
        """Return the next reply of the script."""
        text = self.replies[min(self._said, len(self.replies) - 1)]
        self._said += 1
        prompt: tuple[int, ...] = ()
        tokens: tuple[int, ...] = ()
        if self.encoder is not None:
            prompt = self.encoder.encode_prompt(messages, self._history)
            tokens = self.encoder.encode_reply(text)
            self._history = (prompt, tokens)
        generation = Generation(tokens, (), (), "stop")
        return Reply(f"scripted-{session}-{self._said}", text, prompt, generation)
