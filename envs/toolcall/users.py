"""Users who want something: they ask, answer questions as far as they know, and leave.

By rules here, by a model in ``envs.toolcall.llm_user``. The rules: a message that asks for a fact
the user knows gets it, another question a yes or "I do not know", and one that asks nothing is
taken as the end of the matter: the user comes to the next one, or leaves. Equal plans, seeds and
messages give equal words.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

PATIENCE = 3  # messages that lead nowhere before the user gives up
HELLO = ("Hello?", "Are you still there?", "I did not get an answer.", "Is anyone there?")
YES = ("Yes, please.", "Yes, go ahead.", "That is right.", "Sure, do that.", "Correct.")
UNKNOWN = (
    "I do not know that, sorry.",
    "I cannot tell you more than I have.",
    "No idea, that is all I know.",
    "I have nothing on that.",
)
THANKS = ("Thank you, bye.", "Thanks, that is all.", "All right, goodbye.", "Great, thanks!")
GIVE_UP = ("This leads nowhere. Goodbye.", "I will try elsewhere.", "Never mind, bye.")
_REQUEST = re.compile(r"\?|\b(please|tell me|give me|send me|let me know|provide|i need|share)\b")
_CONFIRM = re.compile(
    r"\b(confirm|shall i|should i|may i|is that (right|correct|ok|okay|fine)|proceed|go ahead|"
    r"do you want|would you like|are you sure|correct\?|right\?|okay\?)"
)


class Move(StrEnum):
    """What the user did."""

    WAIT = "wait"  # tools were called; nobody spoke to the user
    ANSWER = "answer"
    CONFIRM = "confirm"
    NOT_KNOWN = "not_known"
    ASK_AGAIN = "ask_again"  # nothing was said to the user
    NEXT = "next"
    LEAVE = "leave"
    GIVE_UP = "give_up"

    @property
    def ends(self) -> bool:
        """True when the user is gone afterwards."""
        return self in (Move.LEAVE, Move.GIVE_UP)


@dataclass(frozen=True)
class Fact:
    """Something a user knows and tells when asked.

    Attributes:
        asked_by: words of which one must be in the question, in lower case.
        says: the user's words.
    """

    asked_by: tuple[str, ...]
    says: str

    def asked(self, message: str) -> bool:
        """True when a message in lower case speaks of it."""
        return any(re.search(rf"\b{re.escape(word)}", message) for word in self.asked_by)


@dataclass(frozen=True)
class UserPlan:
    """What a user wants and knows.

    Attributes:
        opening: the first message.
        facts: told when asked for.
        more: what comes up once the matter before is settled, in order.
    """

    opening: str
    facts: tuple[Fact, ...] = ()
    more: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "UserPlan":
        """Build a plan from ``to_json``'s value. Raises ``KeyError``, ``TypeError``."""
        facts = tuple(Fact(tuple(each["asked_by"]), each["says"]) for each in row.get("facts", ()))
        return cls(row["opening"], facts, tuple(row.get("more", ())))

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        facts = [{"asked_by": list(fact.asked_by), "says": fact.says} for fact in self.facts]
        return {"opening": self.opening, "facts": facts, "more": list(self.more)}


class User(Protocol):
    """A user in a conversation: ``RuleUser``, or ``envs.toolcall.llm_user.LLMUser``."""

    def hear(self, message: str) -> tuple[Move, str]:
        """Return what the user does and says on being told something."""
        ...


class RuleUser:
    """A user in a conversation.

    Args:
        plan: of the task.
        rng: of all choices of words.
    """

    def __init__(self, plan: UserPlan, rng: random.Random) -> None:
        self._plan, self._rng = plan, rng
        self._told: set[int] = set()
        self._num_more = 0
        self._strikes = 0

    def hear(self, message: str) -> tuple[Move, str]:
        """Return what the user does and says."""
        text = message.lower()
        move, says = self._react(text)
        if move in (Move.ASK_AGAIN, Move.NOT_KNOWN, Move.CONFIRM):
            self._strikes += 1
        if self._strikes > PATIENCE and not move.ends:
            return Move.GIVE_UP, self._rng.choice(GIVE_UP)
        return move, says

    def _react(self, text: str) -> tuple[Move, str]:
        if not text.strip():
            return Move.ASK_AGAIN, self._rng.choice(HELLO)
        if _REQUEST.search(text):
            if answers := self._answers(text):
                return Move.ANSWER, answers
            if "?" in text:
                return self._other_question(text)
        if self._num_more < len(self._plan.more):
            self._num_more += 1
            return Move.NEXT, self._plan.more[self._num_more - 1]
        return Move.LEAVE, self._rng.choice(THANKS)

    def _answers(self, text: str) -> str:
        """Return the facts asked for; one that was told already is told again, at a price."""
        places = [i for i, fact in enumerate(self._plan.facts) if fact.asked(text)]
        if new := [i for i in places if i not in self._told]:
            self._told.update(new)
            return _joined([self._plan.facts[i].says for i in new])
        if places and "?" in text:
            self._strikes += 1
            return _joined([self._plan.facts[i].says for i in places])
        return ""

    def _other_question(self, text: str) -> tuple[Move, str]:
        if _CONFIRM.search(text):
            return Move.CONFIRM, self._rng.choice(YES)
        return Move.NOT_KNOWN, self._rng.choice(UNKNOWN)


def _joined(sentences: Sequence[str]) -> str:
    return " ".join(dict.fromkeys(sentences))
