"""What must not be kept: secrets, and personal data where asked, cut out before a turn is recorded.

Secrets are found by the patterns of `detect-secrets`, personal data by `phonenumbers` and
`python-stdnum`; what those leave open (words that follow "my password is", whole private keys,
long random words) by patterns of our own. The reply itself is untouched: its client has it, and
its session goes on in memory. A turn that was changed, and all that follow it in its conversation,
are kept without token ids and are not trained on: the ids spell what was cut out.

Left out: names, addresses and whatever else only a language model would recognise.

    python -m serving model=smollm2-135m sessions=kept redact=secrets
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Literal

from .turns import Feedback, Turn
from .types import Message

Kind = Literal["none", "secrets", "personal"]
KINDS: tuple[Kind, ...] = ("none", "secrets", "personal")
Redact = Callable[[Any], Any]  # a Turn or Feedback → what may be kept of it; None keeps nothing

RANDOM_LENGTH = 24  # characters of a word from which on it may be a key
RANDOM_BITS = 3.8  # of entropy per character
_DETECTORS = (
    ("aws", "AWSKeyDetector"),
    ("azure_storage_key", "AzureStorageKeyDetector"),
    ("basic_auth", "BasicAuthDetector"),
    ("cloudant", "CloudantDetector"),
    ("discord", "DiscordBotTokenDetector"),
    ("github_token", "GitHubTokenDetector"),
    ("gitlab_token", "GitLabTokenDetector"),
    ("jwt", "JwtTokenDetector"),
    ("mailchimp", "MailchimpDetector"),
    ("npm", "NpmDetector"),
    ("openai", "OpenAIDetector"),
    ("pypi_token", "PypiTokenDetector"),
    ("sendgrid", "SendGridDetector"),
    ("slack", "SlackDetector"),
    ("square_oauth", "SquareOAuthDetector"),
    ("stripe", "StripeDetector"),
    ("telegram_token", "TelegramBotTokenDetector"),
    ("twilio", "TwilioKeyDetector"),
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [A-Z0-9 ]*-----|\Z)", re.DOTALL
)
_NAMED = re.compile(
    r"\b(?:password|passwd|passphrase|pwd|passcode|api[_ -]?key|secret(?:[_ -]key)?"
    r"|access[_ -]token|pin(?: code)?|passwort|kennwort|mot de passe|contraseña|senha)\b[\"']?"
    r"(?:\s*[:=]\s*|\s+(?:is|ist|est|es|lautet)\s+)[\"'`]?([^\s\"'`,;]{4,})",
    re.IGNORECASE,
)
_WORD = re.compile(rf"(?<![\w/.-])[A-Za-z0-9_+=-]{{{RANDOM_LENGTH},}}(?![\w/])")
_MAIL = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")
_DIGITS = re.compile(r"(?<![\w.])\d(?:[ -]?\d){12,18}(?![\w.])")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b")
_SSN = re.compile(r"\b\d{3}-\d{2}-\d{4}\b")

_Span = tuple[int, int, str]  # begin, end, what it is


class Redactor:
    """Cuts secrets, and with ``personal`` personal data too, out of turns and feedback.

    Args:
        kind: ``secrets`` or ``personal``.

    Example:
        >>> Redactor("secrets").text("my password is tr0ub4dor, remember it")
        'my password is [redacted: password], remember it'

    Raises:
        ValueError: no such kind.
    """

    def __init__(self, kind: Kind) -> None:
        if kind not in KINDS or kind == "none":
            raise ValueError(f"redact={kind}: secrets or personal")
        self.kind = kind

    def __call__(self, kept: Turn | Feedback) -> Turn | Feedback:
        """Return what may be kept."""
        if isinstance(kept, Feedback):
            return replace(
                kept,
                correction=_maybe(self.text, kept.correction),
                edit=_maybe(self.text, kept.edit),
                comment=_maybe(self.text, kept.comment),
            )
        return replace(
            kept,
            text=self.text(kept.text),
            reasoning=self.text(kept.reasoning),
            messages=tuple(self._message(message) for message in kept.messages),
            tool_calls=tuple(self._call(call) for call in kept.tool_calls),
        )

    def text(self, text: str) -> str:
        """Return a text with what was found replaced by its kind in brackets."""
        parts, at = [], 0
        for begin, end, name in _merged(self._spans(text)):
            parts += [text[at:begin], f"[redacted: {name}]"]
            at = end
        return "".join([*parts, text[at:]])

    def _spans(self, text: str) -> Iterator[_Span]:
        yield from _secrets(text)
        if self.kind == "personal":
            yield from _personal(text)

    def _message(self, message: Message) -> Message:
        """Return a message with its content and calls looked through, whatever their form."""
        changed = dict(message)
        if isinstance(content := message.get("content"), str):
            changed["content"] = self.text(content)
        elif isinstance(content, list):
            changed["content"] = [self._part(part) for part in content]
        if isinstance(reasoning := message.get("reasoning_content"), str):
            changed["reasoning_content"] = self.text(reasoning)
        if calls := message.get("tool_calls"):
            changed["tool_calls"] = [self._call(call) for call in calls]
        return changed

    def _part(self, part: Any) -> Any:
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            return {**part, "text": self.text(part["text"])}
        return part

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return a tool call with the strings of its arguments looked through."""
        function = dict(call.get("function") or {})
        arguments = function.get("arguments")
        if arguments is not None:
            function["arguments"] = self._value(arguments)
        return {**call, "function": function} if function else dict(call)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self._value(inner) for key, inner in value.items()}
        return [self._value(inner) for inner in value] if isinstance(value, list) else value


