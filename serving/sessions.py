"""Turns we answered, found again by the messages of the next request.

Each reply is a node: the conversation up to and including it, its prompt ids and its sampled ids.
The longest recorded beginning of an incoming conversation is continued token for token; a retry
or an edited message simply finds a shorter beginning, so a session is a tree. Nodes are kept least
recently used first out.

A request names its session (path, key, header or ``user``) or has it inferred: then any recorded
conversation that is a beginning of its messages will do, else a new session starts. Two inferred
conversations with equal messages and replies cannot be told apart: the first one's turn stands.
"""

import hashlib
import json
import threading
import uuid
from array import array
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from .types import Message

INFERRED = ""  # scope of conversations without a name
IGNORED_KEYS = {"refusal", "annotations", "audio", "function_call", "tool_calls"}


@dataclass(frozen=True)
class RecordedTurn:
    """A reply we gave.

    Attributes:
        session: the session's name.
        num_before: messages it was a reply to; it is ``messages[num_before]`` afterwards.
        prompt_ids_P: its prompt.
        token_ids_T: what was sampled.
    """

    session: str
    num_before: int
    prompt_ids_P: "array[int]"
    token_ids_T: "array[int]"


class SessionStore:
    """Recorded turns of all sessions. Safe from any thread.

    Args:
        max_turns: most turns kept.

    Attributes:
        num_collisions: replies of inferred sessions not recorded because an equal one was.
    """

    def __init__(self, max_turns: int = 8192) -> None:
        self._max_turns = max_turns
        self._turns: OrderedDict[tuple[str, bytes], RecordedTurn] = OrderedDict()
        self._num_turns: Counter[str] = Counter()  # by scope, without zeros
        self._lock = threading.Lock()
        self.num_collisions = 0

    def knows(self, session: str) -> bool:
        """Whether turns of a named session are recorded."""
        return session in self._num_turns

    def __len__(self) -> int:
        return len(self._turns)

    def find(self, session: str | None, messages: Sequence[Message]) -> RecordedTurn | None:
        """Return the recorded turn that covers the longest beginning of ``messages``."""
        scope = INFERRED if session is None else session
        keys = _chain(messages)
        with self._lock:
            for at in reversed(range(len(messages))):
                if messages[at].get("role") != "assistant":
                    continue
                turn = self._turns.get((scope, keys[at]))
                if turn is not None and turn.num_before == at:
                    self._turns.move_to_end((scope, keys[at]))
                    return turn
        return None

    def record(
        self,
        session: str | None,
        messages: Sequence[Message],
        text: str,
        prompt_ids: Sequence[int],
        token_ids: Sequence[int],
        name: str,
    ) -> None:
        """Remember a reply ``text`` to ``messages`` and its tokens.

        Args:
            session: the named session, or None when it was inferred.
            name: name of the session, made up for inferred ones (``new_session``).
        """
        scope = INFERRED if session is None else session
        key = _chain([*messages, {"role": "assistant", "content": text}])[-1]
        turn = RecordedTurn(name, len(messages), array("i", prompt_ids), array("i", token_ids))
        with self._lock:
            known = (scope, key) in self._turns
            if known and session is None:
                self.num_collisions += 1
            else:
                self._turns[scope, key] = turn
            self._turns.move_to_end((scope, key))
            self._num_turns[scope] += not known
            while len(self._turns) > self._max_turns:
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        (scope, _), _ = self._turns.popitem(last=False)
        self._num_turns[scope] -= 1
        if not self._num_turns[scope]:
            del self._num_turns[scope]


def new_session() -> str:
    """Return a name for an inferred session."""
    return f"auto-{uuid.uuid4().hex[:16]}"


def _chain(messages: Sequence[Message]) -> list[bytes]:
    """Return one digest per message, each of all messages up to it."""
    digests, digest = [], b""
    for message in messages:
        digest = hashlib.sha256(digest + _canonical(message).encode()).digest()
        digests.append(digest)
    return digests


def _canonical(message: Message) -> str:
    """Return a message as text, equal for what clients send back in different shapes."""
    fields = {
        name: value
        for name, value in message.items()
        if value is not None and not (name in IGNORED_KEYS and not value)
    }
    if isinstance(fields.get("content"), list):
        fields["content"] = "".join(part["text"] for part in fields["content"])
    return json.dumps(fields, sort_keys=True, ensure_ascii=False)
