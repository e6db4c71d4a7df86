"""The third evidence: a judge model behind any OpenAI-compatible URL, asked m times.

Left out: judging without a model; that is ``rl.judge.classifier``.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from rl.errors import JudgeUnavailable
from rl.judge.prompt import Vote, judge_messages, parse_vote
from rl.judge.settings import JudgeConfig
from rl.judge.types import Exchange, Judgement

SOURCE = "model"
OK = 200
HEADERS = {"X-Turn-Kind": "side"}  # to our own gateway: no conversation, not to be learned from
REFUSED = frozenset({400, 413, 422})  # this request cannot be answered; asking again will not help


@dataclass(frozen=True)
class Endpoint:
    """A server of judge answers.

    Attributes:
        url: base URL, the part before ``/chat/completions``.
        key: sent as bearer token; "" sends none.
        model: the ``model`` field of requests.
        fields: further fields of every request's body.
    """

    url: str
    key: str = ""
    model: str = "default"
    fields: Mapping[str, Any] = field(default_factory=dict)


class ModelJudge:
    """Asks a model for votes; the majority is the verdict.

    Make and use it inside one event loop. At most ``concurrency`` votes are asked for at once over
    all exchanges; the others wait their turn.

    Args:
        endpoint: where it answers.
        settings: votes, temperature, time-out and the like.
    """

    def __init__(self, endpoint: Endpoint, settings: JudgeConfig) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._places = asyncio.Semaphore(settings.concurrency)
        self._http: aiohttp.ClientSession | None = None

    async def __call__(self, exchange: Exchange) -> Judgement:
        """Return the majority of the votes; 0 without one.

        Raises:
            JudgeUnavailable: a vote did not come: refused connection, overload, time-out.
        """
        messages = judge_messages(exchange, self._settings.history_chars)
        asked = [self._vote(messages) for _ in range(self._settings.votes)]
        votes = []
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer
            votes.append(answer)
        return decide(votes)

    async def _vote(self, messages: Sequence[Mapping[str, str]]) -> Vote:
        settings, endpoint = self._settings, self._endpoint
        body = {
            "model": endpoint.model,
            "messages": list(messages),
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            **endpoint.fields,
        }
        async with self._places:
            try:
                async with asyncio.timeout(settings.timeout_s):
                    status, answer = await self._post(body)
            except TimeoutError:
                raise JudgeUnavailable(
                    f"no vote from {endpoint.url} in {settings.timeout_s:g} s"
                ) from None
            except (aiohttp.ClientError, OSError) as error:
                raise JudgeUnavailable(f"no vote from {endpoint.url}: {error}") from error
        if status in REFUSED:
            return Vote(None, f"the judge refused ({status}): {str(answer)[:200]}")
        if status != OK:
            raise JudgeUnavailable(f"{endpoint.url} answered {status}: {str(answer)[:200]}")
        try:
            return parse_vote(answer["choices"][0]["message"]["content"] or "")
        except (KeyError, IndexError, TypeError) as error:
            raise JudgeUnavailable(f"{endpoint.url} is no OpenAI-compatible server") from error

    async def _post(self, body: Mapping[str, Any]) -> tuple[int, Any]:
        await self.open()
        assert self._http is not None
        url = f"{self._endpoint.url}/chat/completions"
        async with self._http.post(url, json=body) as response:
            if response.status != OK:
                return response.status, await response.text()
            try:
                return response.status, await response.json(content_type=None)
            except ValueError:
                return response.status, None

    async def open(self) -> None:
        """Make the connections' pool; nothing is asked yet."""
        if self._http is None:
            key = self._endpoint.key
            headers = dict(HEADERS, Authorization=f"Bearer {key}") if key else HEADERS
            self._http = aiohttp.ClientSession(headers=headers)

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.close()
            self._http = None


def decide(votes: Sequence[Vote]) -> Judgement:
    """Return the score that more than half of the votes give, else 0.

    Votes without a score count for 0. Confidence is the share of the most frequent score.
    """
    counts = Counter(vote.score or 0 for vote in votes)
    score, count = counts.most_common(1)[0]
    share = count / len(votes)
    if 2 * count <= len(votes):
        said = ", ".join(f"{value:+d} × {n}" for value, n in sorted(counts.items()))
        reasons = "; ".join(vote.reason for vote in votes if vote.reason)
        return Judgement(0, share, f"no majority ({said}): {reasons}"[:500], SOURCE)
    agreeing = [vote for vote in votes if (vote.score or 0) == score]
    stated = [vote for vote in agreeing if vote.score is not None]
    reason = next((v.reason for v in (*stated, *agreeing) if v.reason), "")
    hint = next((v.hint for v in stated if v.hint), "") if score == -1 else ""
    return Judgement(score, share, reason, SOURCE, hint)
