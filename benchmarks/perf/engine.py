"""Tokens per second of the embedded engine beside transformers, and what a session's turns cost.

Same weights, same prompts, same number of new tokens, taken in turn in one process; prompts of 200
tokens, prefill included. ``one prompt`` and ``groups`` are what a learner asks for: several samples
of each prompt. Decoding alone is held against the memory bandwidth measured in the same run: at one
request every token reads all weights. Each rate is told twice, by the clock and by the processors'
time of all threads: on a busy machine only the second can be compared with another run.

Left out: other servers; they are measured through the gateway.
"""

import json
import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.perf.process import BenchError
from benchmarks.perf.rows import Row
from benchmarks.perf.samplers import (
    ContinuousBatch,
    Ours,
    Rate,
    Sampler,
    StaticBatch,
    bandwidth,
    read_bytes,
    sampling,
)

logger = logging.getLogger(__name__)

BENCH = "engine"
QUESTIONS = (
    "Why is the sky blue?",
    "Write a haiku about rain.",
    "How does a bicycle stay upright?",
    "List three uses of a paper clip.",
    "What is the capital of Peru, and what is it known for?",
    "Explain a hash table to a child.",
    "Give a recipe for pancakes.",
    "Who was Ada Lovelace?",
)


@dataclass(frozen=True)
class Plan:
    """How much.

    Attributes:
        cases: requests at once, and how many of them share a prompt.
        prompt_tokens, new_tokens: of each request.
        turn_tokens: new in the second turn of a session.
        rounds: each side is measured so often, in turn; medians count.
        model: name or folder.
    """

    cases: tuple[tuple[int, int], ...] = ((1, 1), (4, 1), (16, 1), (48, 1), (16, 16), (48, 8))
    prompt_tokens: int = 200
    new_tokens: int = 64
    turn_tokens: int = 40
    rounds: int = 3
    model: str = "smollm2-135m"


QUICK = Plan(((1, 1), (4, 1), (16, 1), (16, 16)), prompt_tokens=48, new_tokens=8, rounds=1)


def run(quick: bool) -> list[Row]:
    """Measure all cases; ``quick`` takes fewer, shorter prompts and replies."""
    return measure(QUICK if quick else Plan())


