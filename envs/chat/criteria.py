"""The wishes of users as rules: pure functions ``(request, reply) -> bool``.

A criterion is found by its name, ``no_bold`` or ``at_least_words(60)``, so personas and tasks hold
plain text. Each docstring states the rule. ``on_topic`` is not a wish but the gate before all of
them: a reply that says nothing to the request meets no wish.

Example:
    >>> find("at_most_words(3)").holds(Request("Capital of Peru?", "Lima"), "It is Lima.")
    True
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from envs.chat import markup
from envs.chat.request import Request
from envs.chat.vocabulary import (
    COMMON_WORDS,
    FILLERS,
    FUNCTION_WORDS,
    LANGUAGES,
    REASONS,
    SUMMARY_MARKS,
    WARM_PHRASES,
)
from envs.errors import TaskError

_WORD = re.compile(r"\w+(?:[.,]\d+)*(?:['’\-]\w+)*")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True)
class Criterion:
    """One wish with its parameter filled in.

    Attributes:
        name: as in personas and verdicts, ``at_least_words(60)``.
        kind: the name without its parameter; the key of ``phrasings``.
        value: the parameter as written, or "".
        hint: the wish as one plain sentence, for hints and for a user played by a model.
    """

    name: str
    kind: str
    value: str
    hint: str

    def holds(self, request: Request, reply: str) -> bool:
        """Return whether the reply meets the wish."""
        rule, parse = RULES[self.kind], PARSERS.get(self.kind)
        return rule(request, reply, parse(self.value)) if parse else rule(request, reply)


def find(name: str) -> Criterion:
    """Return the criterion of a name. Raises ``TaskError`` that states the legal ones."""
    kind, _, rest = name.partition("(")
    value = rest.removesuffix(")")
    if kind not in RULES or bool(value) != (kind in PARSERS):
        raise TaskError(f"no criterion {name!r}: choose one of {', '.join(sorted(RULES))}")
    try:
        PARSERS.get(kind, str)(value)
    except ValueError as error:
        raise TaskError(f"criterion {name!r}: {error}") from error
    hint = HINTS[kind].replace("{value}", LANGUAGES.get(value, value))
    return Criterion(name, kind, value, hint)


def check(names: Sequence[str], request: Request, reply: str) -> dict[str, bool]:
    """Return which wishes a reply meets: none of them when it says nothing to the request."""
    if not on_topic(request, reply):
        return dict.fromkeys(names, False)
    return {name: find(name).holds(request, reply) for name in names}


def on_topic(request: Request, reply: str) -> bool:
    """Hold when the reply has the kept answer, or shares a word with request or kept reply.

    A word counts from four letters on, a number from two digits on. Repeating the request or a
    part of it does not hold.
    """
    if request.aside:
        return bool(reply.strip())
    if request.answer and _contains(reply, request.answer):
        return True
    said, asked = _content(reply), _content(request.text)
    kept = _content(" ".join((request.answer, *request.sentences)))
    return bool(said & (asked | kept)) and (bool(said - asked) or not _echoes(request.text, reply))


def answered(request: Request, reply: str) -> bool:
    """Hold when the kept short answer is in the reply; with none kept, when it is on topic."""
    return _contains(reply, request.answer) if request.answer else on_topic(request, reply)


# ------------------------------------------------------------------------------- the rules


def no_bold(request: Request, reply: str) -> bool:
    """Hold without bold text: ``**x**``, ``__x__``, ``<b>``, ``\\textbf``, outside code."""
    return not markup.has_bold(reply)


def no_numbered_list(request: Request, reply: str) -> bool:
    """Hold without lines ``1. …``, ``2) …``, ``Step 1: …`` and without ``1) … 2) …`` in a line."""
    return markup.numbered_items(reply) == 0


def no_boxed_answer(request: Request, reply: str) -> bool:
    """Hold without ``\\boxed{…}``, ``\\fbox{…}`` or a box drawn of line characters."""
    return not re.search(r"\\(?:boxed|fbox|framebox)\b|(?<!\w)boxed\s*\{|[┌┏╔╭]", reply)


def no_bullets(request: Request, reply: str) -> bool:
    """Hold without lines that begin with ``-``, ``*``, ``+`` or a bullet sign."""
    return markup.bullet_items(reply) == 0


def bullets(request: Request, reply: str) -> bool:
    """Hold with at least two bulleted lines."""
    return markup.bullet_items(reply) >= 2


def at_least_words(request: Request, reply: str, count: int) -> bool:
    """Hold from ``count`` words on."""
    return len(words(reply)) >= count


def at_most_words(request: Request, reply: str, count: int) -> bool:
    """Hold up to ``count`` words; a reply without any word does not."""
    return 0 < len(words(reply)) <= count


def gives_reasons(request: Request, reply: str) -> bool:
    """Hold with a word of reason: because, so that, therefore, since (not of time), …"""
    return bool(REASONS.search(reply))


def warm(request: Request, reply: str) -> bool:
    """Hold with a warm phrase that is not denied: well done, happy to help, keep it up, …"""
    text = re.sub(r"\s+", " ", reply.lower().replace("’", "'"))
    for match in WARM_PHRASES.finditer(text):
        before = re.findall(r"[\w']+", text[max(0, match.start() - 40) : match.start()])[-2:]
        if not any(w in ("not", "never", "no", "hardly") or w.endswith("n't") for w in before):
            return True
    return False


def language(request: Request, reply: str, code: str) -> bool:
    """Hold when most function words of the reply's prose are of the language, two at least."""
    said = [word.lower() for word in words(markup.prose(reply))]
    scores = {key: sum(word in known for word in said) for key, known in FUNCTION_WORDS.items()}
    mine = scores.pop(code)
    return mine >= 2 and mine > max(scores.values()) and mine * 10 >= len(said)


