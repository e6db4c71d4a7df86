"""Plays tasks to prove them fair: doing nothing earns 0, the oracle earns 1, each time.

The environment's own world and verifier; nothing of it is specific to one environment.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from envs.core import TaskEnv
from envs.errors import EnvError
from envs.types import Task

TIMES = 2
MOST_IDLE = 64  # a task of several steps is ended by as many


@dataclass(frozen=True)
class Finding:
    """What playing one task showed.

    Attributes:
        task: its id.
        reason: "" for a fair task, else one of ``no-op solves it``, ``oracle fails``, ``differs
            between runs``, ``no oracle``, or the class name of an ``EnvError``.
        detail: one line for people.
    """

    task: str
    reason: str = ""
    detail: str = ""


def validate_task(env: TaskEnv[Any], task: Task, times: int = TIMES) -> Finding:
    """Play a task ``times`` times with nothing and with its oracle."""
    try:
        oracle = env.oracle(task)
        if not oracle:
            return Finding(task.id, "no oracle")
        idle = [_play(env, task, ()) for _ in range(times)]
        solved = [_play(env, task, oracle) for _ in range(times)]
    except EnvError as error:
        return Finding(task.id, type(error).__name__, str(error))
    if any(reward > 0 for reward, _ in idle):
        always = all(reward > 0 for reward, _ in idle)
        return Finding(task.id, "no-op solves it" if always else "differs between runs", "no-op")
    failures = [detail for reward, detail in solved if reward < 1]
    if failures:
        reason = "oracle fails" if len(failures) == times else "differs between runs"
        return Finding(task.id, reason, failures[0])
    return Finding(task.id)


def _play(env: TaskEnv[Any], task: Task, commands: Sequence[str]) -> tuple[float, str]:
    """Return the reward of these commands followed by doing nothing, and why it is not 1."""
    env.reset(options={"task": task})
    earned, output = 0.0, ""
    for command in (*commands, *repeat(env.idle, MOST_IDLE)):
        if commands:
            env.solve()
        observation, reward, terminated, truncated, _ = env.step(command)
        earned += float(reward)
        output = observation.get("output") or output
        if terminated or truncated:
            break
    return earned, f"{env.grade().detail} | last output: {output[-200:]!r}"


@dataclass(frozen=True)
class Progress:
    """How far a validation is: for a line on the screen."""

    done: int
    total: int
    failed: int
    elapsed_s: float

    def __str__(self) -> str:
        rate = self.done / max(self.elapsed_s, 1e-9)
        left = (self.total - self.done) / rate if rate else 0.0
        return (
            f"{self.done}/{self.total} tasks, {self.failed} failed, {rate:.1f} tasks/s, "
            f"{left:.0f} s left"
        )


def validate(
    tasks: Sequence[Task],
    make_env: Callable[[], TaskEnv[Any]],
    workers: int = 2,
    report: Callable[[Progress], None] = lambda progress: None,
) -> list[Finding]:
    """Validate tasks on ``workers`` environments at once; findings come in the tasks' order."""
    local, envs = threading.local(), list[TaskEnv[Any]]()
    start = time.monotonic()

    def play(task: Task) -> Finding:
        if not hasattr(local, "env"):
            local.env = make_env()
            envs.append(local.env)
        return validate_task(local.env, task)

    findings: dict[str, Finding] = {}
    try:
        with ThreadPoolExecutor(workers) as pool:
            futures = [pool.submit(play, task) for task in tasks]
            for future in as_completed(futures):
                finding = future.result()
                findings[finding.task] = finding
                failed = sum(bool(f.reason) for f in findings.values())
                report(Progress(len(findings), len(tasks), failed, time.monotonic() - start))
    finally:
        for env in envs:
            with closing(env):
                pass
    return [findings[task.id] for task in tasks]


def summary(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield lines for people: the failures, then the counts by reason."""
    for finding in findings:
        if finding.reason:
            yield f"{finding.task}: {finding.reason}: {finding.detail}"
    counts = Counter(finding.reason for finding in findings)
    reasons = [f"{count} {reason}" for reason, count in counts.most_common() if reason]
    yield f"{len(findings)} tasks: " + ", ".join([f"{counts['']} fair", *reasons])
