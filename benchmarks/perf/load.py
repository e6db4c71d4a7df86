"""The load: ``python -m benchmarks.perf.load`` asks as told and says what it saw.

It reads commands as JSON lines and answers each with one. It is a process of its own, so that what
it costs is the same whatever it asks, and its clock is not held up by the bench.

* ``closed``: each connection holds a conversation of its own that grows by a turn with each answer
  and begins anew after some; warm-up until each connection has been answered, then a fixed time.
* ``streams``: so many streams at once, each read to its end.
* ``begin``, ``hold``, ``go``, ``end``: clients that stream one reply after the other until they
  are told to stop; every token's time is kept (``CLOCK_MONOTONIC``, which all processes share).
"""

import asyncio
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

SYSTEM = "You are a careful assistant. Answer in one or two plain sentences."
QUESTION = "Question {number}: which of the three boxes holds the key, and how can one tell?"
STORIES = "Tell stories."
MOST_WARM_S = 30.0


@dataclass(frozen=True)
class Target:
    """Where to ask.

    Attributes:
        url: base URL.
        path: of chat completions; ``{session}`` stands for the session.
        headers: of every request.
        body: fields put over the request's.
        expected: the reply's text, checked in every answer; "" is not checked.
    """

    url: str
    path: str = "/v1/chat/completions"
    headers: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)
    expected: str = ""

    def address(self, session: str) -> str:
        """Return the URL for a session."""
        return self.url + self.path.replace("{session}", session)


class WrongAnswer(Exception):
    """An answer that was not the one expected."""


class Closed:
    """A closed loop: every connection asks again as soon as it is answered."""

    def __init__(self, target: Target, warm_s: float, measure_s: float, turns: int) -> None:
        self._target = target
        self._warm_s, self._measure_s, self._turns = warm_s, measure_s, turns
        self._ends_at = self._from = float("inf")
        self._latencies: list[float] = []
        self._errors: Counter[str] = Counter()
        self._answers: Counter[str] = Counter()

    async def run(self, sessions: list[str]) -> dict[str, Any]:
        """Load with one connection per session; return latencies, errors, answers by session."""
        async with _http(self._target) as http:
            loops = [asyncio.ensure_future(self._loop(http, name)) for name in sessions]
            begun = time.perf_counter()
            await asyncio.sleep(self._warm_s)
            while len(self._answers) < len(sessions) and not self._errors:
                if time.perf_counter() - begun > MOST_WARM_S:
                    self._errors["a connection got no answer in the warm-up"] += 1
                await asyncio.sleep(0.01)
            self._from = time.perf_counter()
            self._ends_at = self._from + self._measure_s
            await asyncio.gather(*loops)  # each ends with the answer it waits for
        return {
            "latencies_s": self._latencies,
            "measured_s": self._measure_s,
            "errors": self._errors,
            "answers": self._answers,
        }

    async def _loop(self, http: aiohttp.ClientSession, session: str) -> None:
        url, number = self._target.address(session), 0
        messages: list[dict[str, str]] = []
        while time.perf_counter() < self._ends_at and not self._errors:
            if number % self._turns == 0:
                messages = [{"role": "system", "content": SYSTEM}]
            question = f"{QUESTION.format(number=number)} ({session})"
            messages.append(_user(question))
            begun = time.perf_counter()
            try:
                reply = await self._ask(http, url, messages)
            except (aiohttp.ClientError, OSError, WrongAnswer) as error:
                self._errors[f"{type(error).__name__}: {error}"[:300]] += 1
                return
            ended = time.perf_counter()
            messages.append({"role": "assistant", "content": reply})
            number += 1
            self._answers[session] += 1
            if self._from <= ended <= self._ends_at:
                self._latencies.append(ended - begun)

    async def _ask(
        self, http: aiohttp.ClientSession, url: str, messages: list[dict[str, str]]
    ) -> str:
        body = {"model": "default", "messages": messages, "max_tokens": 64, **self._target.body}
        async with http.post(url, json=body) as response:
            raw = await response.read()
            if response.status != 200:
                raise WrongAnswer(f"HTTP {response.status}: {raw[:200]!r}")
        reply = str(json.loads(raw)["choices"][0]["message"]["content"])
        if self._target.expected and reply != self._target.expected:
            raise WrongAnswer(f"another reply than the engine's: {reply[:100]!r}")
        return reply


@dataclass
class Reply:
    """A streamed reply as its client saw it; times are of ``CLOCK_MONOTONIC``."""

    asked_at: float
    text: str = ""
    finish_reason: str = ""
    done: bool = False
    error: str = ""
    status: int = 0
    times_T: list[float] = field(default_factory=list)
    versions_T: list[int] = field(default_factory=list)


