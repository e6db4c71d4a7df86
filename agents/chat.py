"""The agent of simulated users: the conversation as it is, every reply an action."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.protocol import ParseError
from envs.types import Task
from serving.types import Message, Reply

SYSTEM = "You are a helpful assistant."


@dataclass(frozen=True)
class ChatAgent:
    """Passes messages on.

    Attributes:
        system: text of the system message; "" for none.
    """

    system: str = SYSTEM

    def begin(self, task: Task, observation: Mapping[str, Any]) -> list[Message]:
        """Return the system message, if any, and the user's first message."""
        opening: list[Message] = [{"role": "system", "content": self.system}] if self.system else []
        return [*opening, self.observe(observation)]

    def parse(self, reply: Reply) -> str:
        """Return the reply's text, cut off or not. Raises ``ParseError`` for an empty one."""
        text = reply.text.strip()
        if not text:
            raise ParseError("Your reply was empty.")
        return text

    def observe(self, observation: Mapping[str, Any]) -> Message:
        """Return the user's message."""
        return {"role": "user", "content": str(observation["message"])}

    def complain(self, error: ParseError) -> Message:
        """Return the parser's reason."""
        return {"role": "user", "content": f"[{error}]"}