def measure(plan: Plan) -> list[Row]:
    """Measure a plan; see ``run``."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from serving.models import resolve

    folder = resolve(plan.model)
    with ExitStack() as stack:
        ours = Ours(folder)
        stack.callback(ours.close)
        prompts = Prompts(plan, folder)
        rows = _with_peers(plan, folder, ours, prompts)
        rows += _second_turn(plan, ours, prompts)
        rows += _bandwidth_rows(plan, folder, ours, prompts)
        int8 = Ours(folder, "int8")
        stack.callback(int8.close)
        rows += _int8_rows(plan, ours, int8, prompts)
        rows += _error_rows(plan, folder, ours, int8)
    return rows


class Prompts:
    """Random prompts, never the same twice.

    Args:
        folder: the model, whose vocabulary they are of.
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._draws = 0
        self._vocab = int(json.loads((folder / "config.json").read_text())["vocab_size"])

    def draw(self, num: int, group: int = 1, length: int = 0) -> list[list[int]]:
        """Return prompts, each ``group`` times."""
        import torch

        self._draws += 1
        least, most = self._vocab // 50, self._vocab * 4 // 5  # special tokens lie at the ends
        rows = torch.randint(
            least,
            most,
            (max(1, num // group), length or self._plan.prompt_tokens),
            generator=torch.Generator().manual_seed(self._draws),
        )
        return [row for row in rows.tolist() for _ in range(group)][:num]


def _with_peers(plan: Plan, folder: Path, ours: Ours, prompts: Prompts) -> list[Row]:
    """Ours beside each of the peers, at every width."""
    with ExitStack() as stack:
        sides: list[Sampler] = [ours]
        missing: list[str] = []
        for kind in (StaticBatch, ContinuousBatch):
            try:
                side: Sampler = kind(folder)
                stack.callback(side.close)
                side.rate(prompts.draw(1), 2)
            except BenchError as error:
                missing.append(str(error))
            else:
                sides.append(side)
        ours.rate(prompts.draw(1), 2)
        rows: list[Row] = []
        for num, group in plan.cases:
            rates = contest(plan, sides, prompts, num, group)
            case = _case(plan, num, group)
            for name, pair in _pairs(rates, [*(s.name for s in sides[1:]), *missing]):
                goal = _goal(num, group) if name == StaticBatch.name else ""
                rows += _both(case, *pair, name, goal)
    return rows


def _both(case: str, ours: Rate, peer: Rate | None, name: str, goal: str = "") -> list[Row]:
    """Return the rows of a rate: by the clock, by the processors."""
    wall, cpu = (None, None) if peer is None else peer
    return [
        Row(BENCH, case, "tokens/s", ours.wall, wall, name, goal, "higher"),
        Row(BENCH, case, "tokens/processor s", ours.cpu, cpu, name, goal, "higher"),
    ]


def contest(
    plan: Plan, sides: Sequence[Sampler], prompts: Prompts, num: int, group: int = 1
) -> list[Rate]:
    """Return each side's median rate on the same prompts, taken in turn."""
    rates: list[list[Rate]] = [[] for _ in sides]
    for _ in range(plan.rounds):
        drawn = prompts.draw(num, group)
        for side, measured in zip(sides, rates, strict=True):
            measured.append(side.rate(drawn, plan.new_tokens))
            logger.info(
                "%d at once, %s: %.1f tokens/s, %.1f a processor second",
                *(num, side.name, *measured[-1]),
            )
    return [_median(measured) for measured in rates]


def _median(rates: Sequence[Rate]) -> Rate:
    return Rate(median(rate.wall for rate in rates), median(rate.cpu for rate in rates))


def _pairs(
    rates: Sequence[Rate], names: Sequence[str]
) -> list[tuple[str, tuple[Rate, Rate | None]]]:
    """Return each peer's name with our rate and its own; None for one that did not run."""
    theirs = [*rates[1:], *[None] * len(names)]
    return [(name, (rates[0], theirs[at])) for at, name in enumerate(names)]


def _goal(num: int, group: int) -> str:
    if num < 16:
        return ""
    return ">= 1.2x" if group == 1 else ">= 2x"


def _case(plan: Plan, num: int, group: int) -> str:
    shared = "" if group == 1 else ", one prompt" if group == num else f", groups of {group}"
    return f"{num} at once{shared}, {plan.prompt_tokens} + {plan.new_tokens} tokens"


def _second_turn(plan: Plan, ours: Ours, prompts: Prompts) -> list[Row]:
    """The next turn of a conversation computes only what is new."""
    warm, cold, shares, known = [], [], [], []
    for seed in range(2 * plan.rounds + 1):
        (first,) = prompts.draw(1)
        ticket = ours.engine.submit(first, sampling(plan.new_tokens, seed))
        reply = ticket.future.result(600).token_ids_T
        (turn,) = prompts.draw(1, length=plan.turn_tokens)
        second = [*first, *reply, *turn]
        seconds, share = ours.first_token(second)
        warm.append(seconds * 1e3)
        shares.append(share)
        known.append((len(first) + len(reply) - 1) / len(second))  # the last was only sampled
        other = [second[0] - 1, *second[1:]]  # nothing before it is the same
        cold.append(ours.first_token(other)[0] * 1e3)
    case, fresh = "second turn", "the same turn in an engine that has seen nothing"
    goal = f">= {mean(known):.4g}"
    return [
        Row(BENCH, f"{case}, to its first token", "ms", median(warm), median(cold), fresh),
        Row(BENCH, f"{case}, prompt found in the cache", "share", mean(shares), goal=goal),
    ]


def _bandwidth_rows(plan: Plan, folder: Path, ours: Ours, prompts: Prompts) -> list[Row]:
    """One request decoding, beside the rate at which memory could hand over the weights."""
    size, rates, limits = read_bytes(folder), [], []
    for _ in range(plan.rounds):
        limits.append(bandwidth(rounds=3))
        rates.append(ours.decode_rate(prompts.draw(1)[0], max(2, plan.new_tokens)))
    wall, cpu = max(limit.wall for limit in limits), max(limit.cpu for limit in limits)
    name = f"memory bandwidth: {wall / 1e9:.1f} GB/s over {size / 1e6:.0f} MB of weights"
    limit = Rate(wall / size, cpu / size)
    return _both("1 request, decoding alone", _median(rates), limit, name, ">= 0.5x")


def _int8_rows(plan: Plan, ours: Ours, int8: Ours, prompts: Prompts) -> list[Row]:
    """int8 beside our own fp32."""
    int8.rate(prompts.draw(1), 2)
    rows = []
    for num in (1, 4, 16):
        fp32_rate, int8_rate = contest(plan, [ours, int8], prompts, num)
        case = f"weights=int8, {_case(plan, num, 1)}"
        rows += _both(case, int8_rate, fp32_rate, "weights=fp32")
    return rows


def _error_rows(plan: Plan, folder: Path, ours: Ours, int8: Ours) -> list[Row]:
    """Log-probs of sampled tokens as they were sampled, beside what exact weights give them."""
    from serving.renderer import Renderer

    renderer = Renderer(folder)
    asked = [renderer.render([{"role": "user", "content": text}]).ids_P for text in QUESTIONS]
    rows = []
    for side in (int8, ours):
        error = log_prob_error(side.engine, ours.engine, asked, plan.new_tokens)
        case = f"{side.name}, mean |log-prob - exact| of sampled tokens"
        rows.append(Row(BENCH, case, "nats", error))
    return rows


def log_prob_error(
    sampler: Any, exact: Any, prompts: Sequence[Sequence[int]], new_tokens: int
) -> float:
    """Return the mean distance of a sampler's log-probs from an exact engine's scores."""
    tickets = [
        sampler.submit(prompt, sampling(new_tokens, seed)) for seed, prompt in enumerate(prompts)
    ]
    said = [ticket.future.result(600) for ticket in tickets]
    whole = [[*p, *g.token_ids_T] for p, g in zip(prompts, said, strict=True)]
    scores = exact.score(whole).result(600)
    errors: list[float] = [
        abs(mine - true)
        for generation, score in zip(said, scores, strict=True)
        for mine, true in zip(
            generation.logprobs_T, score[-len(generation.token_ids_T) :], strict=True
        )
    ]
    return sum(errors) / len(errors)
