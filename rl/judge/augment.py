"""Other spellings of a follow-up, so that the classifier learns what is said and not how.

Every change keeps the label: case, punctuation, typing errors, short forms of chats, an emoji of
the same mood, a polite or hesitant opening.
"""

import random
import re

SHORT = {
    "you": "u", "are": "r", "please": "pls", "thanks": "thx", "thank you": "ty", "your": "ur",
    "because": "cuz", "to": "2", "for": "4", "okay": "k", "what": "wat", "know": "kno",
    "that": "dat", "with": "w", "really": "rly", "people": "ppl", "don't": "dont", "right": "rite",
    "great": "gr8", "sorry": "sry", "something": "smth", "about": "abt", "tomorrow": "tmrw",
}  # fmt: skip
MOODS = {1: "😊 👍 🙏 🎉 ❤️ 😍 ✨ 🥰 💪 😄 🤩 ✅ 👌 💯", -1: "😡 👎 😕 😩 🤦 😒 🙄 ❌ 😤 😞 🤨",
         0: "🤔 ❓ 🧐 👀"}  # fmt: skip
OPENINGS = {
    1: ("ok, ", "ah, ", "oh, ", "yes, ", "hey, ", "hm ok, ", "well, "),
    -1: ("ok but ", "thanks, but ", "hm, ", "sorry, ", "no, ", "well, ", "hey, ", "umm "),
    0: ("ok, ", "hm, ", "oh, ", "hey, ", "and ", "thanks. ", "sorry, "),
}
MIN_TYPO_CHARS = 4


def variants(text: str, label: int, number: int, seed: str) -> list[str]:
    """Return ``number`` other spellings; equal arguments give equal spellings."""
    draw = random.Random(f"{seed} {text}")
    return [_variant(text, label, draw) for _ in range(number)]


def _variant(text: str, label: int, draw: random.Random) -> str:
    if draw.random() < 0.3 and len(text) > MIN_TYPO_CHARS:
        opening = draw.choice(OPENINGS[label])
        text = opening + text[:1].lower() + text[1:]
    if draw.random() < 0.4:
        text = text.lower()
    if draw.random() < 0.3:
        text = _short(text)
    if draw.random() < 0.4:
        text = _typos(text, draw)
    if draw.random() < 0.4:
        text = re.sub(r"[.,;:!?'\"]", "", text)
    elif draw.random() < 0.3:
        text = text.rstrip(".!") + draw.choice(
            ("!", "!!", "...", "!!!", " :)" if label > 0 else ".")
        )
    if draw.random() < 0.2:
        text = f"{text} {draw.choice(MOODS[label].split())}"
    return text


def _short(text: str) -> str:
    for word, short in SHORT.items():
        text = re.sub(rf"\b{word}\b", short, text, flags=re.IGNORECASE)
    return text


def _typos(text: str, draw: random.Random) -> str:
    words = text.split(" ")
    for place, word in enumerate(words):
        if len(word) < MIN_TYPO_CHARS or draw.random() < 0.6:
            continue
        at = draw.randrange(1, len(word) - 1)
        swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        words[place] = draw.choice(
            (swapped, word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:])
        )
    return " ".join(words)
