"""A simulated user's words from a language model behind any OpenAI-compatible URL.

    CLAWGYM_USER_URL=http://127.0.0.1:8000/v1 CLAWGYM_USER_MODEL=NAME CLAWGYM_USER_KEY=… \\
        python -m rl.train env=toolcall

An outage, a time-out or an answer that is no message is an ``EnvError``: the episode is left out.
"""

import asyncio
import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Self

from envs.errors import EnvError
from envs.text import printable

USER_URL = "CLAWGYM_USER_URL"
MAX_ANSWER_BYTES = 1 << 20
MAX_MESSAGE_CHARS = 2000


@dataclass(frozen=True)
class Voice:
    """Asks ``{base_url}/chat/completions`` for a user's words.

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
    def named(cls) -> Self | None:
        """Return what ``CLAWGYM_USER_URL``, ``_MODEL`` and ``_KEY`` name; None without a URL."""
        if not (url := os.environ.get(USER_URL)):
            return None
        model = os.environ.get("CLAWGYM_USER_MODEL", "default")
        return cls(url, model, os.environ.get("CLAWGYM_USER_KEY", ""))

    def words(self, messages: list[dict[str, str]], rng: random.Random) -> str:
        """Return the model's reply to messages, sampled with a seed of ``rng``.

        Raises:
            EnvError: no message within ``timeout_s``; names the URL and the cause.
        """
        body = {
            "model": self.model,
            "messages": messages,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": rng.randrange(1 << 31),
        }
        with ThreadPoolExecutor(1) as thread:  # the caller's thread may have a loop that runs
            answer = thread.submit(asyncio.run, self._post(body)).result()
        return self._message(answer)

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
