"""One conversation with a user, as a state machine: judge a reply, decide what to do, say it.

    first reply to the first question: its share of wishes met is the verdict, whatever follows
    wishes met      → the next question, small talk, or a farewell
    wishes not met  → a correction; after ``patience`` in a row the user gives up
                      now and then (``distractor_rate``) another topic, and not a word on the form
Who finds the words is a ``User``: ``RulesUser`` here, ``envs.chat.llm_user.LLMUser`` behind a URL.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from envs.chat import criteria, personas, phrasings
from envs.chat.criteria import Criterion
from envs.chat.personas import Persona
from envs.chat.request import Request
from envs.errors import TaskError
from envs.types import Task, Verdict

OFF_TOPIC = Criterion("on_topic", "on_topic", "", "Reply to what the user asked.")
MAX_VOICED = 2  # wishes said in one correction


class Move(StrEnum):
    """What the user does next."""

    CORRECT = "correct"
    ASK = "ask"
    SMALL_TALK = "small_talk"
    CHANGE_TOPIC = "change_topic"  # unsatisfied, but says nothing of it
    LEAVE = "leave"
    GIVE_UP = "give_up"

    @property
    def ends(self) -> bool:
        """True when the user is gone afterwards."""
        return self in (Move.LEAVE, Move.GIVE_UP)


@dataclass(frozen=True)
class Situation:
    """What a user has to find words for.

    Attributes:
        persona: who speaks.
        move: what to say.
        wishes: the wishes to complain about, at most two; empty unless the move is ``correct``.
        corrections: what the user has said against replies to this question, oldest first.
        pleased: the reply met every wish.
        question: what to ask, word by word, or "".
        heard: the conversation so far as (``user`` or ``assistant``, text), oldest first.
    """

    persona: Persona
    move: Move
    wishes: tuple[Criterion, ...] = ()
    corrections: tuple[str, ...] = ()
    pleased: bool = False
    question: str = ""
    heard: tuple[tuple[str, str], ...] = ()


class User(Protocol):
    """Finds the words for a situation."""

    def say(self, situation: Situation, rng: random.Random) -> str:
        """Return the user's message. Raises ``EnvError`` when no words can be had."""
        ...


class RulesUser:
    """Draws its sentences from ``envs.chat.phrasings``: equal generators, equal words."""

    def say(self, situation: Situation, rng: random.Random) -> str:
        """Return the user's message."""
        persona = situation.persona
        language = persona.language
        if situation.move is Move.CORRECT:
            return phrasings.complain(
                situation.wishes, persona.tone, language, situation.corrections, rng
            )
        lead = {
            Move.ASK: phrasings.BRIDGES,
            Move.CHANGE_TOPIC: phrasings.CHANGES,
            Move.LEAVE: phrasings.FAREWELLS,
            Move.GIVE_UP: phrasings.GIVE_UPS,
        }
        parts = [rng.choice(phrasings.THANKS[language])] if situation.pleased else []
        if situation.move in lead:
            parts.append(rng.choice(lead[situation.move][language]))
        return " ".join(filter(None, (*parts, situation.question)))


@dataclass(frozen=True)
class Plan:
    """What a task says of a session: who, which one of theirs, and what they will ask.

    Attributes:
        persona: who asks.
        session: how many sessions the user had before; wishes may drift with it.
        requests: at least one; the first is a question, later ones may be small talk.
    """

    persona: Persona
    session: int
    requests: tuple[Request, ...]

    @classmethod
    def of(cls, task: Task) -> "Plan":
        """Read a task's data. Raises ``TaskError``."""
        try:
            persona = personas.find(task.data["persona"])
            session = int(task.data.get("session", 0))
            requests = tuple(Request.from_json(row) for row in task.data["requests"])
        except (KeyError, TypeError, ValueError) as error:
            raise TaskError(f"{task.id}: no session: {error!r}") from error
        if not requests or requests[0].aside:
            raise TaskError(f"{task.id}: a session begins with a question")
        return cls(persona, session, requests)

    @property
    def wishes(self) -> tuple[str, ...]:
        """Names of the criteria in force."""
        return self.persona.wishes(self.session)