async def read_stream(http: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> Reply:
    """Read one streamed reply to its end; what goes wrong is told in it."""
    reply = Reply(time.monotonic())
    try:
        async with http.post(url, json={**body, "stream": True}) as response:
            reply.status = response.status
            if response.status != 200:
                reply.error = f"HTTP {response.status}: {(await response.read())[:200]!r}"
                return reply
            async for line in response.content:
                if line.startswith(b"data:"):
                    _take(reply, line[5:].strip(), bool(body.get("logprobs")))
    except (aiohttp.ClientError, OSError) as error:
        reply.error = f"{type(error).__name__}: {error}"
    if not reply.done and not reply.error:
        reply.error = "the stream ended before [DONE]"
    return reply


def _take(reply: Reply, data: bytes, is_listed: bool) -> None:
    """Take an event; with log-probs asked for there is a listing per token, whatever its text."""
    if data == b"[DONE]":
        reply.done = True
        return
    event = json.loads(data)
    if "error" in event:
        reply.error = str(event["error"])
        return
    for choice in event["choices"]:
        said = choice["delta"].get("content") or ""
        reply.text += said
        listed = (choice.get("logprobs") or {}).get("content") or []
        reply.times_T += [time.monotonic()] * (len(listed) if is_listed else bool(said))
        reply.finish_reason = choice.get("finish_reason") or reply.finish_reason
        reply.versions_T = choice.get("policy_versions") or reply.versions_T


async def streams(target: Target, num: int) -> dict[str, Any]:
    """Open so many streams at once and read all to their ends."""
    body = {"model": "default", "max_tokens": 64, **target.body}
    async with _http(target) as http:
        begun = time.monotonic()

        async def one(index: int) -> Reply:
            said = f"{QUESTION.format(number=index)} (stream {index})"
            messages = [{"role": "system", "content": SYSTEM}, _user(said)]
            url = target.address(f"stream-{index}")
            return await read_stream(http, url, {**body, "messages": messages})

        replies = await asyncio.gather(*(one(index) for index in range(num)))
        took_s = time.monotonic() - begun
    errors: Counter[str] = Counter()
    for reply in replies:
        wrong = target.expected and reply.text != target.expected
        if reply.error or wrong or not reply.finish_reason:
            errors[reply.error or f"another reply: {reply.text[:100]!r}"] += 1
    return {
        "complete": num - errors.total(),
        "errors": errors,
        "took_s": took_s,
        "first_s": [reply.times_T[0] - reply.asked_at for reply in replies if reply.times_T],
        "gaps_s": [max(gaps) for gaps in map(_gaps, replies) if gaps],
        "most_open": _most_open(replies),
    }


def _gaps(reply: Reply) -> list[float]:
    times = reply.times_T
    return [later - sooner for sooner, later in itertools.pairwise(times)]


def _most_open(replies: list[Reply]) -> int:
    """Return how many streams had begun and not ended at the same time, at most."""
    events = [(r.times_T[0], 1) for r in replies if r.times_T]
    events += [(r.times_T[-1], -1) for r in replies if r.times_T]
    most = now = 0
    for _, step in sorted(events):
        now += step
        most = max(most, now)
    return most


class Clients:
    """Clients that stream one reply after the other until they are told to stop."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._open = asyncio.Event()
        self._open.set()
        self._ending = False
        self._busy = 0
        self._idle = asyncio.Event()
        self._replies: list[Reply] = []
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, num: int) -> dict[str, Any]:
        """Start so many clients."""
        self._tasks = [asyncio.create_task(self._loop(index)) for index in range(num)]
        return {"clients": num}

    async def hold(self) -> dict[str, Any]:
        """Ask no more and wait until every reply has ended."""
        self._open.clear()
        while self._busy:
            self._idle.clear()
            await self._idle.wait()
        return {"at": time.monotonic()}

    def go(self) -> dict[str, Any]:
        """Ask again."""
        self._open.set()
        return {"at": time.monotonic()}

    async def end(self) -> dict[str, Any]:
        """Let every client end its reply; return all of them."""
        self._ending = True
        self._open.set()
        await asyncio.gather(*self._tasks)
        return {"replies": [vars(reply) for reply in self._replies]}

    async def _loop(self, index: int) -> None:
        number = 0
        async with _http(self._target) as http:
            while not self._ending:
                await self._open.wait()
                said = f"Story {number} of client {index}: tell it at length."
                messages = [{"role": "system", "content": STORIES}, _user(said)]
                body = {**self._target.body, "messages": messages}
                self._busy += 1
                url = self._target.address(f"client-{index}-{number}")
                reply = await read_stream(http, url, body)
                self._busy -= 1
                self._idle.set()
                self._replies.append(reply)
                number += 1
                if reply.error:
                    await asyncio.sleep(0.2)  # a server that refuses must not be flooded


def _user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


@asynccontextmanager
async def _http(target: Target) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        connector=connector,
        headers=target.headers,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=60.0),
    ) as http:
        yield http


async def _answer(command: dict[str, Any], clients: list[Clients]) -> dict[str, Any]:
    target = Target(**command["target"]) if "target" in command else None
    match command["do"], target:
        case "closed", Target():
            loop = Closed(target, command["warm_s"], command["measure_s"], command["turns"])
            return await loop.run(command["sessions"])
        case "streams", Target():
            return await streams(target, command["num"])
        case "begin", Target():
            clients[:] = [Clients(target)]
            return clients[0].begin(command["num"])
        case "hold", _:
            return await clients[0].hold()
        case "go", _:
            return clients[0].go()
        case "end", _:
            return await clients[0].end()
    raise ValueError(f"no command {command['do']!r}")


async def serve() -> None:
    """Answer commands until standard input ends."""
    reader = asyncio.StreamReader(limit=1 << 26)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    clients: list[Clients] = []
    while line := await reader.readline():
        answer = await _answer(json.loads(line), clients)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(serve())
