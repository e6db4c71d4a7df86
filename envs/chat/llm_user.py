"""A user's words from a language model behind any OpenAI-compatible URL.

The model plays the persona: it is told the wish to speak of and the conversation, and its reply is
the user's message. Whether a reply of the assistant meets the wishes is still found by the rules,
and questions are asked word by word as the task has them, so rewards do not depend on the model.

    CLAWGYM_USER_URL=http://127.0.0.1:8000/v1 CLAWGYM_USER_MODEL=NAME CLAWGYM_USER_KEY=… \\
        python -m rl.train env=chat

An outage, a time-out or an answer that is no message is an ``EnvError``: the episode is left out.
"""

import asyncio
import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from envs.chat.session import Move, Situation
from envs.chat.vocabulary import LANGUAGES
from envs.errors import EnvError
from envs.text import printable

MAX_ANSWER_BYTES = 1 << 20
MAX_MESSAGE_CHARS = 2000

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


@dataclass(frozen=True)
class LLMUser:
    """Asks ``{base_url}/chat/completions`` for the user's words.

    Attributes:
        base_url: up to and with ``/v1``.
        model: name the server knows.
        api_key: sent as a bearer token when not "".
        timeout_s: longest wait for one message, connecting and reading included.
        temperature, max_tokens: of the sampling.
    """

    base_url: str
    model: str = "default"
    api_key: str = field(default="", repr=False)
    timeout_s: float = 30.0
    temperature: float = 0.7
    max_tokens: int = 120

    @classmethod
    def from_environment(cls) -> "LLMUser":
        """Read ``CLAWGYM_USER_URL``, ``CLAWGYM_USER_MODEL`` and ``CLAWGYM_USER_KEY``."""
        return cls(
            os.environ["CLAWGYM_USER_URL"],
            os.environ.get("CLAWGYM_USER_MODEL", "default"),
            os.environ.get("CLAWGYM_USER_KEY", ""),
        )

    def say(self, situation: Situation, rng: random.Random) -> str:
        """Return the model's words, followed by the question to ask if there is one.

        Raises:
            EnvError: no message within ``timeout_s``; names the URL and the cause.
        """
        body = {
            "model": self.model,
            "messages": prompt(situation),
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": rng.randrange(1 << 31),
        }
        with ThreadPoolExecutor(1) as thread:  # the caller's thread may have a loop that runs
            answer = thread.submit(asyncio.run, self._post(body)).result()
        return " ".join(filter(None, (self._message(answer), situation.question)))

    async def _post(self, body: dict[str, Any]) -> bytes:
        import aiohttp

        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        url = f"{self.base_url.rstrip('/')}/chat/completions"
        limit = aiohttp.ClientTimeout(total=self.timeout_s)
        try:
            async with (
                aiohttp.ClientSession(timeout=limit, headers=headers) as client,
                client.post(url, json=body) as response,
            ):
                data = b""
                async for chunk in response.content.iter_any():
                    data += chunk
                    if len(data) > MAX_ANSWER_BYTES:
                        raise EnvError(f"the user at {url} answered over {MAX_ANSWER_BYTES} bytes")
                if response.status != 200:
                    said = data[:200].decode("utf-8", "replace")
                    raise EnvError(f"the user at {url} answered {response.status}: {said}")
                return data
        except TimeoutError as error:
            raise EnvError(f"the user at {url} did not answer in {self.timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EnvError(f"the user at {url} cannot be reached: {error}") from error

    def _message(self, data: bytes) -> str:
        try:
            content = json.loads(data)["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
            said = data[:200].decode("utf-8", "replace")
            raise EnvError(f"the user at {self.base_url} answered no message: {said}") from error
        if not isinstance(content, str) or not content.strip():
            raise EnvError(f"the user at {self.base_url} answered an empty message")
        return printable(content.strip()[:MAX_MESSAGE_CHARS])


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
