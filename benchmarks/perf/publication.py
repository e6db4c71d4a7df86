"""New weights under running replies: how soon they speak, and what the clients notice.

The embedded engine serves behind the real gateway (a process of its own, started as a user does),
the trainer is this process, the clients are a third. Clients stream one reply after the other. A
publication is what a learner does after its optimiser step: write the file, have it loaded, go on.

The baseline is what systems do that cannot load under running replies: take no more requests, wait
for the running ones to end, load, go on.

Processor time is told beside the clock's, since on a busy machine the clock tells of others' work:
that of writing and of loading with no clients, and that for which the engine's loop stood still.

Left out: adapters; several servers.
"""

import asyncio
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.perf.load import Reply, Target
from benchmarks.perf.peers import AUTHORIZATION, KEY, call
from benchmarks.perf.process import BenchError, Process, allow_many_files
from benchmarks.perf.rows import Row

logger = logging.getLogger(__name__)

BENCH = "publication"
BASELINE = "wait for all replies, load, go on"
FIRST = "optimiser step to the first token sampled with it"
SHARED_MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
STEP = 1e-3  # how far a stand-in for an optimiser step moves the norms


@dataclass(frozen=True)
class Plan:
    """How much.

    Attributes:
        clients: streams at once.
        publications: under them, one after the other.
        alone: publications measured with one stream.
        drained: publications of the baseline's way, under all clients.
        calm_s: time under the same clients without publications.
        pause_s: between two publications.
        reply_tokens: most of a reply.
        model: what is served.
    """

    clients: int = 64
    publications: int = 200
    alone: int = 9
    drained: int = 5
    calm_s: float = 30.0
    pause_s: float = 0.5
    reply_tokens: int = 64
    model: str = "smollm2-135m"


QUICK = Plan(publications=10, alone=2, drained=1, calm_s=6.0, pause_s=0.0, reply_tokens=12)


@dataclass
class Published:
    """One publication; times are of ``CLOCK_MONOTONIC``."""

    version: int
    stepped_at: float
    write_s: float
    load_s: float
    write_cpu_s: float = 0.0


@dataclass
class Period:
    """What happened under one set of clients."""

    begun_at: float
    published: list[Published] = field(default_factory=list)
    drained: list[Published] = field(default_factory=list)
    calm_until: float = 0.0
    published_until: float = 0.0
    replies: list[Reply] = field(default_factory=list)

    def first_token_s(self, published: Sequence[Published]) -> list[float]:
        """Return, per publication, the time from the step to the first token sampled with it."""
        first: dict[int, float] = {}
        for reply in self.replies:
            for at, version in zip(reply.times_T, reply.versions_T, strict=False):
                first[version] = min(at, first.get(version, at))
        return [first[one.version] - one.stepped_at for one in published if one.version in first]

    def longest_gap_s(self, start: float, end: float) -> float | None:
        """Return the longest wait between two tokens of a reply that ended within a time."""
        gaps = [
            later - sooner
            for reply in self.replies
            for sooner, later in pairwise(reply.times_T)
            if start <= later <= end
        ]
        return max(gaps, default=None)


class Trainer:
    """The weights, a stand-in for an optimiser's steps, and their publication.

    Args:
        model: folder in HF layout.
        folder: where publications are written.
        url: of the gateway.
    """

    def __init__(self, model: Path, folder: Path, url: str) -> None:
        from safetensors.torch import load_file

        self._weights: dict[str, Any] = {}
        for file in sorted(model.glob("*.safetensors")):
            self._weights |= load_file(file)
        self._norms = [name for name in self._weights if name.endswith("norm.weight")]
        self._folder, self._url = folder, url
        self._version = 0

    def step(self) -> None:
        """Change the weights a little, there and back again."""
        self._version += 1
        for name in self._norms:
            self._weights[name].mul_(1 + STEP if self._version % 2 else 1 / (1 + STEP))

    def publish(self, before_load: Any = None) -> Published:
        """Publish what the step made; ``before_load`` is called when the file is written."""
        from serving.client import PolicyClient
        from serving.weights import publish

        stepped_at, before_s = time.monotonic(), time.process_time()
        path = publish(self._weights, self._folder, self._version)
        written_at, write_cpu_s = time.monotonic(), time.process_time() - before_s
        if before_load is not None:
            before_load()

        async def load() -> None:
            async with PolicyClient(self._url, KEY) as client:
                await client.load_weights(path, self._version)

        loading_at = time.monotonic()
        asyncio.run(load())
        loaded_at = time.monotonic()
        return Published(
            self._version,
            stepped_at,
            written_at - stepped_at,
            loaded_at - loading_at,
            write_cpu_s,
        )

    def standstill_s(self) -> float:
        """Return the processor time for which the engine's loop has stood still for loads."""
        return float(json.loads(call(f"{self._url}/admin/stats"))["swap_s"])


def run(quick: bool) -> list[Row]:
    """Measure all cases.

    Raises:
        BenchError: a process failed.
        MissingDependency: the model cannot be had.
    """
    return measure(QUICK if quick else Plan())


