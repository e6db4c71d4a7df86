"""From turns as they come to exchanges that can be judged: each reply with its next state.

Pure bookkeeping, fed in the order of the gateway's journal; clocks and disks are others'.

What ends the waiting of a reply:

- a turn that goes on from it: its new messages are the next state;
- a turn that goes on from the same place: the same messages are a retry (regenerate, a client that
  tried again), others an edit by the user;
- feedback, after a short while in which more of it may come;
- silence.

Side turns (titles, compaction, sub-agents) say nothing of the turn before them and are not judged.
What a user keeps private is nobody's next state, and nothing that follows it is judged. Other
turns of the conversation whose tokens are unfit for training are not judged either, but they go on
from the one before them, and so settle it.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence

from rl.judge.types import Exchange, Relation
from serving.turns import Feedback, Turn
from serving.types import Message

PRIVATE = "private"  # see serving.fitness
MOST_TURNS = 20_000  # known at once, pending ones apart


class Assembly:
    """Waits for next states.

    Args:
        idle_s: silence after which a conversation's last reply is judged without a next state.
        grace_s: how long feedback waits for more feedback, or for the user's next message.
        now: seconds since the epoch.

    Attributes:
        skipped: turns that are not learned from, by reason.
    """

    def __init__(self, idle_s: float, grace_s: float, now: Callable[[], float] = time.time) -> None:
        self.idle_s, self.grace_s, self._now = idle_s, grace_s, now
        self.skipped: Counter[str] = Counter()
        self._started = now()
        self._turns: OrderedDict[str, Turn] = OrderedDict()  # oldest first
        self._feedback: dict[str, list[Feedback]] = {}
        self._pending: dict[str, None] = {}  # in order of arrival
        self._siblings: dict[tuple[str, str, str | None], list[str]] = {}
        self._private: set[str] = set()
        self._ready: dict[str, tuple[Relation, Sequence[Message]]] = {}

    def turn(self, turn: Turn, *, judged: bool = False) -> None:
        """Take a turn; ``judged``: it was dealt with before a restart."""
        if turn.id in self._turns:
            return
        self._turns[turn.id] = turn
        if turn.kind == "main":
            self._go_on(turn)
        if not judged:
            if reason := self._unfit(turn):
                self.skipped[reason] += 1
            else:
                self._pending[turn.id] = None
        self._forget_oldest()

    def feedback(self, feedback: Feedback) -> bool:
        """Take feedback; False when its turn is not waiting (any more)."""
        if feedback.turn in self._turns:
            self._feedback.setdefault(feedback.turn, []).append(feedback)
        return feedback.turn in self._pending

    def remove(self, turn_id: str) -> None:
        """Forget a turn and all that was said of it."""
        self._pending.pop(turn_id, None)
        self._ready.pop(turn_id, None)
        self._feedback.pop(turn_id, None)
        turn = self._turns.pop(turn_id, None)
        if turn is not None:
            ids = self._siblings.get(_place(turn), [])
            if turn_id in ids:
                ids.remove(turn_id)
            if not ids:
                self._siblings.pop(_place(turn), None)
        self._private.discard(turn_id)

    def due(self) -> list[Exchange]:
        """Return the exchanges whose waiting is over; each is returned once."""
        now = self._now()
        for turn_id in self._pending:
            said = self._feedback.get(turn_id, [])
            settled = bool(said) and now - said[-1].created >= self.grace_s
            heard_since = max(self._turns[turn_id].created, self._started)  # not while we were away
            if settled or now - heard_since >= self.idle_s:
                self._settle(turn_id, Relation.IDLE, ())
        found = []
        for turn_id in [name for name in self._pending if name in self._ready]:
            relation, next_state = self._ready.pop(turn_id)
            del self._pending[turn_id]
            found.append(self._exchange(turn_id, relation, next_state))
        return found

    def exchange(self, turn_id: str, before: Exchange | None = None) -> Exchange | None:
        """Return a turn's exchange anew, for feedback that came late; None when it is not known."""
        if turn_id not in self._turns:
            return None
        relation = before.relation if before else Relation.IDLE
        return self._exchange(turn_id, relation, before.next_state if before else ())

    def num_feedback(self, turn_id: str) -> int:
        """Return how often something was said of a turn outright."""
        return len(self._feedback.get(turn_id, ()))

    def get(self, turn_id: str) -> Turn | None:
        """Return a known turn."""
        return self._turns.get(turn_id)

    def history(self, turn_id: str) -> list[Message]:
        """Return every known message a turn was a reply to, oldest first."""
        turn = self._turns[turn_id]
        messages = [*turn.messages]
        while turn.parent is not None and (parent := self._turns.get(turn.parent)) is not None:
            messages = [*parent.messages, parent.reply, *messages]
            turn = parent
        return messages

    @property
    def num_waiting(self) -> int:
        """Turns whose next state has not come."""
        return len(self._pending)

    # ------------------------------------------------------------- inside

    def _go_on(self, turn: Turn) -> None:
        """Settle what a turn of the conversation came after. What is private says nothing."""
        parent = self._turns.get(turn.parent or "")
        while parent is not None and parent.kind == "side":  # a heartbeat in the conversation
            parent = self._turns.get(parent.parent or "")
        if PRIVATE in turn.unfit or (parent is not None and parent.id in self._private):
            self._private.add(turn.id)
            if parent is not None:
                self._settle(parent.id, Relation.IDLE, ())
            return
        if parent is not None:
            self._settle(parent.id, Relation.CONTINUED, turn.messages)
        self._compare(turn)

    def _unfit(self, turn: Turn) -> str:
        """Return why a turn is not learned from; "" when it is."""
        if turn.kind != "main":
            return "side"
        if turn.id in self._private:
            return PRIVATE
        return turn.unfit[0] if turn.unfit else ""

    def _settle(self, turn_id: str, relation: Relation, next_state: Sequence[Message]) -> None:
        """Say what followed a turn; the first answer stands."""
        if turn_id in self._pending:
            self._ready.setdefault(turn_id, (relation, next_state))

    def _compare(self, turn: Turn) -> None:
        """Settle earlier turns that went on from the same place, unless they fell silent before."""
        place = self._siblings.get(_place(turn), [])
        waiting = [self._turns[name] for name in place if name in self._pending]
        for earlier in waiting:
            if _request(earlier.id) == _request(turn.id):
                continue  # another choice of the same request
            if turn.created - earlier.created >= self.idle_s:
                self._settle(earlier.id, Relation.IDLE, ())
            elif list(earlier.messages) == list(turn.messages):
                self._settle(earlier.id, Relation.RETRIED, ())
            else:
                self._settle(earlier.id, Relation.EDITED, turn.messages)
        self._siblings[_place(turn)] = [*(earlier.id for earlier in waiting), turn.id]

    def _exchange(
        self, turn_id: str, relation: Relation, next_state: Sequence[Message]
    ) -> Exchange:
        turn = self._turns[turn_id]
        return Exchange(
            id=turn_id,
            history=tuple(self.history(turn_id)),
            reply=turn.reply,
            next_state=tuple(next_state),
            relation=relation,
            finish_reason=turn.finish_reason,
            tools=tuple(turn.tools),
            feedback=tuple(self._feedback.get(turn_id, ())),
            subject=f"user:{turn.owner or 'owner'}",
        )

    def _forget_oldest(self) -> None:
        if len(self._turns) - len(self._pending) <= MOST_TURNS:
            return
        for turn_id in [name for name in self._turns if name not in self._pending][:1000]:
            self.remove(turn_id)


def _place(turn: Turn) -> tuple[str, str, str | None]:
    return turn.owner, turn.session, turn.parent


def _request(turn_id: str) -> str:
    return turn_id.partition("#")[0]
