"""The first evidence: what the user said of a reply outright. It overrides all other.

A rating is the score. A correction or an edit without one says the reply was not what was wanted.
Comments are for people and carry no score. Where feedback contradicts itself the last counts.
"""

from rl.judge.types import Exchange, Judgement, Score
from serving.turns import Feedback

SOURCE = "feedback"


async def from_feedback(exchange: Exchange) -> Judgement | None:
    """Return what the user's feedback says; None when there is none with a score."""
    found: Judgement | None = None
    for item in exchange.feedback:
        verdict = _verdict(item, str(exchange.reply.get("content") or ""))
        if verdict is None:
            continue
        score, reason = verdict
        hint = (item.correction or "").strip()
        if not hint and found is not None and found.score == score:
            hint = found.hint  # a thumb after a correction does not take the correction back
        found = Judgement(score, reason=reason, source=SOURCE, hint=hint)
    return found


def _verdict(item: Feedback, reply: str) -> tuple[Score, str] | None:
    if item.rating is not None:
        if item.rating > 0:
            return 1, "rated good"
        return (-1, "rated bad") if item.rating < 0 else (0, "rated neither good nor bad")
    if item.correction:
        return -1, "corrected by the user"
    if item.edit is not None:
        if item.edit.strip() == reply.strip():
            return 1, "sent back by the user without a change"
        return -1, "rewritten by the user"
    return None
