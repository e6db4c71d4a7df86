"""The control loop in simulated time: ``python -m rl.simulation STALENESS TRAINER_UNITS [TAIL]``.

Collector, learner, store and staleness rules are the real ones; episodes, steps and publications
take simulated seconds, so an hour of a cluster passes in seconds here. The machine has ``UNITS``
equal units, which either sample or train. STALENESS ``sync`` is the usual loop: all units sample a
batch, then all train on it. TAIL is the sigma of the log-normal lengths of episodes (0: all equal).
Prints one JSON line.

The engine: a unit keeps ``FULL_SPEED`` sequences at ``TOKENS_PER_S`` each; more share that rate.
Left out: what sleeping and waking of a shared engine costs, which would only slow ``sync``.
"""

import asyncio
import json
import random
import selectors
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.episode import Assignment
from agents.types import Episode, StopReason, Turn
from envs.types import Task
from rl.collector import Collector
from rl.config import validate
from rl.learner import Learner
from rl.metrics import Metrics
from rl.schedule import Schedule
from rl.settings import RunConfig
from rl.store import Store
from rl.types import Sample, StepMetrics

UNITS = 8
FULL_SPEED = 32  # sequences at once
TOKENS_PER_S = 50.0
TRAINED_PER_S = 200.0  # tokens per unit
PUBLICATION_S = 2.0
MEAN_TOKENS, MOST_TOKENS = 500.0, 8000.0
TICK_S = 2.0
GROUPS, MEMBERS, STEPS = 8, 8, 16
POLICY = "mask"  # of what is past the bound: its old tokens carry no loss


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next thing that is due."""

    def __init__(self) -> None:
        super().__init__(_Jumping(self))
        self.now = 0.0

    def time(self) -> float:
        """Return simulated seconds."""
        return self.now


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        """Return what is ready; instead of waiting, let the time pass."""
        ready = super().select(0)
        if not ready and timeout:
            self._loop.now += timeout
        return ready


@dataclass
class Machine:
    """Implements what collector and learner need of ``rl.fleet.Fleet``.

    Attributes:
        sampling, training: units of each kind; both all of them in ``sync``.
        tail: sigma of the lengths.
        bound: most versions a trained token may lag behind.
        sampled_tokens, trained_s, past_bound, ticks, masked_ticks, lags: counted.
    """

    sampling: int
    training: int
    tail: float
    bound: float
    running: int = 0
    version: int = 0
    sampled_tokens: float = 0.0
    trained_s: float = 0.0
    past_bound: int = 0
    trained: int = 0
    ticks: int = 0
    masked_ticks: int = 0
    lags: list[int] = field(default_factory=list)

    @property
    def slots(self) -> int:
        """As many as are asked for."""
        return 10_000

    async def play(self, assignment: Assignment, *, demonstrate: bool = False) -> Episode:
        """Sample an episode; its tokens carry the version at which they were sampled."""
        rng = random.Random(assignment.seed)
        mean = rng.lognormvariate(-(self.tail**2) / 2, self.tail) * MEAN_TOKENS
        left = min(max(mean, 20.0), MOST_TOKENS)
        versions: list[int] = []
        self.running += 1
        while left > 0:
            share = min(1.0, self.sampling * FULL_SPEED / self.running)
            step_s = min(TICK_S, left / (TOKENS_PER_S * share))
            await asyncio.sleep(step_s)
            done = min(left, step_s * TOKENS_PER_S * share)
            left = left - done if left - done > 1e-6 else 0.0
            self.sampled_tokens += done
            versions.append(self.version)
        self.running -= 1
        turn = Turn(
            prompt_ids_P=(1,),
            token_ids_T=tuple(rng.randrange(2, 100) for _ in versions),
            logprobs_T=(-1.0,) * len(versions),
            versions_T=tuple(versions),
            finish_reason="stop",
            text="",
            action="",
            observation="",
        )
        # a group always holds both rewards: what is measured is time, not luck
        member = assignment.seed // 64 % MEMBERS
        return assignment.record(StopReason.SUBMITTED, turns=(turn,), reward=float(member % 2))

    async def step(self, samples: Sequence[Sample], version: int) -> StepMetrics:
        """Train; a tick's worth of tokens stands for its length."""
        oldest = [int(s.versions_L[s.active_L].min()) for s in samples]
        self.lags += [version - v for v in oldest]
        self.past_bound += sum(version - v > self.bound for v in oldest)
        self.trained += len(samples)
        ticks = sum(s.num_trained for s in samples)
        self.ticks += ticks
        self.masked_ticks += ticks - sum(int(s.active_L.sum()) for s in samples)
        tokens = ticks * TICK_S * TOKENS_PER_S
        seconds = tokens / (TRAINED_PER_S * self.training)
        self.trained_s += seconds
        await asyncio.sleep(seconds)
        return StepMetrics({"trained_tokens": tokens})

    async def publish(self, version: int) -> dict[str, float]:
        """Bring new weights to the engine; what runs goes on under them."""
        await asyncio.sleep(PUBLICATION_S)
        self.version = version
        return {}


def settings(staleness: float) -> RunConfig:
    """Return the settings of a simulated run."""
    rollout = {"groups_per_step": GROUPS, "group_size": MEMBERS, "max_staleness": staleness,
               "staleness": POLICY}  # fmt: skip
    quiet = {"repetition_max": None, "length_growth_max": None}
    algorithm = {"name": "grpo", "kl_coef": 0.0}
    return validate(
        {"rollout": rollout, "guards": quiet, "algorithm": algorithm, "optim": {"steps": STEPS}}
    )


def simulate(staleness: str, training: int, tail: float) -> dict[str, float]:
    """Play a run; return its simulated seconds and what they went into."""
    sync = staleness == "sync"
    bound = 0.0 if sync else float(staleness)
    sampling = UNITS if sync else UNITS - training
    machine = Machine(sampling, UNITS if sync else training, tail, -(-bound // 1))
    loop = SimulatedLoop()
    with tempfile.TemporaryDirectory(prefix="clawgym-simulation-") as folder:
        try:
            counts = loop.run_until_complete(_run(settings(bound), Path(folder), machine))
        finally:
            loop.close()
    capacity = machine.sampling * FULL_SPEED * TOKENS_PER_S * loop.now
    return {
        **counts,
        "seconds": loop.now,
        "trained": machine.trained,
        "past_bound": machine.past_bound,
        "masked_share": machine.masked_ticks / max(1, machine.ticks),
        "mean_lag": sum(machine.lags) / max(1, len(machine.lags)),
        "sampling_share": machine.sampled_tokens / capacity,
        "training_share": machine.trained_s / loop.now,
    }


async def _run(config: RunConfig, folder: Path, machine: Any) -> dict[str, float]:
    task = Task(id="simulated/0", env="terminal", family="simulated", split="train",
                instruction="")  # fmt: skip
    store, metrics = Store(folder), Metrics(folder)
    learner = Learner(config, folder, machine, store, metrics)
    collector = Collector(config, machine, store, Schedule([task], 0))
    await collector.start()
    try:
        for _ in range(STEPS):
            groups = await collector.take(GROUPS)
            await learner.take_step(groups, 0.0)
            await collector.learned(learner.version)
    finally:
        await collector.stop()
        metrics.close()
        store.close()
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    dropped = sum(GROUPS - int(json.loads(row).get("groups_trained", 0)) for row in rows)
    return {"dropped_groups": float(dropped)}


def main() -> None:
    """Simulate one setting."""
    tail = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
    result = simulate(sys.argv[1], int(sys.argv[2]), tail)
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
