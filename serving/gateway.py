"""One chat request from messages to replies: render, find its session, sample, record.

Knows nothing of HTTP; ``app`` does. Rendering runs in a thread of its own so that a long prompt
does not hold up the event loop.
"""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from .engine import Engine, generate
from .errors import ContextOverflow
from .protocol import ChatRequest
from .renderer import Drift, Prompt, Renderer
from .sessions import SessionStore, new_session
from .stopping import cut_at_stop
from .types import Generation, Message, Sampling

MOST_BYTES_PER_TOKEN = 32  # of a prompt's average; real text has 3 to 6


@dataclass(frozen=True)
class Job:
    """A request ready to be sampled.

    Attributes:
        scope: session named by the client, or None.
        session: the session's name, inferred or made up when not named.
        samplings_G: one per choice.
    """

    request: ChatRequest
    messages: list[dict[str, Any]]
    prompt: Prompt
    scope: str | None
    session: str
    samplings_G: tuple[Sampling, ...]
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))


class Gateway:
    """Answers chat requests with one engine.

    Args:
        engine, renderer: of the same model.
        sessions: recorded turns.
    """

    def __init__(
        self, engine: Engine, renderer: Renderer, sessions: SessionStore | None = None
    ) -> None:
        self.engine = engine
        self.renderer = renderer
        self.sessions = sessions or SessionStore()
        self._drifts: Counter[str] = Counter()
        self._renders = ThreadPoolExecutor(1, thread_name_prefix="render")

    async def prepare(self, request: ChatRequest, scope: str | None) -> Job:
        """Render a request.

        Raises:
            RequestRefused: the template refuses the messages.
            ContextOverflow: the messages are so long that no tokenizer would make them fit.
        """
        self._check_size(request)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._renders, self._prepare, request, scope)

    async def complete(self, job: Job) -> list[Generation]:
        """Sample all choices and record them.

        Raises:
            ContextOverflow: the prompt fills the context.
            EngineError: the engine failed.
        """
        return list(
            await asyncio.gather(
                *(self._complete_one(job, sampling) for sampling in job.samplings_G)
            )
        )

    def text(self, job: Job, generation: Generation) -> str:
        """Return a reply's text, without special tokens, cut before a stop string."""
        return cut_at_stop(self.renderer.decode(generation.token_ids_T), job.request.stop_strings)

    def record(self, job: Job, generation: Generation) -> None:
        """Remember a reply for the session's next turn."""
        self.sessions.record(
            job.scope,
            job.messages,
            self.text(job, generation),
            job.prompt.ids_P,
            generation.token_ids_T,
            job.session,
        )

    def stats(self) -> Mapping[str, Any]:
        """Engine's counters, recorded turns and prompts by drift class."""
        return {
            **self.engine.stats(),
            "recorded_turns": len(self.sessions),
            "session_collisions": self.sessions.num_collisions,
            "drift": {drift.value: self._drifts[drift.value] for drift in Drift},
        }

    def close(self) -> None:
        """Stop rendering. Idempotent."""
        self._renders.shutdown(wait=False)

    async def _complete_one(self, job: Job, sampling: Sampling) -> Generation:
        generation = await generate(self.engine, job.prompt.ids_P, sampling)
        self.record(job, generation)
        return generation

    def _check_size(self, request: ChatRequest) -> None:
        """Refuse before tokenising, which would hold up everyone's rendering."""
        size_bytes = sum(message.size_bytes for message in request.messages)
        if size_bytes > MOST_BYTES_PER_TOKEN * self.engine.max_len:
            raise ContextOverflow(
                f"the messages have {size_bytes} bytes; the context holds {self.engine.max_len} "
                "tokens, the reply included",
                field="messages",
            )

    def _prepare(self, request: ChatRequest, scope: str | None) -> Job:
        messages = request.plain_messages()
        turn = self.sessions.find(scope, messages)
        if turn is not None:
            prompt = self.renderer.continue_from(
                messages, turn.num_before, turn.prompt_ids_P, turn.token_ids_T
            )
            later = messages[turn.num_before + 1 :]
            forked = _has_reply(later)  # one the client edited: what was sampled is lost
        else:
            prompt = self.renderer.render(messages)
            forked = scope is not None and self.sessions.knows(scope) and _has_reply(messages)
        if forked:
            prompt = replace(prompt, drift=Drift.FORKED)
        self._drifts[prompt.drift.value] += 1
        sampling = Sampling(
            max_tokens=request.limit,
            temperature=request.temperature,
            top_p=request.top_p,
            seed=request.seed,
            stop=request.stop_strings,
        )
        return Job(
            request=request,
            messages=messages,
            prompt=prompt,
            scope=scope,
            session=scope or (turn.session if turn else new_session()),
            samplings_G=tuple(
                replace(sampling, seed=None if request.seed is None else request.seed + i)
                for i in range(request.n)
            ),
        )


def _has_reply(messages: Sequence[Message]) -> bool:
    return any(message["role"] == "assistant" for message in messages)