def metric_units(request: Request, reply: str) -> bool:
    """Hold without an amount in imperial or US units: 3 cups, two miles, 350 °F, 5-foot."""
    return not _IMPERIAL.search(reply)


def ends_with_summary(request: Request, reply: str) -> bool:
    """Hold when the last line, after others, begins with a mark such as ``In short`` (≤ 30 words).

    The mark must be on the last line that is not empty, and that line must say something.
    """
    lines = [line.strip(" \t*_#>-") for line in reply.strip().splitlines() if line.strip()]
    if len(lines) < 2:
        return False
    mark = SUMMARY_MARKS.match(lines[-1])
    return mark is not None and 3 <= len(words(lines[-1][mark.end() :])) <= 30


def no_emoji(request: Request, reply: str) -> bool:
    """Hold without pictures of Unicode; arrows, check marks, °, © and ``:)`` are none."""
    return not _EMOJI.search(reply)


def no_exclamation(request: Request, reply: str) -> bool:
    """Hold without ``!`` outside code; ``!=`` and a factorial in a formula (``5! = 120``) pass."""
    return not _EXCLAMATION.search(markup.prose(reply))


def plain_text(request: Request, reply: str) -> bool:
    """Hold without Markdown: bold, italics, headings, bullets, code marks, links, tables."""
    return not markup.has_markdown(reply)


def begins_with_answer(request: Request, reply: str) -> bool:
    """Hold when the kept answer is in the first sentence, within its first 8 words.

    With no short answer kept, the reply must not open with a filler (Sure, Great question, Let's).
    """
    start = reply.strip().lstrip("*_#> \t\"'")
    if FILLERS.match(start):
        return False
    if not request.answer:
        return bool(words(start))
    first = re.split(r"(?<=[.!?])\s|\n", start, maxsplit=1)[0]
    head = [match.end() for match in _WORD.finditer(first)][: 7 + len(words(request.answer))]
    return bool(head) and _contains(first[: head[-1]], request.answer)


def json_only(request: Request, reply: str) -> bool:
    """Hold when the whole reply is one JSON object or array, not empty; a fence around it fails."""
    try:
        value = json.loads(reply, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict | list) and bool(value)


# ------------------------------------------------------------------------------- tables


def _at_least_1(value: str) -> int:
    count = int(value)
    if count < 1:
        raise ValueError("give a number of words from 1 on")
    return count


def _code(value: str) -> str:
    if value not in LANGUAGES:
        raise ValueError(f"choose one of {', '.join(LANGUAGES)}")
    return value


