"""Which turns a learner may train on, and a warning when none are.

A turn is unfit when its tokens come of another distribution than their log-probs say, or when it
is no part of the conversation. Silence here is the fault users of such systems meet most: a client
that samples greedily, or whose every request looks like a side request, trains nothing and nobody
says so.
"""

import logging
import re
import threading
from collections import Counter
from collections.abc import Sequence

from .turns import Kind
from .types import Generation, Message, Sampling

logger = logging.getLogger(__name__)

WARN_AFTER = 20
PRIVATE_MARK = "/private"  # begins a user's message: learn from nothing that follows
_WINDOW = 2000  # characters of a message that the rules look at

# requests that programs make beside a conversation: name of the rule, what one of the last two
# messages or the system message says
SIDE_RULES: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "title": r"\b(generate|create|write|come up with|suggest|give)\b.{0,60}\b(title|headline)\b"
        r".{0,80}\b(chat|conversation|session|thread|discussion)",
        "tags": r"\b(generate|create|list)\b.{0,60}\btags\b.{0,80}\b(chat|conversation)",
        "follow-ups": r"\bsuggest\b.{0,60}\bfollow[- ]?up (questions?|prompts?)\b",
        "compaction": r"\b(summari[sz]e|compact|condense)\b.{0,80}"
        r"\b(conversation|session|chat|context|history|transcript)\b",
        "heartbeat": r"^\s*(\[?heartbeat\]?\b|read heartbeat\.md\b)",
        "topic": r"\b(does|whether)\b.{0,40}\bmessage\b.{0,60}\bnew (conversation )?topic\b",
    }.items()
}
# one of these is in whatever a rule finds; looking for them costs a tenth of the rules
SIDE_WORDS = (
    *("title", "headline", "tags", "follow", "summari", "compact", "condense"),
    *("heartbeat", "topic"),
)


def kind_of(messages: Sequence[Message]) -> tuple[Kind, str]:
    """Return whether a request belongs to the conversation, and the name of the rule if not."""
    asked = [message for message in messages[-1:] if message["role"] == "user"]
    if len(messages) <= 2:  # instructions of a request that stands alone
        asked += [message for message in messages[:1] if message["role"] != "assistant"]
    for message in asked:
        text = message["content"][:_WINDOW]
        folded = text.casefold()
        if not any(word in folded for word in SIDE_WORDS):
            continue
        for name, pattern in SIDE_RULES.items():
            if pattern.search(text):
                return "side", name
    return "main", ""


def is_private(messages: Sequence[Message]) -> bool:
    """Whether a user asked, here or earlier in the conversation, that it be not learned from."""
    return any(
        message["role"] == "user" and message["content"].lstrip().startswith(PRIVATE_MARK)
        for message in messages
    )


def unfit_reasons(
    sampling: Sampling, generation: Generation, kind: Kind, *, private: bool = False
) -> tuple[str, ...]:
    """Return why a turn cannot be trained on; empty when it can."""
    found = {
        "private": private,
        "side request": kind == "side",
        "greedy (temperature 0)": sampling.temperature == 0,
        "top_p below 1": sampling.top_p < 1,
        "constrained by response_format": bool(sampling.json_schema),
        "cancelled": generation.finish_reason == "cancelled",
        "empty": not generation.token_ids_T,
    }
    return tuple(reason for reason, holds in found.items() if holds)


class FitnessLog:
    """Counts turns by fitness and warns once per row of ``warn_after`` unfit ones."""

    def __init__(self, warn_after: int = WARN_AFTER) -> None:
        self._warn_after = warn_after
        self._lock = threading.Lock()
        self._row: Counter[str] = Counter()
        self._num_in_row = 0
        self.counts: Counter[str] = Counter()
        self.num_trainable = 0
        self.warnings: list[str] = []

    def add(self, unfit: Sequence[str]) -> None:
        """Count one turn."""
        with self._lock:
            if not unfit:
                self.num_trainable += 1
                self._num_in_row = 0
                self._row.clear()
                return
            self.counts.update(unfit)
            self._row.update(unfit)
            self._num_in_row += 1
            if self._num_in_row == self._warn_after:
                self._warn()

    def _warn(self) -> None:
        reasons = ", ".join(f"{reason} ({num})" for reason, num in self._row.most_common())
        text = f"the last {self._num_in_row} replies cannot be trained on: {reasons}"
        self.warnings = [*self.warnings[-9:], text]
        logger.warning(text)
