"""The embedded engine: continuous batching over a slot cache, in its own thread, on CPU.

Requests join and leave at every step. A step decodes one token for each running request and
computes a bounded stretch of new prompts in the same matrix products, so a long prompt never stops
the others. Weights are replaced between two steps; requests in flight go on with the keys and
values they have, each token carrying the version that sampled it, while the prefix cache of the
older weights is dropped.

Set ``OMP_WAIT_POLICY=PASSIVE`` before torch is imported (``python -m serving`` does): threads that
spin on a busy machine lose several times their speed.

Left out: GPUs, speculative decoding.
"""

import logging
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch

from ..engine import EngineOptions, OnToken
from ..errors import EngineError
from ..stopping import StopRule
from ..types import FinishReason, Generation, Sampling, checked_temperature
from . import lora
from .calls import (
    Call,
    Request,
    TorchTicket,
    as_ids,
    check_prompt,
    check_sampling,
    check_scored,
    fail,
    find_adapter,
)
from .constraint import Schemas, is_installed
from .kv_cache import CachedAttention, KVCache
from .llama import LlamaModel
from .loading import Change, Loader
from .sampler import sample
from .scheduler import Plan, Scheduler
from .scoring import ScoreJob

logger = logging.getLogger(__name__)

LONGEST_DEFAULT = 8192
COUNTERS = (
    "steps",
    "finished",
    "cancelled",
    "failed",
    "sampled_tokens",
    "prompt_tokens",
    "cached_prompt_tokens",
    "prefilled_tokens",
    "loads",
    "adapter_loads",
)


