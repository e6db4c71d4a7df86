"""Distinct tokens per second of an optimiser step, beside TRL's GRPOTrainer on the same batch.

``group``: eight replies of 40-80 tokens to one prompt of 400. ``turns``: episodes of eight turns,
ours as whole episodes, beside TRL and our own trainer with one sample per turn. Each side is a
process of its own, so that peak memory is its own; steps are taken in turn on equal weights; before
the first, loss and gradient are compared. Useful work is the number of distinct tokens, the same
for all sides. ``cpu`` rows count processor time, which a busy machine distorts less.

    python -m benchmarks.perf.peers install trl
    python -m benchmarks.perf trainer
"""

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.perf.peers import TRAINER
from benchmarks.perf.process import BenchError, Process
from benchmarks.perf.rows import Row

BENCH = "trainer"
TIMEOUT_S = 900.0
VOCABULARY = (1000, 40000)  # ids that are plain words in every supported model
NOISE = 0.1  # nats between the recorded log-prob and that of the weights
PIECE = 1 << 22  # gradient entries compared at once


@dataclass(frozen=True)
class Plan:
    """How much.

    Attributes:
        group, prompt, replies: members, prompt tokens, bounds of reply tokens.
        turns, turn, observation: turns of an episode and tokens of each part; 0 turns leaves the
            case out.
        rounds: measured steps of each side, after one that warms up.
        rows: sequences TRL computes at once.
        model: name or folder.
        threads: of each side.
    """

    group: int = 8
    prompt: int = 400
    replies: tuple[int, int] = (40, 80)
    turns: int = 8
    turn: int = 40
    observation: int = 40
    rounds: int = 3
    rows: int = 2
    model: str = "smollm2-135m"
    threads: int = 2


QUICK = Plan(group=4, prompt=60, replies=(8, 16), turns=4, turn=8, observation=8, rounds=1)
Batch = dict[str, np.ndarray]


def run(quick: bool) -> list[Row]:
    """Measure both cases; ``quick`` takes short sequences."""
    return measure(QUICK if quick else Plan())


def measure(plan: Plan) -> list[Row]:
    """Measure a plan; see ``run``."""
    from serving.models import resolve

    model, rng = str(resolve(plan.model)), np.random.default_rng(0)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clawgym-perf-")))
        env = {"OMP_WAIT_POLICY": "PASSIVE"}
        ours = stack.enter_context(Process.module("rl.speed", model, str(plan.threads), env=env))
        ours.line(TIMEOUT_S)
        peer = _peer(plan, model, stack)
        whole = _scored(ours, folder, "group", group_batch(plan, rng))
        case = f"group of {plan.group}, prompt {plan.prompt}, replies {plan.replies[0]}-"
        rows = _compare(plan, case + str(plan.replies[1]), ours, whole, peer, whole, ">= 4x")
        if plan.turns:
            episode, turns = episode_batches(plan, rng)
            case = f"episodes of {plan.turns} turns"
            merged = _scored(ours, folder, "episodes", episode)
            apart = _as_turns(merged, folder, turns, plan)
            rows += _compare(plan, case, ours, merged, peer, apart, "")
            rows += _own(plan, case, ours, merged, apart)
    return rows


def group_batch(plan: Plan, rng: np.random.Generator) -> Batch:
    """Return a group whose members share their prompt."""
    prompt = rng.integers(*VOCABULARY, plan.prompt)
    lengths = rng.integers(plan.replies[0], plan.replies[1] + 1, plan.group)
    rows = [(np.concatenate([prompt, rng.integers(*VOCABULARY, n)]), plan.prompt) for n in lengths]
    return _batch([(ids, np.arange(len(ids)) >= cut) for ids, cut in rows], rng, 0)


