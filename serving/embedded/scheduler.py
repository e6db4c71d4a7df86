"""Which request sits in which cache row, and what the next step computes.

Rows are ordered: decoding first (0..B-1), then those whose prompt is being computed, then finished
sequences kept as a prefix cache, least recently used evicted first. A request whose prompt starts
like a row takes that row over or copies its beginning; one whose prompt starts like a prompt still
being computed waits for it, so the members of a group compute their prompt once.

The last prompt token is never prefilled: it is the first decode step's input, so logits are only
ever computed for decoded rows.

Left out: preemption; a request that was admitted keeps its row until it ends.
"""

from collections import deque
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from .calls import Ids, Request
from .kv_cache import WORTH_SHARING, KVCache, Run, Segment, can_share
from .lora import Adapter

MOST_HURRIED = 8  # steps in a row that leave prompts aside
WORTH_WAITING = 8  # prompt tokens saved for which a request waits for another's prompt


@dataclass(eq=False)
class Beginning:
    """The first ``length`` positions of all rows that name it are copies of one another."""

    length: int


@dataclass(eq=False)
class Row:
    """A cache row: ``ids[:known]`` are its tokens, ``ids[:computed]`` are in the cache."""

    ids: Ids
    known: int = 0
    computed: int = 0
    request: Request | None = None
    key: tuple[str, int] | None = None  # of the adapter it was computed under, and its load
    stale: bool = False  # some keys and values are of older weights
    used_at: int = 0
    group: "Beginning | None" = None

    @property
    def adapter(self) -> Adapter | None:
        """Adapter of its request."""
        return None if self.request is None else self.request.adapter

    def start(self, request: Request, num_cached: int, now: int) -> None:
        """Seat a request whose first ``num_cached`` tokens are in the cache."""
        self.known = len(request.prompt_ids)
        self.ids[: self.known] = request.prompt_ids
        self.computed, self.request, self.stale, self.used_at = num_cached, request, False, now
        self.key = request.key
        if self.group is not None and self.group.length > num_cached:
            self.group = None  # what it shared is computed anew
        request.num_cached = num_cached

    def join(self, source: "Row", num_copied: int) -> None:
        """Note that the first ``num_copied`` positions were copied from another row."""
        group = source.group
        if group is None or num_copied >= 2 * group.length:
            group = source.group = Beginning(num_copied)
        self.group = group if group.length <= num_copied else None

    def forget(self) -> None:
        """Drop the contents."""
        self.known = self.computed = 0
        self.request, self.stale, self.group = None, False, None


@dataclass(frozen=True)
class Plan:
    """One step: rows 0..B-1 decode a token each, segments of prompts are computed beside them."""

    num_decoding: int
    segments: list[Segment]
    runs: list[Run]


