"""The users of tool-call tasks, played by a language model behind a URL.

The model is told the task's plan (what the user wants, knows, and comes to next) and the
conversation; it writes the user's next message, or that the user leaves. It hears what rules do
not: a question in any words. Verdicts stay with the rules: state, what was told, rules kept.
"""

import random
from collections.abc import Sequence

from envs.toolcall.users import HELLO, Move, UserPlan
from envs.voice import Voice

LEAVES = "[LEAVES]"

ROLE = """You play a person who talks to an assistant. The assistant acts for the person.
What the person wants: {opening}
{more}{facts}Tell what the person knows only when asked for it. Asked for anything else, say that
you do not know it. Asked whether to go ahead with what the person wants, say yes. Make nothing up,
and never say that you play a role.
Write the person's next message and nothing else: one or two sentences. When all of it is settled,
or the assistant says that it cannot be done, write {leaves} instead."""


class LLMUser:
    """A user in a conversation; the counterpart of ``envs.toolcall.users.RuleUser``.

    Args:
        plan: of the task.
        rng: of the sampling's seeds and of what is said into silence.
        voice: where the words come from.
    """

    def __init__(self, plan: UserPlan, rng: random.Random, voice: Voice) -> None:
        self._plan, self._rng, self._voice = plan, rng, voice
        self._heard = [("You", plan.opening)]

    def hear(self, message: str) -> tuple[Move, str]:
        """Return what the user does and says. Raises ``EnvError`` where no message comes."""
        if not message.strip():
            return Move.ASK_AGAIN, self._rng.choice(HELLO)
        self._heard.append(("Assistant", message))
        words = self._voice.words(prompt(self._plan, self._heard), self._rng)
        says = words.replace(LEAVES, "").strip()
        self._heard.append(("You", says))
        return (Move.LEAVE if LEAVES in words else Move.ANSWER), says


def prompt(plan: UserPlan, heard: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Return the messages that put a model into the user's place."""
    facts = "\n".join(f"- {fact.says}" for fact in plan.facts)
    role = ROLE.format(
        opening=plan.opening,
        more="".join(f"And when that is settled: {each}\n" for each in plan.more),
        facts=f"What the person knows:\n{facts}\n" if facts else "",
        leaves=LEAVES,
    )
    lines = "\n\n".join(f"{who}: {text}" for who, text in heard)
    return [
        {"role": "system", "content": role},
        {"role": "user", "content": f"The conversation so far:\n\n{lines}\n\nThe next message:"},
    ]
