"""The engine over SGLang servers (0.5.23), for GPUs and several machines; one or more base URLs.

* **Tokens** are taken from responses once: ids, log-probs and the weight version of each. Log-probs
  are of softmax(logits / temperature) before ``top_p``, and at temperature 1 for greedy requests,
  as the contract has it. Do not set ``SGLANG_RETURN_ORIGINAL_LOGPROB`` on the servers: it makes
  them of temperature 1 always.
* **Publication**: pause in place, load from disk without a flush, go on. Requests carry the load's
  number as the cache's extra key, so none sent later finds a prefix computed under older weights.
  One that was sent before and had not begun may: it goes on like one in flight.
* **Versions**: the servers' version string is ours as a number; one that is no number counts as 0.
* **Adapters**: a version of an adapter is a name of its own at the servers. Requests in flight end
  with the version they began with; the old one is unloaded after the last of them.
* **Lost servers**: a request goes on at another server from the tokens already taken (a whole
  reply starts again, its tokens were not known), a bounded number of times.
* **Seeds** need servers started with ``--enable-deterministic-inference``; others ignore them.
* **Streams** cost less with ``--incremental-streaming-output``: else each event repeats the reply.

Left out: scoring at a temperature other than 1 (the servers give prompt log-probs at 1 only),
adapters the servers were started with, weights over process groups.
"""