class Scheduler:
    """Seats requests in rows and plans steps. Used by the engine's thread alone."""

    def __init__(
        self, cache: KVCache, max_slots: int, num_rows: int, max_len: int, prefill_tokens: int
    ) -> None:
        self._cache = cache
        self._max_slots = max_slots
        self._prefill_tokens = prefill_tokens
        self.rows = [Row(np.zeros(max_len, np.int32)) for _ in range(num_rows)]
        self.waiting: deque[Request] = deque()
        self.num_decoding = 0
        self.num_prefilling = 0
        self._clock = 0
        self._hurried = 0

    @property
    def num_active(self) -> int:
        """Rows that hold a request."""
        return self.num_decoding + self.num_prefilling

    def plan(self, hurry: bool = False) -> Plan:
        """Seat what can be seated and say what to compute; an empty plan means no work.

        Args:
            hurry: decode alone, so that the step is short; not many times in a row.
        """
        self._clock += 1
        self._admit()
        for index in range(self.num_decoding, self.num_active):
            if self._ready(index):
                self._swap(index, self.num_decoding)
                self.num_decoding += 1
                self.num_prefilling -= 1
        self._hurried = self._hurried + 1 if hurry and self.num_decoding else 0
        segments: list[Segment] = []
        budget = 0 if 0 < self._hurried <= MOST_HURRIED else self._prefill_tokens
        for index in range(self.num_decoding, self.num_active):
            row = self.rows[index]
            num = min(budget, row.known - 1 - row.computed)
            if num > 0:
                segments.append(Segment(index, row.computed, num))
                budget -= num
        if self._hurried > MOST_HURRIED:
            self._hurried = 0
        self._cache.reserve(
            max((row.known for row in self.rows[: self.num_active]), default=0),
            [row.computed for row in self.rows],
        )
        return Plan(self.num_decoding, segments, self._runs())

    def finish(self, index: int) -> None:
        """Free the row of an ended request; its tokens stay as a prefix cache unless stale."""
        row = self.rows[index]
        row.request, row.used_at = None, self._clock
        if row.stale:
            row.forget()
        if index < self.num_decoding:
            self.num_decoding -= 1
            self._swap(index, self.num_decoding)
            index = self.num_decoding
        else:
            self.num_prefilling -= 1
        self._swap(index, self.num_active)

    def weights_changed(self, adapter: str | None = None) -> None:
        """Drop finished rows and mark the others: new requests must not reuse them.

        Args:
            adapter: only rows of the adapter of that name; None is all rows.
        """
        for row in self.rows:
            if adapter is None or (row.key is not None and row.key[0] == adapter):
                row.stale = row.request is not None
                if row.request is None:
                    row.forget()

    def clear(self) -> list[Request]:
        """Forget every row and waiting request; return the requests."""
        requests = [row.request for row in self.rows if row.request is not None]
        requests += self.waiting
        self.waiting.clear()
        for row in self.rows:
            row.forget()
        self.num_decoding = self.num_prefilling = 0
        return requests

    def _runs(self) -> list[Run]:
        """Cut the decoding rows into runs: those that share a beginning worth it, and the rest."""
        runs: list[Run] = []
        start = 0
        for _, together in groupby(self.rows[: self.num_decoding], lambda row: id(row.group)):
            group = self.rows[start].group
            stop = start + len(list(together))
            run = Run(start, stop, group.length if group is not None else 0)
            start = stop
            if run.saved < WORTH_SHARING or not can_share():
                first = runs.pop().start if runs and not runs[-1].shared else run.start
                run = Run(first, stop)
            runs.append(run)
        return runs

    def _ready(self, index: int) -> bool:
        row = self.rows[index]
        return row.computed >= row.known - 1

    def _swap(self, a: int, b: int) -> None:
        if a == b:
            return
        self._cache.swap(a, b, self.rows[a].computed, self.rows[b].computed)
        self.rows[a], self.rows[b] = self.rows[b], self.rows[a]

    def _admit(self) -> None:
        held_back: list[Request] = []
        while self.waiting and self.num_active < self._max_slots:
            request = self.waiting.popleft()
            source, shared = self._best_source(request)
            if self._longest_pending(request) >= shared + WORTH_WAITING:
                held_back.append(request)
                continue
            self._seat(request, source, shared)
            self.num_prefilling += 1
        self.waiting.extendleft(reversed(held_back))

    def _best_source(self, request: Request) -> tuple[int, int]:
        """Return the row that shares most computed tokens with the prompt, and how many."""
        best, shared = -1, 0
        for index, row in enumerate(self.rows):
            if row.computed > shared and not row.stale and row.key == request.key:
                num = common_prefix(row.ids[: row.computed], request.prompt_ids[:-1])
                if num > shared:
                    best, shared = index, num
        return best, shared

    def _longest_pending(self, request: Request) -> int:
        """Return the longest beginning of the prompt that another row is about to compute."""
        rows = self.rows[self.num_decoding : self.num_active]
        return max(
            (
                common_prefix(row.ids[: row.known - 1], request.prompt_ids[:-1])
                for row in rows
                if not row.stale and row.key == request.key and row.computed < row.known - 1
            ),
            default=0,
        )

    def _seat(self, request: Request, source: int, shared: int) -> None:
        """Put the request into the first row after the active ones."""
        target = self.num_active
        free = range(target, len(self.rows))
        oldest = min(free, key=lambda i: (self.rows[i].computed > 0, self.rows[i].used_at))
        takes_over = source >= target and (shared == self.rows[source].computed or source == oldest)
        victim = source if takes_over else oldest
        if takes_over:
            self._swap(source, target)
        else:
            self.rows[victim].forget()
            self._swap(victim, target)
            if source == target:  # the swap moved the source
                source = victim
            if shared:
                self._cache.copy(source, target, shared)
                self.rows[source].used_at = self._clock
                self.rows[target].join(self.rows[source], shared)
        self.rows[target].start(request, shared, self._clock)


def common_prefix(a: Ids, b: Ids) -> int:
    """Return how many leading ids are equal."""
    num = min(len(a), len(b))
    if num == 0:
        return 0
    different = a[:num] != b[:num]
    first = int(different.argmax())
    return first if different[first] else num
