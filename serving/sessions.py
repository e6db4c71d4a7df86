"""Turns we answered, found again by the messages of the next request.

Each reply is a node: the conversation up to and including it, its prompt ids and its sampled ids.
The longest recorded beginning of an incoming conversation is continued token for token; a retry,
an edited message or a parallel sub-agent simply finds a shorter beginning, so a session is a tree.
Nodes are kept least recently used first out; a ``Sink`` may keep them for good.

A request names its session (path, key, header, ``user`` or metadata) or has it inferred: then any
recorded conversation that is a beginning of its messages will do; else, within half an hour, one
that was asked the same (a retry, or a client that drops a reply it could not use); else a new
session starts. Two inferred conversations with equal messages and replies cannot be told apart: the
first one's turn stands as the node to go on from.
"""

import hashlib
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any, Protocol

from .ids import new_id
from .turns import Feedback, Turn
from .types import Message

logger = logging.getLogger(__name__)

INFERRED = "inferred:"  # begins nodes of conversations without a name
NAMED = "named:"
RETRY_WITHIN_S = 1800.0
MOST_FEEDBACK = 100  # kept in memory for one reply
LONGEST_TITLE = 80  # characters


class Sink(Protocol):
    """Where turns and feedback go to stay, or to be learned from. Methods return at once."""

    def turn(self, turn: Turn) -> None:
        """Keep a turn."""

    def feedback(self, feedback: Feedback) -> None:
        """Keep feedback."""

    def forget(self, owner: str, session: str) -> None:
        """Remove all turns of a session and what was said of them."""


@dataclass(frozen=True)
class SessionSummary:
    """A session in a list.

    Attributes:
        id: its name.
        num_turns: turns kept in memory.
        created, updated: seconds since the epoch, of its first and last turn.
        title: the beginning of what its user said first.
    """

    id: str
    num_turns: int
    created: float
    updated: float
    title: str


