"""Records of judging."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from serving.turns import Feedback
from serving.types import Message

Score = Literal[-1, 0, 1]


class Relation(StrEnum):
    """What happened after a reply."""

    CONTINUED = "continued"  # the conversation went on from it
    RETRIED = "retried"  # the same request was sent again: regenerate, or a client's retry
    EDITED = "edited"  # the user sent another message in place of the one it answered
    IDLE = "idle"  # nothing came within the session's waiting time


@dataclass(frozen=True)
class Exchange:
    """A reply with all that came before and after it: what a judge sees.

    Example: the user asked for a list, got one, and answered "no numbers please"::

        Exchange("chatcmpl-1", history=({"role": "user", "content": "Name two rivers."},),
                 reply={"role": "assistant", "content": "1. Nile 2. Rhine"},
                 next_state=({"role": "user", "content": "no numbers please"},))

    Attributes:
        id: of the reply (the turn's).
        history: every message the reply answered, system prompt included, oldest first.
        reply: the assistant's message, with ``tool_calls`` when it made any.
        next_state: all results of its parallel tool calls and the next user message, in order;
            empty unless ``relation`` is ``CONTINUED`` or ``EDITED``.
        relation: what happened after it.
        finish_reason: ``stop`` or ``length``.
        tools: functions the request offered.
        feedback: what the user said of it outright, oldest first.
        subject: whose habits the score is compared with, such as ``user:ada``.
    """

    id: str
    history: Sequence[Message]
    reply: Message
    next_state: Sequence[Message] = ()
    relation: Relation = Relation.CONTINUED
    finish_reason: str = "stop"
    tools: Sequence[Mapping[str, Any]] = ()
    feedback: Sequence[Feedback] = ()
    subject: str = ""


@dataclass(frozen=True)
class Judgement:
    """What a judge found.

    Attributes:
        score: +1 good, -1 bad, 0 no verdict.
        confidence: share of votes, or the classifier's probability, in [0, 1].
        reason: one line for people.
        source: which evidence spoke: ``feedback``, ``rule``, or the judge's own name.
        hint: what should have been done, when the judge can tell; "" otherwise.
    """

    score: Score
    confidence: float = 1.0
    reason: str = ""
    source: str = ""
    hint: str = ""


class Judge(Protocol):
    """Looks at exchanges."""

    async def __call__(self, exchange: Exchange) -> Judgement | None:
        """Return a judgement; None when this judge has no evidence and the next one is asked.

        Raises:
            JudgeUnavailable: it did not answer now; the exchange waits, and is asked again.
        """
        ...
