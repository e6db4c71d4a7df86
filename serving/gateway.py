"""One request from messages to replies: render, find its session, sample, record.

Knows nothing of HTTP nor of any vendor's wire shapes; ``app`` and the bodies do. Long prompts are
rendered in a thread of their own so that they do not hold up the event loop.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from .engine import Engine, generate
from .errors import ContextOverflow, RequestRefused, TooManyRequests
from .jobs import ANONYMOUS, Caller, Job
from .prompts import Prompts, size_bytes
from .protocol import ChatRequest, CompletionRequest, SamplingFields
from .quality import QualityLog
from .recorder import Recorder
from .redaction import Redact
from .renderer import Drift, Renderer
from .reply import Answer, ReplyReader
from .sessions import SessionStore
from .types import Generation, Sampling

MOST_BYTES_PER_TOKEN = 32  # of a prompt's average; real text has 3 to 6
ANY_MODEL = "default"
BUSY_RETRY_S = 2.0
RENDER_HERE_BYTES = 8192
SETTLE_TIMEOUT_S = 30.0  # then a reply is sent although its turn may not be on disk

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Limits:
    """What a gateway takes on.

    Attributes:
        max_requests: most choices sampled or waiting at once; more are asked to come again.
    """

    max_requests: int = 4096


class Gateway:
    """Answers requests with one engine.

    Args:
        engine, renderer: of the same model.
        sessions: recorded turns.
        model_name: what clients call the model; ``NAME:ADAPTER`` is an adapter on it.
        adapter_by_user: serve a caller whose name is that of a loaded adapter with it.
        limits: see ``Limits``.
        redact: changes a turn or feedback before it is recorded; None in its place records nothing.
        settled: makes a future that is done when what was recorded so far is on disk; replies then
            end only after theirs is. None: they do not wait.
        refusal: why the disk takes no turns, "" while it does.
        quality: what the learner tells of judged replies.
    """

    def __init__(
        self,
        engine: Engine,
        renderer: Renderer,
        sessions: SessionStore | None = None,
        *,
        model_name: str = ANY_MODEL,
        adapter_by_user: bool = False,
        limits: Limits | None = None,
        redact: Redact | None = None,
        settled: "Callable[[], Future[None]] | None" = None,
        refusal: Callable[[], str] = lambda: "",
        quality: QualityLog | None = None,
    ) -> None:
        self.engine = engine
        self.renderer = renderer
        self.sessions = SessionStore() if sessions is None else sessions
        self.model_name = model_name
        self.recorder = Recorder(self.sessions, redact)
        self.limits = limits or Limits()
        self._prompts = Prompts(renderer, self.sessions)
        self.quality = quality or QualityLog()
        self._adapter_by_user = adapter_by_user
        self._settled = settled
        self.refusal = refusal
        self._num_running = 0
        self._drifts: Counter[str] = Counter()
        self._renders = ThreadPoolExecutor(1, thread_name_prefix="render")

    async def prepare(
        self, request: ChatRequest, caller: Caller = ANONYMOUS, prefix: str = "chatcmpl-"
    ) -> Job:
        """Render a chat request.

        Args:
            prefix: begins the response id.

        Raises:
            RequestRefused: no such model, an option this engine does not offer, or the template
                refuses the messages.
            ContextOverflow: the messages are so long that no tokenizer would make them fit.
        """
        num_bytes = size_bytes(request)
        self._check_size(num_bytes, "messages")
        sampling = self._sampling(request, request.limit or self.engine.max_len, caller)
        if request.logprobs:
            sampling = replace(sampling, top_logprobs=request.top_logprobs)
        if request.response_format is not None:
            sampling = replace(sampling, json_schema=request.response_format.schema_text)
        self._check_offered(sampling)
        job = await self._rendered(
            num_bytes, lambda: self._prompts.chat(request, caller, sampling, prefix)
        )
        self._drifts[job.prompt.drift.value] += 1
        return job

    async def count(self, request: ChatRequest, caller: Caller = ANONYMOUS) -> int:
        """Return how many tokens a chat request's prompt has.

        Raises:
            RequestRefused, ContextOverflow: as for ``prepare``.
        """
        num_bytes = size_bytes(request)
        self._check_size(num_bytes, "messages")
        sampling = self._sampling(request, 1, caller)
        job = await self._rendered(num_bytes, lambda: self._prompts.chat(request, caller, sampling))
        return len(job.prompt.ids_P)

    async def prepare_text(
        self, request: CompletionRequest, caller: Caller = ANONYMOUS
    ) -> list[Job]:
        """Tokenise a text completion; one job per prompt.

        Raises:
            RequestRefused, ContextOverflow: as for ``prepare``.
        """
        sampling = self._sampling(request, request.max_tokens, caller)
        sampling = replace(sampling, top_logprobs=request.logprobs or 0)
        self._check_offered(sampling)
        texts = [prompt for prompt in request.prompts if isinstance(prompt, str)]
        num_bytes = sum(len(text.encode(errors="surrogatepass")) for text in texts)
        self._check_size(num_bytes, "prompt")
        return await self._rendered(num_bytes, lambda: self._prompts.text(request, sampling))

    async def complete(self, job: Job) -> list[Answer]:
        """Sample all choices and record them.

        Raises:
            ContextOverflow: the prompt fills the context.
            EngineError: the engine failed.
        """
        return (await self.complete_all([job]))[0]

    async def complete_all(self, jobs: Sequence[Job]) -> list[list[Answer]]:
        """Sample all choices of several jobs; if one fails the others are of no use to anybody.

        Raises:
            ContextOverflow, EngineError: as for ``complete``.
        """
        sampled = await self._sample(jobs)
        answers: list[list[Answer]] = []
        for job, generations_G in zip(jobs, sampled, strict=True):
            answers.append([self.reader(job).read(generation) for generation in generations_G])
            for index, answer in enumerate(answers[-1]):
                self.record(job, index, answer)
        await self.settle()
        return answers

    async def _sample(self, jobs: Sequence[Job]) -> list[list[Generation]]:
        if len(jobs) == 1 and len(jobs[0].samplings_G) == 1:  # no need of tasks
            (job,) = jobs
            return [[await generate(self.engine, job.prompt.ids_P, job.samplings_G[0])]]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    [
                        group.create_task(generate(self.engine, job.prompt.ids_P, sampling))
                        for sampling in job.samplings_G
                    ]
                    for job in jobs
                ]
        except* Exception as errors:
            raise errors.exceptions[0] from None
        return [[task.result() for task in several] for several in tasks]

    def reader(self, job: Job) -> ReplyReader:
        """Return what reads one choice of a job."""
        parser = None
        if job.place is not None:
            tools = job.tools if job.parses_calls else ()
            parser = self.renderer.format.parser(tools, job.prompt.in_reasoning)
        stop = job.samplings_G[0].stop
        return ReplyReader(self.renderer, parser, stop, job.opening, job.parallel)

    @contextlib.contextmanager
    def room(self, num: int) -> Iterator[None]:
        """Hold room for some choices, from before they are rendered until they have ended.

        Raises:
            TooManyRequests: the queue is full.
        """
        if self._num_running + num > self.limits.max_requests:
            raise TooManyRequests(
                f"{self._num_running} replies are being sampled or wait; the most is "
                f"{self.limits.max_requests}",
                BUSY_RETRY_S,
            )
        self._num_running += num
        try:
            yield
        finally:
            self._num_running -= num

    def record(self, job: Job, index: int, answer: Answer) -> None:
        """Remember a choice for the session's next turn and for the learner."""
        self.recorder.record(job, index, answer)

    async def settle(self) -> None:
        """Wait until what was recorded and said so far is on disk, where that was asked for.

        A disk that refuses or hangs costs nobody a reply: the journal counts and logs the loss.
        """
        if self._settled is None:
            return
        try:
            async with asyncio.timeout(SETTLE_TIMEOUT_S):
                await asyncio.wrap_future(self._settled())
        except TimeoutError:
            logger.error("the disk took no turn in %g s; replies go on", SETTLE_TIMEOUT_S)

    def stats(self) -> Mapping[str, Any]:
        """Engine's counters, recorded turns, prompts by drift class, turns by fitness."""
        return {
            **self.engine.stats(),
            "in_flight": self._num_running,
            "recorded_turns": len(self.sessions),
            "session_collisions": self.sessions.num_collisions,
            "sink_failures": self.sessions.num_sink_failures,
            "drift": {drift.value: self._drifts[drift.value] for drift in Drift},
            "call_faults": self.recorder.num_faults,
            "trainable_turns": self.recorder.fitness.num_trainable,
            "unfit_turns": dict(self.recorder.fitness.counts),
            "warnings": list(self.recorder.fitness.warnings),
        }

    def close(self) -> None:
        """Stop rendering. Idempotent."""
        self._renders.shutdown(wait=False)

    async def _rendered(self, size_bytes: int, action: Callable[[], Result]) -> Result:
        """Run what renders; long prompts in the thread, for short ones the way there costs more."""
        if size_bytes <= RENDER_HERE_BYTES:
            return action()
        return await asyncio.get_running_loop().run_in_executor(self._renders, action)

    def _check_size(self, size_bytes: int, where: str) -> None:
        """Refuse before tokenising, which would hold up everyone's rendering."""
        if size_bytes > MOST_BYTES_PER_TOKEN * self.engine.max_len:
            raise ContextOverflow(
                f"the {where} have {size_bytes} bytes; the context holds {self.engine.max_len} "
                "tokens, the reply included",
                field=where,
            )

    def _check_offered(self, sampling: Sampling) -> None:
        wanted = {
            "json_schema": ("response_format", bool(sampling.json_schema)),
            "top_logprobs": ("top_logprobs", bool(sampling.top_logprobs)),
        }
        for ability, (field_name, is_wanted) in wanted.items():
            if is_wanted and ability not in self.engine.can:
                raise RequestRefused(
                    f"{field_name} is not offered by this engine; remove it", field=field_name
                )

    def _sampling(self, request: SamplingFields, limit: int, caller: Caller) -> Sampling:
        return Sampling(
            max_tokens=limit,
            temperature=request.temperature,
            top_p=request.top_p,
            seed=request.seed,
            stop=request.stop_strings,
            adapter=self._adapter(request.model, caller, request.user or ""),
        )

    def adapters(self, owner: str) -> list[str]:
        """Return the adapters an owner may use: personal ones are their owner's alone."""
        loaded = list(self.engine.adapters())
        if self._adapter_by_user and owner:
            return [name for name in loaded if name == owner]
        return loaded

    def _adapter(self, model: str, caller: Caller, user: str) -> str:
        """Return the adapter a model's name or a user stands for, or ""."""
        loaded = self.adapters(caller.owner)
        user = caller.owner or caller.user or user  # what a key proves outranks what a body says
        name, _, adapter = model.partition(":")
        if model in (self.model_name, ANY_MODEL):
            return user if self._adapter_by_user and user in loaded else ""
        if name in (self.model_name, ANY_MODEL) and adapter in loaded:
            return adapter
        known = [self.model_name, ANY_MODEL, *(f"{self.model_name}:{name}" for name in loaded)]
        raise RequestRefused(
            f"no model {model!r} here; use {' or '.join(map(repr, known[:20]))}",
            status=404,
            field="model",
        )
