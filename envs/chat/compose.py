"""Writes a reply that meets given wishes from a question's kept answer: the oracle of every task.

Its replies are correct and stiff; they prove tasks fair and serve as demonstrations. Left out:
wishes that exclude each other, which no persona has.
"""

import json
from collections.abc import Sequence

from envs.chat.criteria import check, find, words
from envs.chat.request import Request
from envs.errors import TaskError

REASONS = (
    "I begin with the result because it is what the question asks for.",
    "I show the way to it as well so that you can follow every step and try it yourself.",
    "It helps to say the idea in your own words afterwards, because that shows what is still open.",
    "A small drawing on the side of the page is useful, since a picture is easy to remember.",
    "Comparing it with something from daily life is worth a minute, because the idea then stays.",
    "It pays to check the result at the end, so that a slip does not go unnoticed.",
)
WARMTH = "Thank you for bringing this to me, you are doing well and I am happy to help."
SMALL_TALK = "No problem at all, take your time."


def compose(request: Request, wishes: Sequence[str]) -> str:
    """Return a reply to the request that meets every wish.

    Raises:
        TaskError: no such reply could be written; names the wishes that fail.
    """
    if request.aside:
        return SMALL_TALK
    reply = _write(request, {find(name).kind: find(name).value for name in wishes})
    if failed := [name for name, met in check(wishes, request, reply).items() if not met]:
        raise TaskError(f"no reply to {request.text[:60]!r} meets {', '.join(failed)}")
    return reply


def _write(request: Request, kinds: dict[str, str]) -> str:
    sentences = list(request.sentences)
    if "json_only" in kinds:
        answer = request.answer or sentences[0]
        return json.dumps({"answer": answer, "explanation": " ".join(sentences)})
    if "warm" in kinds:
        sentences.append(WARMTH)
    if "gives_reasons" in kinds:
        sentences.append(REASONS[0])
    if "at_least_words" in kinds:
        more = iter(sentence for sentence in REASONS if sentence not in sentences)
        while len(words(" ".join(sentences))) < int(kinds["at_least_words"]):
            sentences.append(next(more, REASONS[-1]))
    if "at_most_words" in kinds:
        while len(sentences) > 1 and len(words(" ".join(sentences))) > int(kinds["at_most_words"]):
            sentences.pop()
    text = "\n".join(f"- {s}" for s in sentences) if "bullets" in kinds else " ".join(sentences)
    if "ends_with_summary" in kinds:
        text += f"\nIn short: {sentences[0]}"
    return text
