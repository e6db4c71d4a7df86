"""A persona's words from a language model behind any OpenAI-compatible URL.

The model plays the persona: it is told the wish to speak of and the conversation, and its reply is
the user's message. Whether a reply of the assistant meets the wishes is still found by the rules,
and questions are asked word by word as the task has them, so rewards do not depend on the model.
How the model is reached: ``envs.voice``.
"""

import random

from envs.chat.session import Move, Situation
from envs.chat.vocabulary import LANGUAGES
from envs.voice import Voice

ROLE = (
    "You play a person who uses a chat assistant. Write that person's next message and nothing "
    "else: one or two sentences in {language}, {tone} in tone, without quotation marks. Never say "
    "that you play a role, and do not answer as the assistant."
)
TASKS = {
    Move.CORRECT: "You are not content with the form of the last reply. What you want: {wish} Say "
    "so in your own words{again}.",
    Move.ASK: "Say in a few words that you go on to the next question. Do not ask it.",
    Move.SMALL_TALK: "Say in a few words that the last reply was fine.",
    Move.CHANGE_TOPIC: "Say in a few words that you want to change the topic. Do not name one.",
    Move.LEAVE: "You have what you need. Say a short goodbye.",
    Move.GIVE_UP: "You have asked several times in vain. Say that you give up, and leave.",
}
TONES = {"blunt": "blunt", "polite": "polite", "indirect": "indirect and a little vague"}


class LLMUser(Voice):
    """Speaks for a persona; see the module."""

    def say(self, situation: Situation, rng: random.Random) -> str:
        """Return the model's words, followed by the question to ask if there is one.

        Raises:
            EnvError: no message within ``timeout_s``; names the URL and the cause.
        """
        words = self.words(prompt(situation), rng)
        return " ".join(filter(None, (words, situation.question)))


def prompt(situation: Situation) -> list[dict[str, str]]:
    """Return the messages that put a model into the user's place; roles are swapped."""
    persona = situation.persona
    role = ROLE.format(language=LANGUAGES[persona.language], tone=TONES[persona.tone])
    lines = "\n\n".join(
        f"{'You' if who == 'user' else 'Assistant'}: {text}" for who, text in situation.heard
    )
    task = TASKS[situation.move].format(
        wish=" ".join(wish.hint for wish in situation.wishes),
        again=", once more" if situation.corrections else "",
    )
    return [
        {"role": "system", "content": role},
        {"role": "user", "content": f"The conversation so far:\n\n{lines}\n\n{task}"},
    ]