def episode_batches(plan: Plan, rng: np.random.Generator) -> tuple[Batch, list[int]]:
    """Return an episode of many turns as one sequence, and where its turns begin."""
    parts, trained = [rng.integers(*VOCABULARY, plan.prompt // 2)], [False]
    for _ in range(plan.turns):
        parts += [rng.integers(*VOCABULARY, n) for n in (plan.turn, plan.observation)]
        trained += [True, False]
    sizes = [len(part) for part in parts]
    starts = (np.cumsum(sizes) - sizes)[1::2].tolist()
    row = (np.concatenate(parts), np.repeat(trained, sizes))
    return _batch([row], rng, 0), starts


def _batch(rows: list[tuple[Any, Any]], rng: np.random.Generator, group: int) -> Batch:
    advantages = [np.where(t, rng.normal(), 0.0) for _, t in rows]
    return {
        "ids": np.concatenate([ids for ids, _ in rows]),
        "trained": np.concatenate([trained for _, trained in rows]),
        "advantages": np.concatenate(advantages),
        "old": np.zeros(sum(len(ids) for ids, _ in rows)),
        "lengths": np.array([len(ids) for ids, _ in rows]),
        "groups": np.full(len(rows), group),
    }


def _scored(ours: Process, folder: Path, name: str, batch: Batch) -> Path:
    """Write a batch whose recorded log-probs are those of the weights, and a little off."""
    path, scores = folder / f"{name}.npz", folder / "scores.npy"
    np.savez(path, allow_pickle=False, **batch)
    ours.ask({"do": "score", "batch": str(path), "out": str(scores)}, TIMEOUT_S)
    known = np.load(scores)
    batch["old"][batch["trained"]] = known + np.random.default_rng(1).normal(0, NOISE, len(known))
    np.savez(path, allow_pickle=False, **batch)
    return path


def _as_turns(path: Path, folder: Path, starts: list[int], plan: Plan) -> Path:
    """Write the same episode as one sample per turn, prompt and all."""
    with np.load(path) as loaded:
        batch = {name: loaded[name] for name in loaded.files}
    ends = [start + plan.turn for start in starts]
    names = ("ids", "trained", "advantages", "old")
    cut: Batch = {name: np.concatenate([batch[name][:end] for end in ends]) for name in names}
    last = [np.arange(end) >= start for start, end in zip(starts, ends, strict=True)]
    cut["trained"] = np.concatenate(last)
    cut["lengths"], cut["groups"] = np.array(ends), np.arange(len(ends))
    out = folder / "turns.npz"
    np.savez(out, allow_pickle=False, **cut)
    return out


def _peer(plan: Plan, model: str, stack: ExitStack) -> Process | str:
    """Start TRL, or return the command that installs it."""
    if not TRAINER.is_installed:
        return TRAINER.remedy
    python = str(TRAINER.folder / "bin" / "python")
    command = [python, "-m", "benchmarks.perf.trl_side", model, str(plan.rows), str(plan.threads)]
    env = {"OMP_WAIT_POLICY": "PASSIVE", "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"}
    process = stack.enter_context(Process(command, env=env))
    process.line(TIMEOUT_S)
    return process


def _compare(
    plan: Plan, case: str, ours: Process, mine: Path, peer: Process | str, theirs: Path, goal: str
) -> list[Row]:
    """Ours beside TRL: equality first, then steps in turn."""
    if isinstance(peer, str):
        steps = [_step(ours, mine) for _ in range(plan.rounds + 1)][1:]
        speed = median(s["distinct"] / s["seconds"] for s in steps)
        row = Row(BENCH, case, "tokens/s", speed, None, peer, goal, "higher")
        return [row, *_facts(case, ours, steps)]
    rows = _equality(case, ours, mine, peer, theirs)
    pairs = [(_step(ours, mine), _step(peer, theirs)) for _ in range(plan.rounds + 1)][1:]
    steps, others = [a for a, _ in pairs], [b for _, b in pairs]
    distinct, name = steps[0]["distinct"], TRAINER.label
    for clock, unit in (("seconds", "tokens/s"), ("cpu_s", "tokens/cpu-s")):
        speed, other = (distinct / median(s[clock] for s in side) for side in (steps, others))
        rows.append(Row(BENCH, case, unit, speed, other, name, goal, "higher"))
    peak, other = (max(s["peak_bytes"] for s in side) / 2**30 for side in (steps, others))
    rows.append(Row(BENCH, f"{case}, peak memory", "GiB", peak, other, name, "no higher"))
    return [*rows, *_facts(case, ours, steps)]


def _own(plan: Plan, case: str, ours: Process, merged: Path, apart: Path) -> list[Row]:
    """Whole episodes beside one sample per turn, both by our trainer."""
    rows = _equality(f"{case}, one by one", ours, merged, ours, apart)
    pairs = [(_step(ours, merged), _step(ours, apart, True)) for _ in range(plan.rounds + 1)][1:]
    distinct = pairs[0][0]["distinct"]
    for clock, unit in (("seconds", "tokens/s"), ("cpu_s", "tokens/cpu-s")):
        speed, other = (distinct / median(pair[i][clock] for pair in pairs) for i in (0, 1))
        name = "one sample per turn, our trainer"
        rows.append(Row(BENCH, case, unit, speed, other, name, ">= 3x", "higher"))
    return rows


def _step(side: Process, batch: Path, apart: bool = False) -> dict[str, float]:
    message = {"do": "step", "batch": str(batch), "apart": apart}
    answered: dict[str, float] = side.ask(message, TIMEOUT_S)
    return answered


def _equality(case: str, ours: Process, mine: Path, peer: Process, theirs: Path) -> list[Row]:
    """Difference of the losses and cosine of the gradients, at equal weights.

    Raises:
        BenchError: a side answered something that is not a number.
    """
    files = [mine.with_suffix(".ours"), mine.with_suffix(".theirs")]
    losses = [
        side.ask({"do": "gradient", "batch": str(batch), "out": str(out)}, TIMEOUT_S)["loss"]
        for side, batch, out in zip((ours, peer), (mine, theirs), files, strict=True)
    ]
    cosine = cosine_of(*files)
    for path in files:
        path.unlink()
    if not np.isfinite([*losses, cosine]).all():
        raise BenchError(f"{case}: losses {losses}, cosine {cosine}")
    return [
        Row(
            BENCH, f"{case}, |difference of losses|", "", abs(losses[0] - losses[1]), goal="<= 1e-4"
        ),
        Row(BENCH, f"{case}, 1 - cosine of gradients", "", 1.0 - cosine, goal="<= 1e-4"),
    ]


def cosine_of(one: Path, other: Path) -> float:
    """Return the cosine of two float32 files, piece by piece in float64."""
    a, b = (np.memmap(path, np.float32, "r") for path in (one, other))
    sums = np.zeros(3)
    for start in range(0, len(a), PIECE):
        x, y = (v[start : start + PIECE].astype(np.float64) for v in (a, b))
        sums += [x @ y, x @ x, y @ y]
    return float(sums[0] / np.sqrt(sums[1] * sums[2]))


def _facts(case: str, ours: Process, steps: list[dict[str, float]]) -> list[Row]:
    """What the step computed, and how near to the machine's matrix products it came."""
    rate = ours.ask({"do": "rate"}, TIMEOUT_S)["flops_per_s"]
    speed = median(s["flops"] / s["gradient_s"] for s in steps)
    sharing = steps[0]["computed"] / steps[0]["distinct"]
    name = f"a matrix product: {rate / 1e9:.0f} GFLOP/s"
    return [
        Row(BENCH, f"{case}, computed / distinct tokens", "", sharing, goal="<= 1.05"),
        Row(BENCH, f"{case}, forward and backward", "GFLOP/s", speed / 1e9, rate / 1e9, name,
            ">= 0.6x", "higher"),
    ]  # fmt: skip
