"""The agent of code as a tool: a reply is a cell of Python, or an answer.

Two reply formats. ``plain``: the whole reply is the cell (one fence around it is taken off), or a
line ``answer: TEXT``. ``fenced``: one ```python block is the cell and text around it is free, an
answer given before its output was seen too; without a block the last line ``answer: TEXT`` counts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.protocol import ParseError
from agents.shell import ReplyFormat, shorten
from envs.types import Task
from serving.types import Message, Reply

SYSTEM = {
    "plain": (
        "You solve a problem with Python. Reply with Python code and nothing else; you are shown "
        "what it prints, and variables stay. When you know it, reply answer: and the answer."
    ),
    "fenced": (
        "You solve a problem with Python. Think briefly, then give one ```python block; you are "
        "shown what it prints, and variables stay. When you know it, end with a line "
        "answer: and the answer, without a block."
    ),
}
_FENCE = re.compile(r"```(?:python3?|py)?[ \t]*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)
_ANSWER = re.compile(r"^[ \t]*(?:\*\*)?(?:final )?answer(?:\*\*)?[:=](?:\*\*)?[ \t]*(.*?)[ \t]*$",
                     re.IGNORECASE | re.MULTILINE)  # fmt: skip
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True)
class CodeAgent:
    """Prompt and parser.

    Attributes:
        reply_format: see the module.
        max_observation_chars: most characters of an observation shown; head and tail are kept.
    """

    reply_format: ReplyFormat = "plain"
    max_observation_chars: int = 2000

    def begin(self, task: Task, observation: Mapping[str, Any]) -> list[Message]:
        """Return system and user message of the task."""
        return [
            {"role": "system", "content": SYSTEM[self.reply_format]},
            {"role": "user", "content": str(observation["instruction"])},
        ]

    def parse(self, reply: Reply) -> str:
        """Return the cell or the answer. Raises ``ParseError`` with what to do instead."""
        if reply.generation.finish_reason == "length":
            cut = len(reply.generation.token_ids_T)
            raise ParseError(f"Your reply was cut off after {cut} tokens. Be shorter.")
        text = _THOUGHT.sub("", reply.text).strip()
        blocks: list[str] = _FENCE.findall(text)
        if len(blocks) > 1:
            raise ParseError(f"Give one block of code at a time; found {len(blocks)}.")
        if blocks and not blocks[0].strip():
            raise ParseError("Your block held no code.")
        if blocks:
            return blocks[0].strip("\n")
        answers: list[str] = _ANSWER.findall(text)
        if answers and (self.reply_format == "fenced" or text.count("\n") == 0):
            return f"answer: {answers[-1]}"
        if self.reply_format == "fenced":
            raise ParseError("Give one ```python block, or a line answer: and the answer.")
        if not text:
            raise ParseError("Your reply held no code.")
        return text

    def observe(self, observation: Mapping[str, Any]) -> Message:
        """Return what the cell printed."""
        output = shorten(str(observation["output"]), self.max_observation_chars).rstrip("\n")
        return {"role": "user", "content": output or "[no output]"}

    def complain(self, error: ParseError) -> Message:
        """Return the parser's reason."""
        return {"role": "user", "content": f"[{error}]"}
