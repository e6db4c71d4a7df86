"""The policy seen from agents and learner: one aiohttp session, typed failures. Light: no torch."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import aiohttp

from .errors import (
    ContextOverflow,
    PolicyTimeout,
    PolicyUnavailable,
    RequestRefused,
    TooManyRequests,
)
from .types import Generation, Message, Reply, Sampling

CONNECT_ATTEMPTS = 4
CONNECT_BACKOFF_S = 0.2
TOO_MANY = 429


class PolicyClient:
    """Asks a policy server. Make and use it inside one event loop.

    Args:
        base_url: such as ``http://127.0.0.1:41234``.
        api_key: the server's key.
        timeout_s: for each call that is not given its own.
        max_connections: most requests on the wire at once; more wait here.
    """

    def __init__(
        self, base_url: str, api_key: str, *, timeout_s: float = 600.0, max_connections: int = 256
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {api_key}"}
        self._timeout_s = timeout_s
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
        """Return the next reply of a conversation.

        Args:
            messages: the whole conversation so far.
            session: name that is the same for all turns of an episode.
            sampling: how to sample.
            timeout_s: wall-clock seconds, waiting included.

        Raises:
            PolicyUnavailable: refused, reset, the engine failed, or what answered is no policy
                server.
            PolicyTimeout: no reply in time; the request is cancelled on the server.
            ContextOverflow: the conversation no longer fits the context.
            RequestRefused: any other refusal.
        """
        body: dict[str, Any] = {
            "model": "default",
            "messages": [dict(message) for message in messages],
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": sampling.seed,
            "stop": list(sampling.stop) or None,
            "return_token_ids": True,
        }
        path = f"/s/{quote(session, safe='')}/v1/chat/completions"
        answer = await self._ask("POST", path, body, timeout_s)
        try:
            return _reply(answer)
        except (LookupError, TypeError) as error:
            raise PolicyUnavailable(f"no reply of a policy server: {answer!r:.200}") from error

    async def rate(self, reply_id: str, rating: int) -> None:
        """Say whether a reply was good (1), bad (-1) or neither (0).

        Raises:
            RequestRefused: no such reply is kept.
        """
        await self._ask("POST", "/v1/feedback", {"id": reply_id, "rating": rating})

    async def load_weights(self, path: Path, version: int) -> None:
        """Have the engine load a publication; requests in flight go on.

        Raises:
            RequestRefused: the file does not fit the model; the old weights stay.
        """
        await self._ask("POST", "/admin/weights", {"path": str(path), "version": version})

    async def pause(self) -> None:
        """Stop the engine between two tokens."""
        await self._ask("POST", "/admin/pause", {})

    async def resume(self) -> None:
        """Let the engine go on."""
        await self._ask("POST", "/admin/resume", {})

    async def score(
        self, token_ids: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> list[list[float]]:
        """Return log-probs of the 2nd to last token of each sequence."""
        body = {"token_ids": [list(row) for row in token_ids], "temperature": temperature}
        answer = await self._ask("POST", "/admin/score", body)
        return list(answer["logprobs"])

    async def push_quality(
        self, version: int, score: float, judged: int, at: float | None = None
    ) -> None:
        """Tell people how well the replies of a policy version were judged.

        Args:
            version: the policy version.
            score: mean of the judge's scores.
            judged: number of replies it is the mean of.
            at: seconds since the epoch; None: now.
        """
        body = {"version": version, "score": score, "judged": judged, "at": at}
        await self._ask("POST", "/admin/quality", body)

    async def stats(self) -> Mapping[str, Any]:
        """Return the server's counters."""
        return await self._ask("GET", "/admin/stats")

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def __aenter__(self) -> "PolicyClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return await self._send(method, path, body)
        except TimeoutError as error:
            raise PolicyTimeout(f"no answer from {self.base_url} in {limit_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            cause = f"{type(error).__name__}: {error}"
            raise PolicyUnavailable(f"no answer from {self.base_url} ({cause})") from error

    async def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        """Send once; only a connection that was never made is tried again."""
        for attempt in range(CONNECT_ATTEMPTS):
            try:
                async with self._session().request(
                    method, self.base_url + path, json=body
                ) as response:
                    answer = _json_object(response.status, await response.read())
                    if response.status >= 400:
                        wait_s = response.headers.get("Retry-After", "1")
                        raise _failure(response.status, {"retry_after_s": wait_s, **answer})
                    return answer
            except aiohttp.ClientConnectorError:
                if attempt == CONNECT_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(CONNECT_BACKOFF_S * 2**attempt)
        raise AssertionError("unreachable")

    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            self._http = aiohttp.ClientSession(
                headers=self._headers,
                connector=aiohttp.TCPConnector(limit=self._max_connections),
                timeout=aiohttp.ClientTimeout(total=None),  # the caller's limit covers all
            )
        return self._http


def _json_object(status: int, body: bytes) -> dict[str, Any]:
    """Return the answer; what is not JSON comes of a proxy, or of a server that broke."""
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise PolicyUnavailable(f"HTTP {status}: not JSON") from error
    if not isinstance(answer, dict):
        raise PolicyUnavailable(f"HTTP {status}: not a JSON object")
    return answer


def _reply(answer: Mapping[str, Any]) -> Reply:
    choice = answer["choices"][0]
    return Reply(
        id=answer["id"],
        text=choice["message"]["content"],
        prompt_ids_P=tuple(choice["prompt_token_ids"]),
        generation=Generation(
            token_ids_T=tuple(choice["token_ids"]),
            logprobs_T=tuple(choice["token_logprobs"]),
            versions_T=tuple(choice["policy_versions"]),
            finish_reason=choice["finish_reason"],
            num_cached=choice["num_cached"],
        ),
    )


def _failure(status: int, answer: Mapping[str, Any]) -> Exception:
    """Return the typed error of an answer in OpenAI's error shape."""
    error = answer.get("error")
    if not isinstance(error, dict):
        error = {}
    message = str(error.get("message", f"HTTP {status}"))
    if status >= 500:
        return PolicyUnavailable(f"HTTP {status}: {message}")
    if error.get("code") == "context_length_exceeded":
        return ContextOverflow(message, status, error.get("param"))
    if status == TOO_MANY:
        return TooManyRequests(message, float(answer.get("retry_after_s", 1.0)))
    return RequestRefused(message, status, error.get("param"))
