"""What the default judge looks at: the follow-up's meaning and signs of how it was said.

Two groups, each with its own scale:
  meaning  sentence embeddings of the next message and of its first sentence alone, where most
           people say whether they were served
  signs    families of words (``rl.judge.lexicon``) in the message, its first sentence and what
           follows it, length, marks, what is repeated of request and reply in letters or meaning
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rl.judge.embeddings import WIDTH
from rl.judge.lexicon import FAMILIES, families

MEANING = 2 * WIDTH
MEANING_SCALE = 6.0  # brings numbers of about 0.04 to the size that training expects
LIKENESS_SCALE = 2.0
MAX_FIRST_CHARS = 120
MAX_CHARS = 400  # of a text that are looked at
CONTEXT_CHARS = 1500

Vector = NDArray[np.float32]
Embed = Callable[[str], Vector]


@dataclass(frozen=True)
class Texts:
    """The texts of an exchange.

    Attributes:
        request: the last user message before the reply.
        reply: the assistant's text.
        said: the next user message.
        earlier: the user messages before the request, joined.
    """

    request: str
    reply: str
    said: str
    earlier: str = ""


def features(texts: Texts, embed: Embed) -> Vector:
    """Return one row: meaning, signs."""
    said, first, rest, request, reply = embedded(texts)
    vectors = [embed(text) for text in (said, first, rest, request, reply)]
    return np.concatenate(
        [
            MEANING_SCALE * vectors[0],
            MEANING_SCALE * vectors[1],
            signs(texts, said),
            _parts(first, rest),
            _likeness(vectors, asked="?" in said or "？" in said or "؟" in said),
        ]
    )


def embedded(texts: Texts) -> tuple[str, str, str, str, str]:
    """Return the texts that are embedded: message, first sentence, rest, request, reply."""
    said = " ".join(texts.said.split())[:MAX_CHARS]
    return (said, *halves(said), texts.request[:MAX_CHARS], texts.reply[:MAX_CHARS])


def _likeness(vectors: list[Vector], *, asked: bool) -> Vector:
    """Return how near the message is to request and reply: who goes on stays with the subject."""
    whole, first, rest, request, reply = vectors
    near = [
        float(whole @ request),
        float(whole @ reply),
        float(first @ request),
        float(rest @ request),
        float(rest @ reply),
    ]
    near.append(max(near[:2]))
    return np.asarray([*near, *(value * asked for value in near)], np.float32) * LIKENESS_SCALE


def halves(said: str) -> tuple[str, str]:
    """Return the first sentence of a message, and what follows it or ""."""
    end = re.search(r"[.!?…:;]+[)\s\"']+(?=\S)|[。！？：]+(?=\S)|\s[-–—]\s", said)
    cut = end.end() if end else len(said)
    return said[:cut].strip()[:MAX_FIRST_CHARS], said[cut:].strip()


def signs(texts: Texts, said: str) -> Vector:
    """Return the families of words, the form, and what is repeated, about 1 in size each."""
    words = re.findall(r"\w+", said.lower())
    kinds = families(said)
    seen = dict(zip(FAMILIES, kinds, strict=True))
    short = float(len(words) <= 3)
    marks = [
        math.log1p(len(words)) / 3,
        short,
        float("?" in said or "？" in said or "؟" in said),
        float("!" in said or "！" in said),
        float("..." in said),
        float(said.isupper() and len(said) > 3),
        float(any(c.isdigit() for c in said)),
        float(any("\u3040" <= c <= "\u9fff" for c in said)),
    ]
    request, reply = _shared(said, texts.request), _shared(said, texts.reply)
    repeated = [request, reply, _shared(said, texts.earlier), request * (1 - short)]
    pairs = [
        seen["thanks"] * seen["contrast"],
        seen["praise"] * seen["contrast"],
        seen["praise"] * seen["wrong"],
        seen["praise"] * seen["emoji_bad"],
        seen["thanks"] * seen["irony"],
        seen["praise"] * seen["irony"],
        seen["deny"] * seen["fine_no"],
        seen["own_fault"] * seen["wrong"],
        marks[2] * seen["next"],
        marks[2] * request,
        marks[2] * reply,
        marks[2] * (1 - seen["next"]) * (1 - seen["wrong"]),
        seen["shift"] * marks[2],
    ]
    return np.asarray([*kinds, *marks, *repeated, *pairs], np.float32)


def _parts(first: str, rest: str) -> Vector:
    """Return the families of the first sentence and of what follows, and how they go together."""
    opening, after = families(first), families(rest)
    seen = dict(zip(FAMILIES, opening, strict=True))
    then = dict(zip(FAMILIES, after, strict=True))
    pleased = max(seen[name] for name in ("thanks", "praise", "accept", "worked", "emoji_good"))
    pleased *= 1 - max(seen[name] for name in ("contrast", "wrong", "irony", "without", "shape"))
    wish = max(then[name] for name in ("form", "comparative", "could_you")) * then["remake"]
    asked = max(then["question_word"], float("?" in rest))
    alone = float(not rest)
    together = [
        alone,
        pleased,
        pleased * alone,
        pleased * (1 - alone),
        pleased * asked,
        pleased * then["contrast"],
        pleased * then["wrong"],
        pleased * wish,
        (1 - pleased) * wish,
        (1 - pleased) * asked * (1 - alone),
        alone * seen["could_you"] * seen["remake"],
        alone * seen["form"] * seen["comparative"],
        alone * seen["form"] * seen["could_you"],
        alone * seen["leaving_it"],
        seen["leaving_it"] * asked,
        seen["farewell"] * alone,
        pleased * then["farewell"],
    ]
    return np.asarray([*opening, *after, *together], np.float32)


def _shared(text: str, other: str) -> float:
    """Return the share of a text's character 4-grams, within words, that another text holds."""
    wanted = _grams(text)
    if not wanted:
        return 0.0
    return len(wanted & _grams(other[:CONTEXT_CHARS])) / len(wanted)


def _grams(text: str) -> set[str]:
    words = (f" {word} " for word in re.findall(r"\w+", text.lower()) if len(word) > 2)
    return {word[i : i + 4] for word in words for i in range(max(1, len(word) - 3))}
