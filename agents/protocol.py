"""What the episode loop needs from its two partners.

``Policy`` samples replies (``serving.client.PolicyClient`` is one, ``agents.scripted`` has others);
``Agent`` turns observations into messages and replies into actions. Protocols, not base classes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from envs.types import Task
from serving.types import Message, Reply, Sampling


class ParseError(Exception):
    """A reply holds no action. The message is what the model will see."""


class Policy(Protocol):
    """Something that answers a conversation."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        session: str,
        sampling: Sampling,
        timeout_s: float | None = None,
    ) -> Reply:
        """Return the next assistant message.

        Args:
            messages: the whole conversation so far.
            session: name of the conversation; equal names share their token-exact prefix.

        Raises:
            PolicyError: no answer; see ``serving.errors``.
        """
        ...


class Agent(Protocol):
    """Prompt and parser for one environment."""

    def begin(self, task: Task, observation: Mapping[str, Any]) -> list[Message]:
        """Return the opening messages for the first observation."""
        ...

    def parse(self, reply: Reply) -> str:
        """Return the action of a reply. Raises ``ParseError``."""
        ...

    def observe(self, observation: Mapping[str, Any]) -> Message:
        """Return the message that carries an observation."""
        ...

    def complain(self, error: ParseError) -> Message:
        """Return the message that tells the model its reply held no action."""
        ...