class TorchEngine:
    """See the module and ``serving.engine.Engine``.

    Args:
        folder: model in HF layout.
        options: see ``EngineOptions``.

    Raises:
        ModelError: the model cannot be run by this engine.
    """

    def __init__(self, folder: Path, options: EngineOptions | None = None) -> None:
        self._options = options = options or EngineOptions()
        with torch.inference_mode():
            self._model = LlamaModel(folder, int8=options.weights == "int8")
        self._stop = StopRule(folder)
        shape = self._model.shape
        self._schemas = Schemas(lambda: self._stop.tokenizer, shape.vocab, self._stop.end_ids)
        self._max_len = min(options.max_len or LONGEST_DEFAULT, shape.max_len)
        num_rows = options.max_slots + options.cached_slots
        self._cache = KVCache(shape, num_rows, self._max_len)
        self._scheduler = Scheduler(
            self._cache, options.max_slots, num_rows, self._max_len, options.prefill_tokens
        )
        self._adapters = lora.AdapterTable()
        self._version = 0
        self._paused = False
        self._closed = False
        self._num_loading = 0
        self._loader = Loader(self._model)
        self._swap_s = 0.0  # processor time of the loop for changes of weights
        self._is_fresh = False  # no step was taken since the weights changed
        self._woken = False  # a request was cancelled
        self._inbox: deque[Request | ScoreJob | Call] = deque()
        self._changed = threading.Condition()
        self._counts: Counter[str] = Counter()
        self._busy_s = 0.0
        self._thread = threading.Thread(target=self._run, name="torch-engine", daemon=True)
        self._thread.start()

    @property
    def version(self) -> int:
        """Policy version of the weights in use."""
        return self._version

    @property
    def can(self) -> frozenset[str]:
        """What beyond plain sampling it offers."""
        return frozenset(
            {"top_logprobs", "adapters"} | ({"json_schema"} if is_installed() else set())
        )

    @property
    def max_len(self) -> int:
        """Most tokens of a prompt and its reply together."""
        return self._max_len

    def submit(
        self, prompt_ids: Sequence[int], sampling: Sampling, on_token: OnToken | None = None
    ) -> TorchTicket:
        """Queue a request; see ``Engine.submit``."""
        ids = as_ids(prompt_ids)
        check_prompt(ids, self._model.shape.vocab, self._max_len)
        check_sampling(sampling, self._model.shape.vocab)
        adapter = find_adapter(self._adapters, sampling.adapter)
        seed = random.getrandbits(63) if sampling.seed is None else sampling.seed
        constraint = self._schemas.start(sampling.json_schema) if sampling.json_schema else None
        request = Request(ids, sampling, seed, on_token, adapter, constraint)
        self._post(request)
        return TorchTicket(request, self._wake)

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, on_token: OnToken | None = None
    ) -> Generation:
        """Await one generation."""
        from ..engine import generate

        return await generate(self, prompt_ids, sampling, on_token)

    def score(
        self, ids: Sequence[Sequence[int]], temperature: float = 1.0, adapter: str = ""
    ) -> "Future[list[list[float]]]":
        """Log-probs of given tokens; see ``Engine.score``. Runs between decode steps."""
        checked_temperature(temperature)
        check_scored(ids, self._model.shape.vocab, self._max_len)
        job = ScoreJob(ids, temperature, find_adapter(self._adapters, adapter))
        self._post(job)
        return job.future

    def load(self, update: Path, version: int) -> None:
        """Replace weights in place; see ``Engine.load``.

        They are made ready beside the old ones, in the caller's thread; the engine's stands still
        for a moment only. Until then, and in the first step with them, prompts wait and replies go
        on: steps are short then, so the change comes soon and so does its first token.
        """
        with self._changed:
            self._num_loading += 1
        try:
            self._loader.load(
                Path(update), lambda change: self._call(lambda: self._swap(change, version))
            )
        finally:
            with self._changed:
                self._num_loading -= 1

    def load_adapter(self, name: str, path: Path, version: int) -> None:
        """Load or replace a LoRA adapter; see ``Engine.load_adapter``."""
        if not name:
            raise EngineError("an adapter needs a name; the empty one is the base model")
        pairs = lora.read(Path(path), self._model.shape)

        def swap() -> None:
            self._adapters.put(name, version, pairs)
            self._counts["adapter_loads"] += 1
            self._scheduler.weights_changed(name)

        self._call(swap)

    def unload_adapter(self, name: str) -> None:
        """Forget an adapter; see ``Engine.unload_adapter``."""

        def forget() -> None:
            self._adapters.remove(name)
            self._scheduler.weights_changed(name)

        self._call(forget)  # its requests are dropped in the same turn

    def adapters(self) -> Mapping[str, int]:
        """Loaded adapters and their versions."""
        return self._adapters.versions()

    def pause(self) -> None:
        """Stop between two tokens."""
        self._call(lambda: setattr(self, "_paused", True))

    def resume(self) -> None:
        """Go on."""
        self._call(lambda: setattr(self, "_paused", False))

    def stats(self) -> Mapping[str, Any]:
        """Counters and gauges."""
        scheduler = self._scheduler
        return {
            "version": self._version,
            "paused": self._paused,
            "closed": self._closed or not self._thread.is_alive(),
            "running": scheduler.num_active,
            "waiting": len(scheduler.waiting) + len(self._inbox),
            "cached_sequences": sum(
                row.computed > 0 and row.request is None for row in scheduler.rows
            ),
            "busy_s": self._busy_s,
            "swap_s": self._swap_s,
            "max_len": self._max_len,
            "weights": self._options.weights,
            "adapters": self._adapters.versions(),
            **{name: self._counts[name] for name in COUNTERS},
        }

    def close(self) -> None:
        """Stop the thread; unfinished requests fail. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout=60)

    # the engine's thread from here on

    def _run(self) -> None:
        try:
            if self._options.threads:
                torch.set_num_threads(self._options.threads)
            with torch.inference_mode():
                while self._wait_for_work():
                    self._turn()
        finally:
            self._end()

    def _turn(self) -> None:
        try:
            self._drain_inbox()
            self._drop_ended()  # also while paused: nobody waits for these
            if not self._paused:
                self._step()
        except Exception as error:  # the thread must live on
            logger.exception("a step failed; its requests fail with it")
            self._fail_all(f"{type(error).__name__}: {error}")

    def _end(self) -> None:
        """Whatever ended the thread, nothing may wait for it any more."""
        with self._changed:
            self._closed = True
            left = list(self._inbox)
            self._inbox.clear()
        for item in left:
            fail(item.future, EngineError("the engine was closed"))
        self._fail_all("the engine was closed")

    def _wait_for_work(self) -> bool:
        with self._changed:
            while not (self._closed or self._woken or self._inbox) and (
                self._paused or not self._has_work()
            ):
                self._changed.wait()
            self._woken = False
            return not self._closed

    def _has_work(self) -> bool:
        return self._scheduler.num_active > 0 or bool(self._scheduler.waiting)

    def _swap(self, change: Change, version: int) -> None:
        begun = time.thread_time()
        if version < self._version:
            raise EngineError(f"version {version} is older than {self._version} in use")
        change()
        self._version = version
        self._counts["loads"] += 1
        self._is_fresh = True
        self._scheduler.weights_changed()
        self._swap_s += time.thread_time() - begun

    def _drain_inbox(self) -> None:
        for _ in range(len(self._inbox)):
            item = self._inbox.popleft()
            if isinstance(item, Request):
                self._scheduler.waiting.append(item)
            elif isinstance(item, Call):
                item.run()
            elif item.run(self._model, self._counts["loads"]):
                self._inbox.append(item)  # a decode step passes in between

    def _step(self) -> None:
        started = time.perf_counter()
        plan = self._scheduler.plan(hurry=self._num_loading > 0 or self._is_fresh)
        self._is_fresh = False
        if plan.num_decoding or plan.segments:
            self._compute(plan)
            self._counts["steps"] += 1
        self._busy_s += time.perf_counter() - started

    def _compute(self, plan: Plan) -> None:
        rows = self._scheduler.rows
        decoding = rows[: plan.num_decoding]
        ids = [int(row.ids[row.computed]) for row in decoding]
        positions = [row.computed for row in decoding]
        adapters = [row.adapter for row in decoding]
        lengths_B = positions.copy()
        for segment in plan.segments:
            upto = segment.start + segment.num
            ids += rows[segment.row].ids[segment.start : upto].tolist()
            positions += range(segment.start, upto)
            adapters += [rows[segment.row].adapter] * segment.num
        attend = CachedAttention(self._cache, lengths_B, plan.segments, plan.runs)
        hidden = self._model.hidden(
            torch.tensor(ids), torch.tensor(positions), attend, lora.step_lora(adapters)
        )
        for segment in plan.segments:
            rows[segment.row].computed += segment.num
            self._counts["prefilled_tokens"] += segment.num
        if decoding:
            self._sample(hidden[: plan.num_decoding])

    def _sample(self, hidden: torch.Tensor) -> None:
        rows = self._scheduler.rows[: len(hidden)]
        requests = [row.request for row in rows if row.request is not None]
        picks = sample(self._model.logits(hidden), [r.draw() for r in requests])
        self._counts["sampled_tokens"] += len(picks)
        # from the last row to the first: finishing a row moves only rows behind it
        for index in reversed(range(len(picks))):
            row, request, pick = rows[index], requests[index], picks[index]
            row.computed += 1
            try:
                adapter = request.adapter
                version = self._version if adapter is None else adapter.version
                is_complete = request.add(pick, version)
                reason = (
                    "stop"
                    if is_complete
                    else self._stop.reason(request.token_ids_T, request.sampling)
                )
            except Exception as error:  # of its own callback or stop strings: the others go on
                self._scheduler.finish(index)
                self._fail(request, f"{type(error).__name__}: {error}")
                continue
            if reason is None and row.known + 1 >= self._max_len:
                reason = "length"
            if reason is not None:
                self._finish(index, request, reason)
            else:
                row.ids[row.known] = pick.id
                row.known += 1

    def _drop_ended(self) -> None:
        """End the requests that were cancelled, and those whose adapter was unloaded."""
        scheduler = self._scheduler
        for index in reversed(range(scheduler.num_active)):
            request = scheduler.rows[index].request
            if request is not None and request.is_ended:
                scheduler.finish(index)
                self._drop(request)
        for request in [r for r in scheduler.waiting if r.is_ended]:
            scheduler.waiting.remove(request)
            self._drop(request)

    def _drop(self, request: Request) -> None:
        gone = None if request.adapter is None else request.adapter.error()
        if request.cancelled or gone is None:
            self._resolve(request, "cancelled")
        else:
            self._fail(request, str(gone))

    def _finish(self, index: int, request: Request, reason: FinishReason) -> None:
        self._scheduler.finish(index)
        self._resolve(request, reason)

    def _resolve(self, request: Request, reason: FinishReason) -> None:
        self._counts["cancelled" if reason == "cancelled" else "finished"] += 1
        self._counts["prompt_tokens"] += len(request.prompt_ids)
        self._counts["cached_prompt_tokens"] += request.num_cached
        request.resolve(reason)

    def _fail_all(self, reason: str) -> None:
        for request in self._scheduler.clear():
            self._fail(request, reason)

    def _fail(self, request: Request, reason: str) -> None:
        self._counts["failed"] += 1
        fail(request.future, EngineError(reason))

    # posting to the thread

    def _post(self, item: Request | ScoreJob | Call) -> None:
        with self._changed:
            if self._closed or not self._thread.is_alive():
                raise EngineError("the engine is closed")
            self._inbox.append(item)
            self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def _call(self, action: Callable[[], None]) -> None:
        """Run an action between two steps and wait for it."""
        call = Call(action)
        self._post(call)
        call.future.result(timeout=600)


__all__ = ["TorchEngine", "TorchTicket"]
