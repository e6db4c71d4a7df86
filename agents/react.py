"""The agent of tool calling in ReAct's text form: thought, action, its input; or the final words.

    Thought: I need the order.
    Action: get_order
    Action Input: {"order_id": "O-10001"}

Results come back as ``Observation:``. ``Say: TEXT`` speaks to the user, and so does ``Final Answer:
TEXT``. One action a reply: what a model writes after its own ``Observation:`` is made up, and cut.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.protocol import ParseError
from agents.shell import shorten
from agents.toolcall import MANNERS, SYSTEM, ReplyFailure, ToolCallParseError, signature
from envs.toolcall.action import Action, Call
from envs.types import Task
from serving.types import Message, Reply

FORM = (
    "Reply with three lines to call a tool:\n"
    'Thought: WHY\nAction: NAME\nAction Input: {"PARAMETER": "VALUE"}\n'
    "or with two to speak to the user:\nThought: WHY\nSay: TEXT"
)
_MADE_UP = re.compile(r"^\s*observation\s*:", re.IGNORECASE | re.MULTILINE)
_ACTION = re.compile(r"^\s*action\s*:[ \t]*(.*?)[ \t]*$", re.IGNORECASE | re.MULTILINE)
_INPUT = re.compile(
    r"^\s*action[ _]input\s*:[ \t]*(.*)\Z", re.IGNORECASE | re.MULTILINE | re.DOTALL
)
_SAY = re.compile(
    r"^\s*(?:say|final answer)\s*:[ \t]*(.*)\Z", re.IGNORECASE | re.MULTILINE | re.DOTALL
)
_FENCE = re.compile(r"\A```(?:json)?[ \t]*\n?(.*?)\n?```\Z", re.DOTALL)


@dataclass(frozen=True)
class ReactAgent:
    """Prompt and parser of tool calling in ReAct's form.

    Attributes:
        max_observation_chars: most characters of an observation shown; head and tail are kept.
    """

    max_observation_chars: int = 4000

    def begin(self, task: Task, observation: Mapping[str, Any]) -> list[Message]:
        """Return the system message with tools and policy, and the user's first message."""
        tools = json.loads(observation["tools"])
        listed = "\n".join(signature(tool["function"]) for tool in tools)
        policy = f"\nRules:\n{observation['policy']}" if observation["policy"] else ""
        return [
            {"role": "system", "content": f"{SYSTEM}{FORM}\n{MANNERS}\nTools:\n{listed}{policy}"},
            {"role": "user", "content": str(observation["message"])},
        ]

    def parse(self, reply: Reply) -> str:
        """Return the action of a reply. Raises ``ToolCallParseError``."""
        cut = reply.generation.finish_reason == "length"
        made_up = _MADE_UP.search(reply.text)
        if cut and made_up is None:
            count = len(reply.generation.token_ids_T)
            message = f"Your reply was cut off after {count} tokens. Be shorter."
            raise ToolCallParseError(ReplyFailure.CUT_OFF, message)
        text = reply.text[: made_up.start()] if made_up else reply.text
        return read_react(text).to_text()

    def observe(self, observation: Mapping[str, Any]) -> Message:
        """Return what the tool returned, or what the user said."""
        output = shorten(str(observation["output"]), self.max_observation_chars)
        said = str(observation["message"])
        shown = f"Observation: {output}" if output else ""
        return {"role": "user", "content": "\n".join(filter(None, (shown, said))) or "[no answer]"}

    def complain(self, error: ParseError) -> Message:
        """Return the parser's reason."""
        return {"role": "user", "content": f"Observation: [{error}]"}


def read_react(text: str) -> Action:
    """Return the action of a reply. Raises ``ToolCallParseError``.

    Example:
        >>> read_react('Thought: time?\\nAction: now\\nAction Input: {}')
        Action(content='', calls=(Call(name='now', arguments={}),))
        >>> read_react("Thought: done\\nSay: It is noon.")
        Action(content='It is noon.', calls=())
    """
    if not text.strip():
        raise ToolCallParseError(ReplyFailure.EMPTY, "Your reply was empty.")
    named = _ACTION.findall(text)
    said = _SAY.search(text)
    if len(named) > 1 or (named and said):
        message = f"One action a reply: call one tool, or speak to the user. {FORM}"
        raise ToolCallParseError(ReplyFailure.MALFORMED_CALL, message)
    if said:
        return Action(said[1].strip())
    if not named:
        raise ToolCallParseError(ReplyFailure.NO_ACTION, f"Your reply holds no action. {FORM}")
    given = _INPUT.search(text)
    if not named[0] or given is None:
        message = f"An action needs a name and an input. {FORM}"
        raise ToolCallParseError(ReplyFailure.MALFORMED_CALL, message)
    return Action(calls=(Call(named[0].strip("`"), _input(given[1].strip())),))


def _input(text: str) -> Any:
    """Return an input's values, or its text: the environment then names the fault."""
    if fenced := _FENCE.match(text):
        text = fenced[1].strip()
    return text or {}