import asyncio
import json
import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from ..engine import EngineOptions, OnToken
from ..errors import ContextOverflow, EngineError, ModelError, RequestRefused
from ..stopping import StopRule
from ..types import Sampling, checked_temperature
from .adapters import AdapterHandle, AdapterTable
from .fleet import Fleet, Limits
from .http import SglangServer
from .request import Request, SglangTicket, check_schema, fail
from .runner import Runner
from .scoring import score
from .weights import Publications

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class SglangEngine:
    """See the module and ``serving.engine.Engine``.

    Args:
        urls: base URLs of the servers, all serving ``folder``.
        folder: the model in HF layout.
        options: only ``max_len`` counts here; slots, threads and caches are the servers' own.
        api_key: the servers' ``--api-key``.
        admin_key: their ``--admin-api-key``, if they have one.
        limits: how long to wait.

    Raises:
        ModelError: no server answers, or they cannot serve this model.
    """

    def __init__(
        self,
        urls: Sequence[str],
        folder: Path,
        options: EngineOptions | None = None,
        api_key: str = "",
        admin_key: str = "",
        limits: Limits | None = None,
    ) -> None:
        options = options or EngineOptions()
        _warn_of_unused(options)
        self._limits = limits or Limits()
        config = json.loads((folder / "config.json").read_text())
        self._vocab = int((config.get("text_config") or config)["vocab_size"])
        self._stop = StopRule(folder)
        self._counts: Counter[str] = Counter()
        self._adapters = AdapterTable()
        self._lock = threading.Lock()  # the closed flag
        self._publishing = threading.Lock()
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._hosted: list[Future[None]] = []
        self._ended = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="sglang-engine", daemon=True)
        self._thread.start()
        try:
            self._fleet = self._wait(self._make_fleet(urls, api_key, admin_key))
            self._max_len, self._can = _abilities(self._fleet, config, options)
            self._runner = Runner(self._fleet, self._adapters, self._counts, self._start)
            self._weights = Publications(folder, _weights_now(self._fleet, folder))
        except EngineError as error:
            self.close()
            raise ModelError(str(error)) from error
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> int:
        """Policy version of the weights in use."""
        return self._fleet.version

    @property
    def max_len(self) -> int:
        """Most tokens of a prompt and its reply together."""
        return self._max_len

    @property
    def can(self) -> frozenset[str]:
        """What all servers offer beyond plain sampling."""
        return self._can

    def submit(
        self, prompt_ids: Sequence[int], sampling: Sampling, on_token: OnToken | None = None
    ) -> SglangTicket:
        """Queue a request; see ``Engine.submit``.

        What only a server can tell of a schema fails the future, with ``RequestRefused``.
        """
        ids = list(map(int, prompt_ids))
        if not ids or min(ids) < 0 or max(ids) >= self._vocab:
            raise RequestRefused("the prompt is empty or holds an id outside the vocabulary")
        room = self._max_len - len(ids)
        if room < 1:
            raise ContextOverflow(
                f"the prompt has {len(ids)} tokens; the context holds {self._max_len}, "
                "the reply included",
                field="messages",
            )
        self._check(sampling)
        # the servers have one default seed for all requests without one
        seed = random.getrandbits(62) if sampling.seed is None else sampling.seed
        request = Request(
            prompt_ids=ids,
            sampling=sampling,
            seed=seed & (2**63 - 1),
            num_tokens=min(sampling.max_tokens, room),
            on_token=on_token,
            stop=self._stop,
        )
        request.adapter = self._adapters.take(sampling.adapter)
        self._begin(self._runner.serve(request), request.adapter)
        return SglangTicket(request, self._call_soon)

    def score(
        self, ids: Sequence[Sequence[int]], temperature: float = 1.0, adapter: str = ""
    ) -> "Future[list[list[float]]]":
        """Log-probs of given tokens, all under one version; see ``Engine.score``.

        Raises:
            RequestRefused: also for a temperature other than 1, or 0 which counts as 1.
        """
        if checked_temperature(temperature) not in (0.0, 1.0):
            raise RequestRefused(
                "engine=sglang scores at temperature 1 only: its servers give the log-probs of a "
                f"prompt at that temperature, not at {temperature:g}",
                field="temperature",
            )
        rows = [[int(token) for token in row] for row in ids]
        for row in rows:
            if not row or len(row) > self._max_len:
                raise ContextOverflow(f"a sequence has {len(row)} tokens, not 1..{self._max_len}")
            if min(row) < 0 or max(row) >= self._vocab:
                raise RequestRefused("a sequence holds an id outside the vocabulary")
        future: Future[list[list[float]]] = Future()
        handle = self._adapters.take(adapter)
        self._begin(self._score(rows, handle, future), handle)
        return future

    def load(self, update: Path, version: int) -> None:
        """Publish weights to all servers; see ``Engine.load``."""
        with self._publishing:
            if version < self.version:
                raise EngineError(f"version {version} is older than {self.version} in use")
            with self._weights.prepared(Path(update), version) as folder:
                self._wait(self._fleet.publish(folder, version), 3 * self._limits.change_s)
            self._counts["loads"] += 1

    def load_adapter(self, name: str, path: Path, version: int) -> None:
        """Load a new version of an adapter under a name of its own; see ``Engine.load_adapter``."""
        if "adapters" not in self._can:
            raise EngineError("the servers take no adapters: start them with --enable-lora")
        with self._publishing:
            handle = self._adapters.make(name, Path(path), version)
            self._wait(self._fleet.load_adapter(handle), 3 * self._limits.change_s)
            self._counts["adapter_loads"] += 1
            old = self._adapters.put(handle)
            if old is not None:
                self._wait(self._fleet.unload_adapter(old), 2 * self._limits.change_s)

    def unload_adapter(self, name: str) -> None:
        """Forget an adapter and fail its requests; see ``Engine.unload_adapter``."""
        with self._publishing:
            handle = self._adapters.forget(name)
            if handle is not None:
                self._wait(self._runner.drop_adapter(handle), 2 * self._limits.change_s)

    def adapters(self) -> Mapping[str, int]:
        """Loaded adapters and their versions."""
        return self._adapters.versions()

    def pause(self) -> None:
        """Stop all servers between two tokens."""
        self._wait(self._fleet.pause(), self._limits.change_s)

    def resume(self) -> None:
        """Go on."""
        self._wait(self._fleet.resume(), self._limits.change_s)

    def stats(self) -> Mapping[str, Any]:
        """Counters and gauges; ``servers`` holds each server's own as last asked."""
        fleet = self._fleet
        running = sum(server.num_running for server in fleet.servers)
        names = "finished cancelled failed sampled_tokens prompt_tokens cached_prompt_tokens"
        return {
            "version": fleet.version,
            "paused": fleet.paused,
            "closed": self._closed or not self._thread.is_alive(),
            "running": running,
            "waiting": max(self._counts["open"] - running, 0),
            "max_len": self._max_len,
            "evictions": fleet.num_evicted,
            "adapters": self._adapters.versions(),
            **{name: self._counts[name] for name in (*names.split(), "loads", "retries")},
            "servers": [
                {
                    "url": server.url,
                    "alive": server.alive,
                    "reason": server.reason,
                    "running": server.num_running,
                    "loads": server.loads.get("loads", []),
                }
                for server in fleet.servers
            ],
        }

    def close(self) -> None:
        """Stop; unfinished requests fail. The servers stay. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            hosts = any(not future.done() for future in self._hosted)
        asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        self._ended.wait(timeout=60)
        if not hosts:
            self._thread.join(timeout=60)

    def host(self, work: Coroutine[Any, Any, None]) -> "Future[None]":
        """Run a server in the engine's loop; see ``serving.engine.Host``. It may outlive it."""
        with self._lock:
            if not self._closed:
                future = asyncio.run_coroutine_threadsafe(work, self._loop)
                self._hosted.append(future)
                return future
        work.close()
        raise EngineError("the engine is closed")

    # submitting threads

    def _check(self, sampling: Sampling) -> None:
        checked_temperature(sampling.temperature)
        if sampling.max_tokens < 1:
            raise RequestRefused("max_tokens must be at least 1", field="max_tokens")
        if not 0 < sampling.top_p <= 1:
            raise RequestRefused("top_p must lie in (0, 1]", field="top_p")
        if sampling.top_logprobs < 0:
            raise RequestRefused("top_logprobs must not be negative", field="top_logprobs")
        if sampling.json_schema:
            if "json_schema" not in self._can:
                raise RequestRefused("the servers have no grammar backend", field="response_format")
            check_schema(sampling.json_schema)

    def _begin(self, work: Coroutine[Any, Any, None], handle: AdapterHandle | None) -> None:
        with self._lock:
            if not self._closed:
                if threading.get_ident() == self._thread.ident:
                    self._start(work)
                else:
                    self._loop.call_soon_threadsafe(self._start, work)
                return
        work.close()
        self._adapters.give_back(handle)
        raise EngineError("the engine is closed")

    def _call_soon(self, action: Callable[[], object]) -> None:
        with self._lock:
            if not self._closed:
                self._loop.call_soon_threadsafe(action)

    def _wait(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result:
        if self._closed or not self._thread.is_alive():
            work.close()
            raise EngineError("the engine is closed")
        what = getattr(work, "__qualname__", "a change")
        if threading.get_ident() == self._thread.ident:
            work.close()
            raise RuntimeError(f"{what} blocks: call it from a thread of its own")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except TimeoutError as error:
            future.cancel()
            raise EngineError(f"{what} did not end in {timeout_s} s") from error

    # the engine's thread from here on

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def _make_fleet(self, urls: Sequence[str], api_key: str, admin_key: str) -> Fleet:
        unique = dict.fromkeys(url.rstrip("/") for url in urls)
        servers = [SglangServer(url, api_key, admin_key) for url in unique]
        fleet = Fleet(servers, self._limits)
        try:
            await fleet.start()
        except BaseException:
            await fleet.close()
            raise
        return fleet

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _end(self) -> None:
        try:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if hasattr(self, "_fleet"):
                await self._fleet.close()
        finally:
            self._ended.set()
            guests = [asyncio.wrap_future(future) for future in self._hosted]
            await asyncio.gather(*guests, return_exceptions=True)
            self._loop.stop()

    async def _score(
        self,
        rows: list[list[int]],
        handle: AdapterHandle | None,
        future: "Future[list[list[float]]]",
    ) -> None:
        try:
            async with asyncio.timeout(self._limits.reply_s):
                scores = await score(self._fleet, rows, handle)
        except asyncio.CancelledError:
            fail(future, EngineError("the engine was closed"))
            raise
        except TimeoutError:
            fail(future, EngineError(f"no scores in {self._limits.reply_s:g} s"))
        except Exception as error:  # carried to the caller, as an executor does
            known = isinstance(error, EngineError)
            fail(future, error if known else EngineError(f"{type(error).__name__}: {error}"))
        else:
            if future.set_running_or_notify_cancel():
                future.set_result(scores)
        finally:
            self._runner.release(handle)


def _abilities(
    fleet: Fleet, config: Mapping[str, Any], options: EngineOptions
) -> tuple[int, frozenset[str]]:
    """``max_len`` and ``can``: what every server that was met offers."""
    infos = [server.info for server in fleet.servers if server.info]
    longest = []
    for info in infos:
        context = info.get("context_length") or config.get("max_position_embeddings") or 2048
        # the server wants a prompt shorter than this
        longest.append(int(info.get("max_req_input_len") or context - 6) - 1)
        if not info.get("enable_deterministic_inference"):
            logger.warning(
                "the servers run without --enable-deterministic-inference: seeds have no effect"
            )
    most = min(longest)
    if options.max_len:
        most = min(most, options.max_len)
    can = {"top_logprobs"}
    if all(info.get("enable_lora") for info in infos):
        can.add("adapters")
    if all((info.get("grammar_backend") or "none") != "none" for info in infos):
        can.add("json_schema")
    return most, frozenset(can)


def _weights_now(fleet: Fleet, folder: Path) -> Path | None:
    """The folder with the weights the servers have, if it can be seen from here."""
    paths = {server.first_path for server in fleet.servers if server.first_path}
    path = Path(paths.pop())
    if not paths and any(path.glob("*.safetensors")):
        return path
    return folder if fleet.version == 0 else None


def _warn_of_unused(options: EngineOptions) -> None:
    told = [
        f.name
        for f in fields(EngineOptions)
        if f.name != "max_len" and getattr(options, f.name) != f.default
    ]
    if told:
        logger.warning("engine=sglang leaves %s to its servers' own flags", ", ".join(told))


__all__ = ["SglangEngine", "SglangTicket"]