def redactor(kind: Kind) -> Redact | None:
    """Return what cuts out a kind; None for ``none``. Raises ``ValueError``: no such kind."""
    if kind == "none":
        return None
    return Redactor(kind)


def _maybe(change: Callable[[str], str], text: str | None) -> Any:
    return text if text is None else change(text)


def _secrets(text: str) -> Iterator[_Span]:
    for found in _PRIVATE_KEY.finditer(text):
        yield *found.span(), "private key"
    for name, pattern in _patterns():
        for found in pattern.finditer(text):
            yield *found.span(), name
    for found in _NAMED.finditer(text):
        yield *found.span(1), "password"
    for found in _WORD.finditer(text):
        if _is_random(found.group()):
            yield *found.span(), "key"


def _personal(text: str) -> Iterator[_Span]:
    from phonenumbers import PhoneNumberMatcher
    from stdnum import iban, luhn
    from stdnum.us import ssn

    for found in _MAIL.finditer(text):
        yield *found.span(), "e-mail address"
    for found in _DIGITS.finditer(text):
        if luhn.is_valid(re.sub(r"\D", "", found.group())):
            yield *found.span(), "card number"
    for found in _IBAN.finditer(text):
        if iban.is_valid(found.group()):
            yield *found.span(), "bank account"
    for found in _SSN.finditer(text):
        if ssn.is_valid(found.group()):
            yield *found.span(), "social security number"
    for match in PhoneNumberMatcher(text, None):
        yield match.start, match.end, "telephone number"


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the library's patterns, each with what it finds."""
    from importlib import import_module

    found = []
    for module, name in _DETECTORS:
        detector = getattr(import_module(f"detect_secrets.plugins.{module}"), name)()
        found += [(str(detector.secret_type), pattern) for pattern in detector.denylist]
    return tuple(found)


def _is_random(word: str) -> bool:
    """Whether a long word looks drawn rather than written: letters of both cases and digits, or
    hexadecimal digits alone, spread evenly."""
    from math import log2

    kinds = [any(map(test, word)) for test in (str.islower, str.isupper, str.isdigit)]
    hexadecimal = len(word) >= 32 and set(word.lower()) <= set("0123456789abcdef-") and kinds[2]
    if not (all(kinds) or hexadecimal):
        return False
    shares = [word.count(letter) / len(word) for letter in set(word)]
    bits = -sum(share * log2(share) for share in shares)
    return bits >= (3.0 if hexadecimal else RANDOM_BITS)


def _merged(spans: Iterator[_Span]) -> list[_Span]:
    """Return spans in order, overlapping ones as one with the name of the longest of them."""
    merged: list[_Span] = []
    longest = 0
    for begin, end, name in sorted(spans):
        if merged and begin < merged[-1][1]:
            before = merged[-1]
            kept = name if end - begin > longest else before[2]
            merged[-1] = (before[0], max(before[1], end), kept)
        else:
            merged.append((begin, end, name))
            longest = 0
        longest = max(longest, end - begin)
    return merged
