"""Hints: what should have been done, told to the teacher before the reply it scores.

A hint is the judge's, or the user's own correction word for word behind a short frame. It must say
something the prompt did not: what is too short, too long, copied from an answer or already asked
for is refused, and the turn then has no distillation term.

Left out: teacher numbers (the run asks the policy for them) and choosing among several hints.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl.judge.toolresults import text_of
from rl.judge.types import Exchange, Judgement
from serving.types import Message

MIN_WIDTH = 10  # characters; those of Chinese and Japanese count twice
MAX_WORDS = 60
COPIED = 0.5  # share of a hint's 4-word runs found in a text, from which on it is a copy of it
SAID_BEFORE = 0.85  # share of a hint's content words in one sentence of the prompt
FRAME = "Follow this wish of the user: {text}"
BLOCK = "[Hint]\n{hint}"

# Words that carry no content of their own, and moods a correction is often wrapped in.
_EMPTY_WORDS = """
a an the i you me my your it its is are was were be been am do does did to of in on at for and or
so that this these those there with as by if then please pls just again already still told tell
said say asked ask want wanted need needed mean meant like would could should can have has had will
hey ok okay oh well really very wrong bad useless terrible awful answer reply response thanks thank
sorry try stop yes hint user follow wish
der die das ein eine ich du mir es ist und oder bitte nochmal doch schon falsch
le la les un une je tu il est et ou que de des du svp encore faux
el los las una yo es y o por favor otra vez mal
lo gli uno io ed per favore ancora sbagliato os as um uma eu e ou errado
"""
_EMPTY = frozenset(_EMPTY_WORDS.split())
# A complaint that asks for nothing ("this is useless") cannot serve as a hint.
_ASKS = re.compile(
    r"\b(no|not|don'?t|do not|never|without|instead|please|pls|should|must|need|want|wanted|asked"
    r"|meant|only|use|make|give|keep|avoid|stop|shorter|longer|simpler|more|less|rather|just|in"
    r"|bitte|kein\w*|nicht|ohne|statt\w*|nur|lieber|sollte?\w*|auf|kürzer|länger"
    r"|sans|pas|plutôt|seulement|veux|voulais|faut|plus|en|s'il"
    r"|sin|quiero|quería|solo|sólo|más|menos|mejor|usa|haz"
    r"|senza|non|solo|voglio|volevo|più|meno|usa|invece"
    r"|sem|não|quero|queria|só|mais|menos|em vez)\b|请|不要|别|用|要|ください|ないで|もっと|使って",
    re.IGNORECASE,
)
_TELLS_ANSWER = re.compile(
    r"\b(the|right|correct) (final )?(answer|result) (is|was|=)", re.IGNORECASE
)
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


def make_hint(exchange: Exchange, judgement: Judgement) -> str:
    """Return the hint for a turn, ready for ``hinted_messages``; "" when there is none.

    The judge's own hint first; else, for a turn judged bad, the user's next message word for word.

    Example: the user answered "no bold please, I told you" to a reply judged bad::

        Follow this wish of the user: no bold please, I told you
    """
    own = " ".join(judgement.hint.split())
    if own:
        if refusal(own, exchange, from_user=judgement.source == "feedback"):
            return ""
        return FRAME.format(text=own) if judgement.source == "feedback" else own
    if judgement.score != -1 or judgement.source in ("feedback", "rule"):
        return ""  # the next words may be about something else: they were not what was judged
    said = " ".join(_next_words(exchange).split())
    if not _ASKS.search(said) or refusal(said, exchange, from_user=True):
        return ""
    return FRAME.format(text=said)


def refusal(text: str, exchange: Exchange, *, from_user: bool = False) -> str:
    """Return why a text may not serve as the exchange's hint; "" when it may.

    Args:
        text: the hint without frame.
        exchange: what it is a hint for.
        from_user: the user's own words may state the answer, a judge's may not.
    """
    if sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text) < MIN_WIDTH:
        return f"shorter than {MIN_WIDTH} characters"
    if len(text.split()) > MAX_WORDS or len(_WIDE.findall(text)) > 2 * MAX_WORDS:
        return f"longer than {MAX_WORDS} words"
    if _copies(text, text_of(exchange.reply)):
        return "it copies the reply"
    if not from_user and _TELLS_ANSWER.search(text):
        return "it states the answer"
    if any(_copies(text, item.edit) for item in exchange.feedback if item.edit):
        return "it copies the answer"
    content = _content(text)
    if not content:
        return "it says nothing"
    for sentence in _sentences(exchange):
        if len(content & _content(sentence)) > SAID_BEFORE * len(content):
            return "the prompt says it already"
    return ""


def hinted_messages(history: Sequence[Message], hint: str) -> list[Message]:
    """Return the prompt with the hint as a marked block at the end of its last user message.

    Without a user's message the block becomes one. An empty hint changes nothing.
    """
    messages: list[Message] = [dict(message) for message in history]
    if not hint:
        return messages
    block = BLOCK.format(hint=hint)
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].get("role") == "user":
            content = _with_block(messages[place].get("content"), block)
            messages[place] = {**messages[place], "content": content}
            return messages
    return [*messages, {"role": "user", "content": block}]


def _with_block(content: Any, block: str) -> Any:
    if isinstance(content, list):
        return [*content, {"type": "text", "text": block}]
    return f"{content}\n\n{block}" if content else block


@dataclass(frozen=True)
class Verification:
    """What a hint does to a turn that was judged bad.

    Attributes:
        gap: mean over tokens of teacher's minus student's log-prob, in nats.
        share_down: share of the tokens that the hint makes less likely, in [0, 1].
    """

    gap: float
    share_down: float

    @property
    def holds(self) -> bool:
        """Whether the hint speaks against what was sampled: the mean gap is below 0."""
        return self.gap < 0


def verify(
    student_logprobs_T: Sequence[float], teacher_logprobs_T: Sequence[float]
) -> Verification:
    """Check that a hint makes the reply it was given against less likely.

    Both score the same sampled tokens of a turn judged bad, the teacher with the hint in its
    prompt. Probability taken from the sampled reply goes to other ones, so a mean difference below
    0 is what a hint that is understood must show; at or above 0 the hint pushes toward the
    behaviour it was meant to end, and its turn is better left without a distillation term.

    Raises:
        ValueError: no tokens, unequal numbers of them, or a log-prob that is not finite.
    """
    student_T = np.asarray(student_logprobs_T, np.float64)
    teacher_T = np.asarray(teacher_logprobs_T, np.float64)
    if student_T.shape != teacher_T.shape or student_T.ndim != 1 or not student_T.size:
        raise ValueError(f"log-probs of {student_T.shape} and {teacher_T.shape} tokens")
    gap_T = teacher_T - student_T
    if not np.isfinite(gap_T).all():
        raise ValueError("a log-prob is not finite")
    return Verification(float(gap_T.mean()), float((gap_T < 0).mean()))


def _next_words(exchange: Exchange) -> str:
    """Return the next user message; a later one is about a later reply."""
    users = [text_of(m) for m in exchange.next_state if m.get("role") == "user"]
    return users[0] if users else ""


def _words(text: str) -> list[str]:
    """Return lower-case words; Chinese and Japanese as pairs of characters."""
    found: list[str] = []
    for word in re.findall(r"\w+(?:'\w+)?", text.lower()):
        if _WIDE.search(word):
            found += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        else:
            found.append(word)
    return found


def _content(text: str) -> set[str]:
    return {word[:-1] if len(word) > 3 and word.endswith("s") else word
            for word in _words(text) if word not in _EMPTY}  # fmt: skip


def _copies(text: str, source: str) -> bool:
    words, other = _words(text), _words(source)
    if len(words) < 4:
        return len(words) > 0 and words == other
    runs = set(zip(*(words[i:] for i in range(4)), strict=False))
    return len(runs & set(zip(*(other[i:] for i in range(4)), strict=False))) >= COPIED * len(runs)


def _sentences(exchange: Exchange) -> Iterator[str]:
    for message in exchange.history:
        if message.get("role") in ("system", "developer", "user"):
            yield from re.split(r"(?<=[.!?;。!?])\s*|\n+", text_of(message))