@dataclass(frozen=True)
class Reaction:
    """What a reply led to.

    Attributes:
        move: what the user did.
        message: what the user said.
        met: wish → whether the reply met it; empty for a reply to small talk.
        violated: wishes not met; ``on_topic`` alone stands for a reply beside the point.
        hint: the wishes the user spoke of, in plain sentences; "" when of none.
        answered: the kept answer is in the reply.
    """

    move: Move
    message: str
    met: dict[str, bool] = field(default_factory=dict)
    violated: tuple[str, ...] = ()
    hint: str = ""
    answered: bool = False


class Session:
    """A conversation in progress.

    Args:
        plan: of the task.
        user: finds the words.
        rng: all choices of the session.
        one_question: the user leaves at the first reply that meets every wish.
    """

    def __init__(
        self, plan: Plan, user: User, rng: random.Random, *, one_question: bool = False
    ) -> None:
        self.plan, self.user, self.rng = plan, user, rng
        self.one_question = one_question
        self.verdict: Verdict | None = None
        self._heard = [("user", plan.requests[0].text)]
        self._place = 0
        self._corrections: list[str] = []

    def reply(self, text: str) -> Reaction:
        """Take the assistant's reply and return the user's reaction.

        Raises:
            EnvError: the user found no words.
        """
        self._heard.append(("assistant", text))
        request, names = self.plan.requests[self._place], self.plan.wishes
        met = {} if request.aside else criteria.check(names, request, text)
        if self.verdict is None:
            self.verdict = first_verdict(names, request, text)
        violated = tuple(name for name, held in met.items() if not held)
        if violated and not criteria.on_topic(request, text):
            violated = (OFF_TOPIC.name,)
        situation = self._decide(violated, pleased=not violated and not request.aside)
        message = self.user.say(replace(situation, heard=tuple(self._heard)), self.rng)
        self._heard.append(("user", message))
        if situation.move is Move.CORRECT:
            self._corrections.append(message)
        return Reaction(
            situation.move,
            message,
            met,
            violated,
            " ".join(wish.hint for wish in situation.wishes),
            criteria.answered(request, text),
        )

    def _decide(self, violated: Sequence[str], *, pleased: bool) -> Situation:
        """Choose the next move and go to the request it leads to."""
        persona, more = self.plan.persona, self._place + 1 < len(self.plan.requests)
        if violated:
            if more and self.rng.random() < persona.distractor_rate:
                self._next(question=True)
                return self._ask(Move.CHANGE_TOPIC)
            if len(self._corrections) >= persona.patience:
                return Situation(persona, Move.GIVE_UP)
            voiced = self.rng.sample(violated, self.rng.randint(1, min(MAX_VOICED, len(violated))))
            wishes = tuple(OFF_TOPIC if n == OFF_TOPIC.name else criteria.find(n) for n in voiced)
            return Situation(persona, Move.CORRECT, wishes, tuple(self._corrections))
        if not more or (pleased and self.one_question):
            return Situation(persona, Move.LEAVE, pleased=pleased)
        self._next()
        return self._ask(
            Move.SMALL_TALK if self.plan.requests[self._place].aside else Move.ASK, pleased=pleased
        )

    def _next(self, *, question: bool = False) -> None:
        """Go to the next request; past small talk when it must be a question and there is one."""
        self._corrections = []
        self._place += 1
        if question and self.plan.requests[self._place].aside:
            self._place = min(self._place + 1, len(self.plan.requests) - 1)

    def _ask(self, move: Move, *, pleased: bool = False) -> Situation:
        text = self.plan.requests[self._place].text
        return Situation(self.plan.persona, move, pleased=pleased, question=text)


def first_verdict(names: Sequence[str], request: Request, reply: str) -> Verdict:
    """Return the share of wishes that a first reply meets, in the records of a verdict."""
    met = criteria.check(names, request, reply)
    passed = tuple(name for name, held in met.items() if held)
    failed = tuple(name for name, held in met.items() if not held)
    off_topic = not criteria.on_topic(request, reply)
    return Verdict(
        reward=len(passed) / len(met),
        passed=passed,
        failed=(OFF_TOPIC.name, *failed) if off_topic else failed,
        detail="says nothing to the request" if off_topic else ", ".join(failed),
    )