PARSERS: dict[str, Callable[[str], Any]] = {
    "at_least_words": _at_least_1,
    "at_most_words": _at_least_1,
    "language": _code,
}
RULES: dict[str, Callable[..., bool]] = {
    rule.__name__: rule
    for rule in (
        no_bold, no_numbered_list, no_boxed_answer, no_bullets, bullets, at_least_words,
        at_most_words, gives_reasons, warm, language, metric_units, ends_with_summary, no_emoji,
        no_exclamation, plain_text, begins_with_answer, json_only,
    )
}  # fmt: skip
HINTS = {
    "no_bold": "Write without any bold text.",
    "no_numbered_list": "Write in running text, without a numbered list or numbered steps.",
    "no_boxed_answer": "Do not put the answer in a box such as \\boxed{}.",
    "no_bullets": "Write without bullet points.",
    "bullets": "Give the points as a bulleted list, one line each.",
    "at_least_words": "Write at least {value} words.",
    "at_most_words": "Write at most {value} words.",
    "gives_reasons": "Give reasons: say why, with words such as because or so that.",
    "warm": "Write warmly and kindly, with an encouraging phrase.",
    "language": "Reply in {value} only.",
    "metric_units": "Use metric units only: no cups, ounces, pounds, inches, miles or Fahrenheit.",
    "ends_with_summary": "End with a line of its own that sums the reply up: In short: ...",
    "no_emoji": "Write without emoji.",
    "no_exclamation": "Write without exclamation marks.",
    "plain_text": "Write plain text without any Markdown.",
    "begins_with_answer": "Begin with the answer itself, then explain.",
    "json_only": "Reply with one JSON object and nothing around it.",
}

_AMOUNT = (
    r"(?:\d{1,9}(?:[.,/]\d{1,9})?|[½¼¾⅓⅔]|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|half"
    r"|quarter|third|half an?|quarter of an?|dozen|few|couple of|several|hundred|thousand)\b)"
)
_IMPERIAL = re.compile(
    _AMOUNT + r"[\s\-–]{0,3}(?:(?:square|cubic|fluid|fl\.?)\s)?"
    r"(?:cups?|ounces?|oz|pounds?|lbs?|inch(?:es)?|foot|feet|ft|yards?|yds?|miles?|mi|mph|gallons?"
    r"|gal|quarts?|pints?|acres?|psi)\b"
    r"|\d\s*(?:°|º|degrees?)?\s?F\b|\bFahrenheit\b|°\s?F\b|\d″",
    re.IGNORECASE,
)
_EMOJI = re.compile(
    "[\U0001f000-\U0001faff\U0001f1e6-\U0001f1ff\u2600-\u2712\u2716\u2728-\u2757"
    "\u2763-\u2767\u2b50\u2b55\u231a\u231b\u23e9-\u23f3\ufe0f\u20e3]"
)
_EXCLAMATION = re.compile(
    r"(?<![\d)])(?<!\b[a-zA-Z])!(?!=)"
    r"|(?:(?<=[\d)])|(?<=\b[a-zA-Z]))!(?!=)(?!\s*[=+\-*/×·÷^,)<>$\\]|\s+(?:is|equals|means|has|and)\b)"
    r"|[！¡‼]"
)


def words(text: str) -> list[str]:
    """Return the words of a text; numbers count as words."""
    return _WORD.findall(text)


def _content(text: str) -> frozenset[str]:
    """Return the words that say what a text is about, in lower case without a plural s."""
    found = (word.lower() for word in re.findall(r"[^\W_]+", text))
    return frozenset(
        word.rstrip("s")
        for word in found
        if (len(word) >= 2 if word.isdigit() else len(word) >= 4) and word not in COMMON_WORDS
    )


def _echoes(asked: str, reply: str) -> bool:
    said, heard = " ".join(words(reply.lower())), " ".join(words(asked.lower()))
    return said in heard or heard in said


def _contains(text: str, answer: str) -> bool:
    """True when the answer stands in the text as a whole; 1,200 and 1200 are the same number."""
    return (
        re.search(rf"(?<![\w.,]){re.escape(_plain(answer))}(?!\w|[.,]\d)", _plain(text)) is not None
    )


def _plain(text: str) -> str:
    text = _NUMBER.sub(lambda match: re.sub(r",(?=\d{3}(?:\D|$))", "", match[0]), text)
    return re.sub(r"\s+", " ", text).casefold()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