def measure(plan: Plan) -> list[Row]:
    """Measure a plan; see ``run``."""
    from serving.models import resolve

    allow_many_files()
    model = resolve(plan.model)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="clawgym-perf-", dir=_roomy_folder()))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = stack.enter_context(_gateway(plan))
        load = stack.enter_context(Process.module("benchmarks.perf.load"))
        url = server.line()
        trainer = Trainer(model, folder, url)
        rows = _processor_rows(trainer, server, plan.alone)
        alone = _period(plan, trainer, load, 1, plan.alone, min(3, plan.drained))
        crowd = _period(plan, trainer, load, plan.clients, plan.publications, plan.drained)
    return [*_alone_rows(alone), *rows, *_crowd_rows(plan, crowd)]


def _gateway(plan: Plan) -> Process:
    env = {"CLAWGYM_API_KEY": KEY, "CLAWGYM_ADMIN_KEY": KEY}
    options = [f"max_slots={plan.clients}", "cached_slots=8", "max_len=1024"]
    return Process.module("serving", f"model={plan.model}", *options, env=env)


def _roomy_folder() -> Path | None:
    """Shared memory if there is enough of it, else the usual folder for temporary files."""
    try:
        roomy = shutil.disk_usage(SHARED_MEMORY).free > ROOM_BYTES
    except OSError:
        return None
    return SHARED_MEMORY if roomy and os.access(SHARED_MEMORY, os.W_OK) else None


def _period(
    plan: Plan, trainer: Trainer, load: Process, clients: int, publications: int, drained: int
) -> Period:
    """Publish under so many clients: our way, then the baseline's."""
    body = {
        "model": "default",
        "max_tokens": plan.reply_tokens,
        "logprobs": True,  # an event per token
        "return_token_ids": True,
    }
    target = Target(trainer._url, "/s/{session}/v1/chat/completions", AUTHORIZATION, body)
    load.ask({"do": "begin", "target": vars(target), "num": clients})
    period = Period(time.monotonic())
    time.sleep(plan.calm_s if clients > 1 else min(1.0, plan.calm_s))
    period.calm_until = time.monotonic()
    for at in range(publications):
        trainer.step()
        period.published.append(trainer.publish())
        if at % 10 == 9:
            logger.info("%d of %d publications, %d streams", at + 1, publications, clients)
        time.sleep(plan.pause_s or (0.5 if clients == 1 else 0.0))
    time.sleep(plan.pause_s + 0.5)
    period.published_until = time.monotonic()
    for _ in range(drained):
        trainer.step()
        period.drained.append(trainer.publish(lambda: load.ask({"do": "hold"}, 600)))
        load.ask({"do": "go"})
        time.sleep(1.0)
    answer = load.ask({"do": "end"}, 600)
    period.replies = [Reply(**reply) for reply in answer["replies"]]
    if not period.replies:
        raise BenchError(f"no reply under {clients} clients")
    return period


def _processor_rows(trainer: Trainer, server: Process, num: int) -> list[Row]:
    """What a publication costs a processor, with nobody asking meanwhile."""
    writes, loads = [], []
    still_s = trainer.standstill_s()
    for _ in range(num):
        trainer.step()
        before_s = server.cpu_s()
        writes.append(trainer.publish().write_cpu_s)
        loads.append(server.cpu_s() - before_s)
    still_s = trainer.standstill_s() - still_s
    case = "processor of a publication"
    return [
        Row(BENCH, f"{case}: write the file", "s", _median(writes)),
        Row(BENCH, f"{case}: load", "s", _median(loads)),
        Row(BENCH, f"{case}: the engine's loop stands still", "s", still_s / num),
    ]


def _alone_rows(period: Period) -> list[Row]:
    ours = _median(period.first_token_s(period.published))
    theirs = _median(period.first_token_s(period.drained))
    return [
        Row(BENCH, f"{FIRST}, 1 stream", "s", ours, theirs, BASELINE, "<= 1 s"),
        Row(BENCH, "of it: write the file", "s", _median([p.write_s for p in period.published])),
        Row(BENCH, "of it: load", "s", _median([p.load_s for p in period.published])),
    ]


def _crowd_rows(plan: Plan, period: Period) -> list[Row]:
    num = f"{plan.clients} streams"
    ours = _median(period.first_token_s(period.published))
    theirs = _median(period.first_token_s(period.drained))
    under = f"{plan.publications} publications under {num}"
    refused = sum(reply.status != 200 for reply in period.replies)
    cut = sum(reply.status == 200 and is_cut(reply) for reply in period.replies)
    for reply in period.replies:
        if reply.error:
            logger.warning("a reply failed: %s", reply.error)
    changed = sum(len(set(reply.versions_T)) > 1 for reply in period.replies)
    calm = period.longest_gap_s(period.begun_at, period.calm_until)
    stall = period.longest_gap_s(period.calm_until, period.published_until)
    return [
        Row(BENCH, f"{FIRST}, {num}", "s", ours, theirs, BASELINE),
        Row(BENCH, f"{under}: replies cut", "replies", cut, goal="0"),
        Row(BENCH, f"{under}: requests refused", "requests", refused, goal="0"),
        Row(BENCH, f"{under}: replies", "replies", len(period.replies), better="higher"),
        Row(BENCH, f"{under}: replies of several versions", "replies", changed, better="higher"),
        Row(BENCH, f"{under}: longest stall", "s", stall, calm, "the same without publications"),
    ]


def is_cut(reply: Reply) -> bool:
    """Whether a reply that had begun did not come to an end of its own."""
    ended = reply.finish_reason in ("stop", "length")
    whole = len(reply.times_T) == len(reply.versions_T)
    return bool(reply.error) or not reply.done or not ended or not whole


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