class SessionStore:
    """Recorded turns of all sessions. Safe from any thread.

    Args:
        max_turns: most turns kept in memory.
        sinks: told of every turn and all feedback.

    Attributes:
        num_collisions: replies of inferred sessions not findable because an equal one was.
        num_sink_failures: what sinks were told and failed to take.
    """

    def __init__(self, max_turns: int = 8192, sinks: Sequence[Sink] = ()) -> None:
        self._max_turns = max_turns
        self._sinks = list(sinks)
        self._turns: OrderedDict[str, Turn] = OrderedDict()  # least recently used first
        self._nodes: dict[str, str] = {}  # to turn ids
        self._asked: dict[str, str] = {}  # beginnings of what inferred turns were asked, to ids
        self._asked_by: dict[str, tuple[str, ...]] = {}  # turn ids to these
        self._sessions: dict[
            tuple[str, str], dict[str, None]
        ] = {}  # owner, name → turn ids in order
        self._feedback: dict[str, list[Feedback]] = {}
        self._lock = threading.Lock()
        self.num_collisions = 0
        self.num_sink_failures = 0

    def knows(self, owner: str, session: str) -> bool:
        """Whether turns of an owner's session are recorded."""
        return (owner, session) in self._sessions

    def __len__(self) -> int:
        return len(self._turns)

    def find(self, owner: str, session: str | None, trail: "Trail") -> Turn | None:
        """Return the recorded turn that covers the longest beginning of a conversation.

        Args:
            owner: whose conversation it is; nobody goes on from another's.
            session: the name its client gave, or None when it is inferred.
            trail: the conversation.
        """
        with self._lock:
            for at in reversed(range(len(trail.messages))):
                if trail.messages[at].get("role") != "assistant":
                    continue
                found = self._nodes.get(_node(owner, session, trail.digests[at]))
                if found is not None and self._turns[found].num_before == at:
                    self._turns.move_to_end(found)
                    return self._turns[found]
        return None

    def related(self, owner: str, trail: "Trail") -> str | None:
        """Return the inferred session that was lately asked the longest beginning of this."""
        oldest = time.time() - RETRY_WITHIN_S
        with self._lock:
            for key in reversed(trail.beginnings(owner)):
                turn = self._turns.get(self._asked.get(key, ""))
                if turn is not None and turn.created >= oldest:
                    return turn.session
        return None

    def record(self, turn: Turn, asked: "Trail | None" = None, shown: Turn | None = None) -> None:
        """Remember a reply and tell the sinks.

        Args:
            asked: all messages before it, to recognise a retry of an inferred session by.
            shown: what the sinks are told instead.
        """
        self.restore(turn)
        keys = () if asked is None else tuple(asked.beginnings(turn.owner))
        with self._lock:
            if keys and turn.id in self._turns:
                self._asked_by[turn.id] = keys
                self._asked.update(dict.fromkeys(keys, turn.id))
        self._tell(lambda sink: sink.turn(turn if shown is None else shown))

    def restore(self, turn: Turn, feedback: Sequence[Feedback] = ()) -> None:
        """Remember a reply, and what was said of it, without telling the sinks."""
        with self._lock:
            if feedback:
                self._feedback[turn.id] = [*feedback]
            if turn.node.startswith(INFERRED) and turn.node in self._nodes:
                self.num_collisions += 1
            else:
                self._nodes[turn.node] = turn.id
            self._turns[turn.id] = turn
            self._sessions.setdefault((turn.owner, turn.session), {})[turn.id] = None
            while len(self._turns) > self._max_turns:
                self._drop(next(iter(self._turns)))

    def give(self, owner: str, feedback: Feedback, shown: Feedback | None = None) -> Turn | None:
        """Attach feedback to a turn of its owner and return the turn; None if there is none.

        Args:
            shown: what the sinks are told instead.
        """
        with self._lock:
            turn = self._turns.get(feedback.turn)
            if turn is None or turn.owner != owner:
                return None
            said = self._feedback.setdefault(feedback.turn, [])
            said.append(feedback)
            del said[:-MOST_FEEDBACK]
        self._tell(lambda sink: sink.feedback(shown or feedback))
        return turn

    def summaries(self, owner: str) -> list[SessionSummary]:
        """Return an owner's sessions, the last used first."""
        with self._lock:
            rows = []
            for (whose, name), ids in self._sessions.items():
                if whose == owner:
                    times = [self._turns[turn].created for turn in ids]
                    title = _title(self._turns[next(iter(ids))])
                    rows.append(SessionSummary(name, len(ids), min(times), max(times), title))
        return sorted(rows, key=lambda row: row.updated, reverse=True)

    def turns(self, owner: str, session: str) -> list[tuple[Turn, list[Feedback]]]:
        """Return a session's turns in the order they were answered, each with its feedback."""
        with self._lock:
            return [
                (self._turns[turn], list(self._feedback.get(turn, ())))
                for turn in self._sessions.get((owner, session), ())
            ]

    def conversation(self, owner: str, turn_id: str) -> "list[Message] | None":
        """Return all messages up to and including a reply, or None if they are not all kept, or
        its client asked that it be not stored."""
        messages: list[Message] = []
        with self._lock:
            last = self._turns.get(turn_id)
            if last is not None and not last.stored:
                return None
            at: str | None = turn_id
            while at is not None:
                turn = self._turns.get(at)
                if turn is None or turn.owner != owner:
                    return None
                messages = [*turn.messages, turn.reply, *messages]
                at = turn.parent
        return messages

    def forget(self, owner: str, session: str) -> int:
        """Remove a session, from the sinks too; return how many turns were in memory."""
        with self._lock:
            ids = tuple(self._sessions.get((owner, session), ()))
            for turn in ids:
                self._drop(turn)
        self._tell(lambda sink: sink.forget(owner, session))
        return len(ids)

    def expire(self, oldest: float) -> int:
        """Drop turns from before a time, in seconds since the epoch, from memory; return how many.
        Sinks see to their own."""
        with self._lock:
            gone = [turn.id for turn in self._turns.values() if turn.created < oldest]
            for turn_id in gone:
                self._drop(turn_id)
        return len(gone)

    def get(self, owner: str, turn_id: str) -> Turn | None:
        """Return an owner's turn by its id."""
        turn = self._turns.get(turn_id)
        return turn if turn is not None and turn.owner == owner else None

    def _tell(self, tell: "Callable[[Sink], None]") -> None:
        """Tell every sink; one that fails costs nobody a reply."""
        for sink in self._sinks:
            try:
                tell(sink)
            except Exception:  # somebody's program
                self.num_sink_failures += 1
                logger.exception("a sink failed; what it was told is lost to it")

    def _drop(self, turn_id: str) -> None:
        turn = self._turns.pop(turn_id)
        if self._nodes.get(turn.node) == turn_id:
            del self._nodes[turn.node]
        self._feedback.pop(turn_id, None)
        for key in self._asked_by.pop(turn_id, ()):
            if self._asked.get(key) == turn_id:
                del self._asked[key]
        ids = self._sessions[turn.owner, turn.session]
        del ids[turn_id]
        if not ids:
            del self._sessions[turn.owner, turn.session]


