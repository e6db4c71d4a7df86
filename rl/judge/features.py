"""What the default judge looks at: the follow-up's meaning, its letters, and what it repeats.

Three groups, each with its own scale in the classifier:
  meaning  MiniLM embeddings (384 each) of the next message and of its first sentence alone, where
           most people say whether they were served; English-centred
  letters  hashed character 1- to 4-grams and words (``HASHED``): any language, typing errors
  signs    families of words (``rl.judge.lexicon``) in the message, its first sentence and what
           follows it, length, marks, likeness to request and reply
"""

import math
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rl.judge.lexicon import FAMILIES, families

HASHED = 4096
WIDTH = 384  # of an embedding
MEANING = 2 * WIDTH
MAX_FIRST_CHARS = 120
MAX_CHARS = 400  # of a text that are looked at
CONTEXT_CHARS = 1500
NGRAMS = (1, 2, 3, 4)

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
    """Return one row: meaning, letters, signs."""
    said = " ".join(texts.said.split())[:MAX_CHARS]
    first, rest = halves(said)
    whole = embed(said)
    request = texts.request[:MAX_CHARS]
    likeness = float(whole @ embed(request)) if request.strip() else 0.0
    meaning = [whole, embed(first)]
    return np.concatenate(
        [*meaning, letters(said), signs(texts, said, likeness), _parts(first, rest)]
    )


def halves(said: str) -> tuple[str, str]:
    """Return the first sentence of a message, and what follows it or ""."""
    end = re.search(r"[.!?…:;]+[)\s\"']+(?=\S)|[。！？：]+(?=\S)|\s[-–—]\s", said)
    cut = end.end() if end else len(said)
    return said[:cut].strip()[:MAX_FIRST_CHARS], said[cut:].strip()


def letters(text: str) -> Vector:
    """Return hashed n-grams of characters and words, scaled to length 1."""
    row = np.zeros(HASHED, np.float32)
    words = re.findall(r"\w+|[^\w\s]", text.lower())
    padded = f" {' '.join(words)} "
    grams = [padded[i : i + n] for n in NGRAMS for i in range(len(padded) - n + 1)]
    grams += [f"w:{word}" for word in words]
    grams += [f"b:{a} {b}" for a, b in pairwise(words)]
    grams += [f"first:{word}" for word in words[:1]]
    for gram in grams:
        code = zlib.crc32(gram.encode())
        row[code % HASHED] += 1.0 if code & 0x80000000 else -1.0
    row = np.sign(row) * np.sqrt(np.abs(row))
    size = float(np.linalg.norm(row))
    return row / size if size else row


def signs(texts: Texts, said: str, likeness: float) -> Vector:
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
    repeated = [request, reply, _shared(said, texts.earlier), request * (1 - short), likeness]
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
