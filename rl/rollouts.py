"""What rollout workers cost beside what they wait for: ``python -m rl.rollouts EPISODES``.

The fleet's dispatch, the workers as Ray actors, the episode loop and the agent are the real ones.
Policy and environment only take their time: each call waits a number of seconds that its episode
and turn alone decide, so another system can be asked for the very same waits. All episodes fit at
once, so the ideal is the longest episode's own waits. Prints one JSON line.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.episode import Assignment
from agents.waits import ENV_S, POLICY_S, TURNS, ideal_s, wait_s
from envs.types import Task, TaskLimits, Verdict
from rl import cluster
from rl.actors import START_TIMEOUT_S, actor, called
from rl.config import validate
from rl.fleet import RayFleet
from rl.workers import RolloutWorker
from serving.types import Generation, Message, Reply, Sampling


class SlowPolicy:
    """Says ``true`` after its wait."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        session: str,
        sampling: Sampling,
        timeout_s: float | None = None,
    ) -> Reply:
        """See ``agents.protocol.Policy``."""
        turn = sum(message["role"] == "assistant" for message in messages)
        await asyncio.sleep(wait_s(session, turn, POLICY_S))
        tokens = tuple(range(8))
        generation = Generation(tokens, (-0.5,) * 8, (1,) * 8, "stop")
        return Reply(f"{session}-{turn}", "true", tuple(range(200)), generation)

    async def close(self) -> None:
        """Nothing is open."""


class SlowEnv:
    """Takes a step in its wait; the last one ends the episode."""

    def __init__(self, episode: str) -> None:
        self.episode, self.turn = episode, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """Begin."""
        return {"instruction": "Wait.", "output": "", "exit_code": 0}, {}

    def step(self, action: str) -> tuple[Mapping[str, Any], float, bool, bool, dict[str, Any]]:
        """Wait."""
        time.sleep(wait_s(self.episode, self.turn, ENV_S))
        self.turn += 1
        over = self.turn == TURNS
        return {"instruction": "Wait.", "output": "", "exit_code": 0}, float(over), over, False, {}

    def grade(self) -> Verdict:
        """Return the verdict."""
        return Verdict(0.0)

    def close(self) -> None:
        """Nothing is open."""


class SlowWorker(RolloutWorker):
    """A rollout worker whose partners wait."""

    def _env(self, assignment: Assignment) -> Any:
        return SlowEnv(assignment.episode_id)

    async def play(self, assignment: Assignment) -> Any:
        """See ``RolloutWorker.play``."""
        return await self._play(assignment, SlowPolicy())


class Workers(RayFleet):
    """A fleet without policy server and trainer."""

    async def _start(self) -> None:
        await cluster.connect(self.config.ray.address)
        for _ in range(self.num_workers):
            self._start_worker()
        for worker in list(self._workers.values()):
            await called(worker.ping.remote(), START_TIMEOUT_S, "a rollout worker to start")

    def _start_worker(self) -> None:
        self._generation += 1
        name = f"w{self._generation}"
        self._workers[name] = actor(
            SlowWorker, max_concurrency=self.config.rollout.episodes_per_worker + 4
        ).remote(self.config, self.run_id, name, self.address)
        self._load[name] = 0


async def measure(num_episodes: int, num_workers: int) -> dict[str, float]:
    """Play episodes all at once and return what that took.

    Raises:
        RunError: a worker died, or an episode did not end as it should.
    """
    config = validate({
        "env": "terminal",
        "rollout": {"workers": num_workers, "episodes_per_worker": -(-num_episodes // num_workers)},
    })  # fmt: skip
    task = Task("t", "terminal", "f", "train", "Wait.", "terminal", TaskLimits(max_steps=TURNS), {})
    names = [f"e{number}" for number in range(num_episodes)]
    assignments = [Assignment(name, "g", task, Sampling()) for name in names]
    with tempfile.TemporaryDirectory() as folder:
        async with Workers(config, "rollouts", Path(folder)) as fleet:
            await asyncio.gather(*(fleet.play(one) for one in assignments[:num_workers]))  # warm
            begun = time.perf_counter()
            episodes = await asyncio.gather(*(fleet.play(one) for one in assignments))
            wall = time.perf_counter() - begun
    wrong = [episode for episode in episodes if episode.stop_reason.failed or episode.reward != 1.0]
    if wrong:
        raise RuntimeError(f"{len(wrong)} episodes failed, the first one: {wrong[0].error}")
    return {"wall_s": wall, "ideal_s": ideal_s(names)}


def main() -> None:
    """Run the command line."""
    num_episodes, *rest = map(int, sys.argv[1:])
    print(json.dumps(asyncio.run(measure(num_episodes, *(rest or [2])))))  # noqa: T201


if __name__ == "__main__":
    main()
