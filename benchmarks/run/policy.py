"""The measured model behind any OpenAI-compatible URL, and one of ours served for a run.

Asks ``/chat/completions`` in the words every server knows. Token ids are not asked for, since
nothing is trained here: each token counts as id -1. Left out: tools in the API's own shape.
"""

import asyncio
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from benchmarks.perf.process import BenchError, Process
from serving.errors import ContextOverflow, PolicyTimeout, PolicyUnavailable, RequestRefused
from serving.types import FinishReason, Generation, Message, Reply, Sampling

START_TIMEOUT_S = 900.0  # a large model is read from a slow disk
UNKNOWN_ID = -1
_TOO_MANY = 429
_TOO_LONG = ("context_length_exceeded", "context length", "too long")


class NoModel(Exception):
    """No model answers where one was promised; one line that says what was tried."""


@dataclass(frozen=True)
class Endpoint:
    """Where a model answers.

    Attributes:
        base_url: up to and with ``/v1``.
        api_key: shown as a bearer; "" for none.
        model: name in requests.
    """

    base_url: str
    api_key: str = ""
    model: str = "default"


def normal_url(url: str) -> str:
    """Return the base URL with its version: ``http://host:1`` becomes ``http://host:1/v1``."""
    return url.rstrip("/") + ("" if urlsplit(url).path.strip("/") else "/v1")


class ChatPolicy:
    """A ``Policy`` over chat completions. Make and use it inside one event loop.

    Args:
        endpoint: where to ask.
        max_connections: most requests on the wire at once.
    """

    def __init__(self, endpoint: Endpoint, max_connections: int = 256) -> None:
        self.endpoint = endpoint
        self._max_connections = max_connections
        self._http: aiohttp.ClientSession | None = None

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        session: str,
        sampling: Sampling,
        timeout_s: float | None = None,
    ) -> Reply:
        """Return the next reply; a server that is busy is waited for.

        Raises:
            PolicyUnavailable: refused, reset, the server failed or is no such server.
            PolicyTimeout: no reply in time.
            ContextOverflow: the conversation no longer fits.
            RequestRefused: any other refusal.
        """
        body: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": [dict(message) for message in messages],
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        if sampling.top_p < 1:
            body["top_p"] = sampling.top_p
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        answer = await self._ask("POST", "/chat/completions", body, session, timeout_s)
        try:
            return _reply(answer)
        except (LookupError, TypeError, AttributeError) as error:
            raise PolicyUnavailable(f"no chat completion: {answer!r:.200}") from error

    async def models(self, timeout_s: float = 30.0) -> list[str]:
        """Return the names the server offers. Raises ``PolicyError``."""
        answer = await self._ask("GET", "/models", None, "", timeout_s)
        try:
            return [str(row["id"]) for row in answer["data"]]
        except (LookupError, TypeError) as error:
            raise PolicyUnavailable(f"no list of models: {answer!r:.200}") from error

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        session: str,
        timeout_s: float | None,
    ) -> dict[str, Any]:
        url = self.endpoint.base_url
        headers = {"X-Session-Id": session} if session else {}
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    status, answer, wait_s = await self._send(method, url + path, body, headers)
                    if status != _TOO_MANY:
                        break
                    await asyncio.sleep(wait_s)
        except TimeoutError as error:
            raise PolicyTimeout(f"no answer from {url} in {timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            cause = f"{type(error).__name__}: {error}"
            raise PolicyUnavailable(f"no answer from {url} ({cause})") from error
        if status >= 400:
            raise _failure(status, answer)
        if not isinstance(answer, dict):
            raise PolicyUnavailable(f"HTTP {status}: {answer!r:.200}")
        return answer

    async def _send(
        self, method: str, url: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> tuple[int, Any, float]:
        if self._http is None:
            key = self.endpoint.api_key
            self._http = aiohttp.ClientSession(
                headers={"Authorization": f"Bearer {key}"} if key else {},
                connector=aiohttp.TCPConnector(limit=self._max_connections),
                timeout=aiohttp.ClientTimeout(total=None),  # the caller's limit covers all
            )
        async with self._http.request(method, url, json=body, headers=headers) as response:
            text = await response.text()
            try:
                answer: Any = json.loads(text)
            except ValueError:
                answer = text
            return response.status, answer, _seconds(response.headers.get("Retry-After", "1"))


def _seconds(text: str) -> float:
    try:
        return max(0.1, float(text))
    except ValueError:  # a date
        return 1.0


def _reply(answer: Mapping[str, Any]) -> Reply:
    choice, usage = answer["choices"][0], answer.get("usage") or {}
    text = choice["message"].get("content") or ""
    prompt, sampled = int(usage.get("prompt_tokens", 0)), int(usage.get("completion_tokens", 0))
    reason: FinishReason = "length" if choice.get("finish_reason") == "length" else "stop"
    ids_T = (UNKNOWN_ID,) * sampled
    generation = Generation(ids_T, (), (), reason)
    return Reply(str(answer.get("id", "")), text, (UNKNOWN_ID,) * prompt, generation)


def _failure(status: int, answer: Any) -> Exception:
    """Return the typed error of a refusal, in OpenAI's shape or any other."""
    error = answer.get("error") if isinstance(answer, dict) else None
    detail = error if isinstance(error, dict) else {"message": error or answer}
    message = f"HTTP {status}: {detail.get('message', '')!s:.300}"
    if status >= 500:
        return PolicyUnavailable(message)
    said = f"{detail.get('code', '')} {message}".lower()
    if status in (400, 413) and any(words in said for words in _TOO_LONG):
        return ContextOverflow(message, status)
    return RequestRefused(message, status)


async def reach(url: str, api_key: str, model: str = "") -> Endpoint:
    """Return the endpoint of a running server, asked whether it is there.

    Args:
        model: name in requests; "": the first the server offers.

    Raises:
        NoModel: nothing usable answers, or it does not offer that model.
    """
    from serving.errors import PolicyError

    policy = ChatPolicy(Endpoint(normal_url(url), api_key))
    try:
        names = await policy.models()
    except PolicyError as error:
        raise NoModel(f"model={url}: {error}") from error
    finally:
        await policy.close()
    if not names or (model and model not in names):
        raise NoModel(f"model={url} offers {', '.join(names) or 'no model'}; asked for {model!r}")
    return Endpoint(normal_url(url), api_key, model or names[0])


@contextmanager
def served(model: str, options: Sequence[str] = ()) -> Iterator[Endpoint]:
    """Serve a model for as long as the context lasts, under a key of its own.

    Args:
        model: folder or name, as ``python -m serving`` takes it.
        options: further ``key=value`` of it.

    Raises:
        NoModel: it did not start; carries the end of what it said.
    """
    key = secrets.token_urlsafe(24)
    keys = {"CLAWGYM_API_KEY": key, "CLAWGYM_ADMIN_KEY": secrets.token_urlsafe(24)}
    child = Process.module("serving", f"model={model}", "port=0", *options, env=keys)
    try:
        try:
            url = child.line(START_TIMEOUT_S)
        except BenchError as error:
            raise NoModel(str(error)) from error
        yield Endpoint(normal_url(url), key, "default")
    finally:
        child.close()
