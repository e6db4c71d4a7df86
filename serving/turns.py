"""What the gateway writes down of each reply, and what users say of it. Light: no torch.

Axis suffixes: ``_P`` prompt token, ``_T`` sampled token.
"""

import json
import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .types import Message

Kind = Literal["main", "side"]


@dataclass(frozen=True)
class Turn:
    """A reply, with the tokens as they were sampled.

    Example:
        >>> turn = Turn(id="chatcmpl-1", session="s", num_before=1, prompt_ids_P=array("i", [5]),
        ...             token_ids_T=array("i", [7, 2]), logprobs_T=array("d", [-0.1, -0.2]),
        ...             versions_T=array("i", [3, 3]), text="ok")
        >>> turn.is_trainable
        True

    Attributes:
        id: the response id, with ``#k`` behind it for the k-th further choice.
        session: the session's name.
        owner: name of the key it was asked with; "" for the only key.
        num_before: messages it was a reply to; it is ``messages[num_before]`` afterwards.
        parent: id of the turn it goes on from, or None.
        messages: what was said since the parent's reply (all, without one).
        prompt_ids_P, token_ids_T, logprobs_T, versions_T: see ``serving.types.Generation``.
        text: content of the reply.
        reasoning: thoughts of the reply.
        tool_calls: as sent to the client.
        tools: functions the request offered.
        context: digest of tools and template options, part of the prompt beside the messages.
        temperature: of the sampling.
        finish_reason: ``stop``, ``length`` or ``cancelled``.
        kind: ``side`` for requests beside the conversation, such as one for its title.
        drift: how the prompt follows from the parent, see ``serving.renderer.Drift``.
        adapter: LoRA adapter used, or "".
        unfit: why the tokens cannot be trained on; empty when they can.
        stored: whether it may be gone on from by its id.
        node: where the next request finds it, see ``serving.sessions.Trail.node``.
        created: seconds since the epoch.
    """

    id: str
    session: str
    num_before: int
    prompt_ids_P: "array[int]"
    token_ids_T: "array[int]"
    logprobs_T: "array[float]"
    versions_T: "array[int]"
    text: str
    owner: str = ""
    parent: str | None = None
    messages: Sequence[Message] = ()
    reasoning: str = ""
    tool_calls: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    context: str = ""
    temperature: float = 1.0
    finish_reason: str = "stop"
    kind: Kind = "main"
    drift: str = "new"
    adapter: str = ""
    unfit: tuple[str, ...] = ()
    stored: bool = True
    node: str = ""
    created: float = field(default_factory=time.time)

    @property
    def is_trainable(self) -> bool:
        """Whether a learner may use the tokens."""
        return not self.unfit

    @property
    def is_named(self) -> bool:
        """Whether its client named the session."""
        return self.node.startswith("named:")

    @property
    def reply(self) -> dict[str, Any]:
        """The reply as an assistant's message."""
        return reply_message(self.text, self.tool_calls)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; ``from_json`` is its inverse."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("prompt_ids_P", "token_ids_T", "logprobs_T", "versions_T"):
            fields[name] = fields[name].tolist()
        for name in ("messages", "tool_calls", "tools", "unfit"):
            fields[name] = list(fields[name])
        return fields

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Turn":
        """Return the turn that ``to_json`` wrote.

        Raises:
            KeyError, TypeError, ValueError: not such fields.
        """
        values = dict(fields)
        for name, code in (("prompt_ids_P", "i"), ("token_ids_T", "i"), ("versions_T", "i")):
            values[name] = array(code, values[name])
        values["logprobs_T"] = array("d", values["logprobs_T"])
        for name in ("messages", "tool_calls", "tools", "unfit"):
            values[name] = tuple(values[name])
        return cls(**values)

    def line(self) -> str:
        """Return the turn as one line of JSON."""
        return json.dumps(self.to_json(), ensure_ascii=False)


def reply_message(text: str, tool_calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a reply as an assistant's message."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = [dict(call) for call in tool_calls]
    return message


@dataclass(frozen=True)
class Feedback:
    """What a user said of a reply; see ``serving.protocol.FeedbackRequest``.

    Attributes:
        turn: id of the turn.
    """

    turn: str
    rating: int | None = None
    correction: str | None = None
    edit: str | None = None
    comment: str | None = None
    created: float = field(default_factory=time.time)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
