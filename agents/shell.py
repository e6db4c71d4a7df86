"""The agent of every environment played by shell commands: terminal and SWE.

Two reply formats. ``plain``: the whole reply is the command, the shortest thing a small model can
say (one fence around it is taken off). ``fenced``: exactly one fenced block, text around it is free
(the rule of mini-swe-agent's text mode).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agents.protocol import ParseError
from envs.types import Task
from serving.types import Message, Reply

ReplyFormat = Literal["plain", "fenced"]

_FENCE = re.compile(r"```(?:bash|sh|shell|console)?[ \t]*\n(.*?)\n?```", re.DOTALL)

SYSTEM = {
    "plain": "You solve tasks in a bash shell. Reply with one bash command and nothing else.",
    "fenced": (
        "You solve tasks in a bash shell. Think briefly, then give exactly one command in a "
        "```bash block."
    ),
}
SUBMIT_HINT = " Reply submit when the task is done."


@dataclass(frozen=True)
class ShellAgent:
    """Prompt and parser of shell environments.

    Attributes:
        reply_format: see the module.
        announce_submit: tell the model to say ``submit``; off where the environment ends by itself.
        max_observation_chars: most characters of an observation shown; head and tail are kept.
    """

    reply_format: ReplyFormat = "plain"
    announce_submit: bool = True
    max_observation_chars: int = 2000

    def begin(self, task: Task, observation: Mapping[str, Any]) -> list[Message]:
        """Return system and user message of the task."""
        system = SYSTEM[self.reply_format] + (SUBMIT_HINT if self.announce_submit else "")
        return [
            {"role": "system", "content": system},
            {"role": "user", "content": str(observation["instruction"])},
        ]

    def parse(self, reply: Reply) -> str:
        """Return the command. Raises ``ParseError`` with what the model should do instead."""
        if reply.generation.finish_reason == "length":
            cut = len(reply.generation.token_ids_T)
            raise ParseError(f"Your reply was cut off after {cut} tokens. Be shorter.")
        blocks: list[str] = _FENCE.findall(reply.text)
        if self.reply_format == "fenced" and len(blocks) != 1:
            raise ParseError(f"Give exactly one ```bash block; found {len(blocks)}.")
        if len(blocks) > 1:
            raise ParseError(f"Give exactly one command; found {len(blocks)} blocks.")
        command = (blocks[0] if blocks else reply.text).strip()
        if not command:
            raise ParseError("Your reply held no command.")
        if "\x00" in command:
            raise ParseError("A command cannot hold NUL bytes.")
        return command

    def observe(self, observation: Mapping[str, Any]) -> Message:
        """Return the output, and the exit code when it is not 0."""
        output = shorten(str(observation["output"]), self.max_observation_chars).rstrip("\n")
        code = int(observation["exit_code"])
        if code:
            output = f"{output}\n[exit code {code}]".lstrip("\n")
        return {"role": "user", "content": output or "[no output]"}

    def complain(self, error: ParseError) -> Message:
        """Return the parser's reason."""
        return {"role": "user", "content": f"[{error}]"}


def shorten(text: str, limit: int) -> str:
    """Keep head and tail of a text over ``limit`` characters and say how much was cut."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters cut ...]\n{text[-half:]}"