def _title(turn: Turn) -> str:
    asked = [_text(message) for message in turn.messages if message["role"] == "user"]
    return " ".join(asked[0].split())[:LONGEST_TITLE] if asked else ""


def new_session() -> str:
    """Return a name for an inferred session."""
    return f"auto-{new_id()[:16]}"


class Trail:
    """A conversation with one digest per message, each of all messages up to it.

    Attributes:
        messages: in order.
        digests: one per message.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self.digests: list[bytes] = []
        digest = b""
        for message in messages:
            digest = _digest(digest, message)
            self.digests.append(digest)

    def node(self, owner: str, session: str | None, reply: Message) -> str:
        """Return where the conversation with a reply behind it is found again."""
        before = self.digests[-1] if self.digests else b""
        return _node(owner, session, _digest(before, reply))

    def beginnings(self, owner: str) -> list[str]:
        """Return a node for each beginning that holds a user's message, shortest first."""
        users = (at for at, said in enumerate(self.messages) if said["role"] == "user")
        first = next(users, len(self.messages))
        return [_node(owner, None, digest) for digest in self.digests[first:]]


def _node(owner: str, session: str | None, digest: bytes) -> str:
    kind = INFERRED if session is None else NAMED
    return f"{kind}{len(owner)}:{owner}:{session or ''}:{digest.hex()}"


def _digest(before: bytes, message: Message) -> bytes:
    text = _canonical(message).encode(errors="surrogatepass")
    return hashlib.blake2b(before + text, digest_size=16).digest()


_sorted_json = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


def _canonical(message: Message) -> str:
    """Return a message as text, equal for what clients send back in different shapes.

    Clients give calls other ids, write their arguments anew, drop thoughts and strip white space
    around a reply; none of that is another conversation.
    """
    content, role = _text(message), message["role"]
    if role == "assistant":
        content = content.strip()
        if message.get("tool_calls"):
            calls = [_canonical_call(call) for call in message["tool_calls"]]
            return _sorted_json({"role": role, "content": content, "tool_calls": calls})
    # the same text as of ``_sorted_json``, at a tenth of its cost
    return f'{{"content": {encode_basestring(content)}, "role": {encode_basestring(role)}}}'


def _text(message: Message) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _number(text: str) -> float | int:
    """Return a number as JavaScript writes it again: 1.0 as 1."""
    value = float(text)
    return int(value) if value.is_integer() else value


def _canonical_call(call: Mapping[str, Any]) -> list[Any]:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"], parse_float=_number)
    except (ValueError, RecursionError):
        arguments = function["arguments"]
    return [function["name"], arguments]
