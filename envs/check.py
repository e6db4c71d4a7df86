"""Conformance of an environment, for its author: ``check_env(env).raise_if_failed()``.

Runs Gymnasium's own check and what this project asks of every environment besides: determinism,
named endings, fair tasks, errors in the right place, survival of nonsense. A shell environment
is played in its real sandboxes and asked a few things more. Left out: whether a whole task set is
fair (``python -m envs.tasks validate``).

On the command line: ``python -m envs.check NAME [tasks=2]``.
"""

import random
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
from gymnasium.utils.env_checker import check_env as gymnasium_check

from envs.core import SUBMIT, ShellEnv, TaskEnv
from envs.errors import EnvError, MissingDependency
from envs.tasks.validation import validate_task
from envs.types import Task

NONSENSE = (
    "",
    "   \n\n",
    "\x00\x01\x1b[2J",
    "caf\u00e9 \ud800 \U0001f600",
    "printf '\\377\\376\\000binary'",
    "yes",
    "cat /dev/zero",
    "cat",
    "echo 'no end",
    "exit 3",
    "kill -9 $$",
    "exec sleep 100",
    "sleep 100 & disown",
    ":(){ :|:& };:",
    "rm -rf --no-preserve-root / /workspace /tmp ~ 2>/dev/null",
    "x" * 60000,
)
SHORT_S = 1.0


@dataclass(frozen=True)
class Report:
    """What held and what did not.

    Attributes:
        passed: names of properties.
        failed: name and reason of each property that does not hold.
    """

    passed: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]

    @property
    def ok(self) -> bool:
        """True when every property holds."""
        return not self.failed

    def raise_if_failed(self) -> None:
        """Raise ``AssertionError`` with all that failed."""
        if self.failed:
            raise AssertionError("\n" + str(self))

    def __str__(self) -> str:
        lines = [f"ok      {name}" for name in self.passed]
        return "\n".join(lines + [f"FAILED  {name}: {why}" for name, why in self.failed])


def check_env(env: gymnasium.Env[Any, Any], num_tasks: int = 2, seed: int = 0) -> Report:
    """Check an environment of tasks, on ``num_tasks`` of its tasks. Closes it at the end.

    Raises:
        TypeError: not a ``TaskEnv``.
        MissingDependency: this machine cannot run it.
    """
    world = env.unwrapped
    if not isinstance(world, TaskEnv):
        raise TypeError(f"{type(world).__name__} is no TaskEnv")
    tasks = random.Random(seed).sample(sorted(world.tasks), min(num_tasks, len(world.tasks)))
    chosen = [world.tasks[task] for task in tasks]
    properties: Sequence[tuple[str, Callable[[TaskEnv[Any], Sequence[Task]], None]]] = (
        ("Gymnasium's check_env is green", _gymnasium),
        ("equal seeds and actions give equal observations", _deterministic),
        ("terminated and truncated are told apart", _endings),
        ("doing nothing earns 0 and the oracle 1, twice", _fair),
        ("step after the end raises ResetNeeded", _needs_reset),
        ("grade() equals the final verdict", _grades),
        ("an agent's nonsense ends in observations", _nonsense),
        ("close may be called again", _closes),
    )
    passed, failed = [], []
    for name, hold in properties:
        try:
            hold(world, chosen)
        except MissingDependency:
            raise
        except Exception as error:  # the one broad except: any failure is a finding
            failed.append((name, f"{type(error).__name__}: {error}"))
        else:
            passed.append(name)
    return Report(tuple(passed), tuple(failed))


def _gymnasium(env: TaskEnv[Any], tasks: Sequence[Task]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gymnasium_check(env, skip_render_check=env.spec is None)
    relevant = [str(w.message) for w in caught if "gymnasium" in str(w.filename)]
    assert not relevant, "; ".join(relevant)


def _deterministic(env: TaskEnv[Any], tasks: Sequence[Task]) -> None:
    actions = ["ls", "pwd", "ls -lR", "echo $RANDOM_UNSET; whoami", "cat *"]
    for seed in (1, 2):
        runs = []
        for _ in range(2):
            first, info = env.reset(seed=seed)
            seen: list[object] = [first, info]
            for action in [*actions, env.idle]:
                observation, reward, terminated, truncated, _ = env.step(action)
                seen.append((observation, reward, terminated, truncated))
                if terminated or truncated:
                    break
            runs.append(seen)
        assert runs[0] == runs[1], f"seed {seed}: {_difference(*runs)}"


def _difference(left: Sequence[object], right: Sequence[object]) -> str:
    pairs = zip(left, right, strict=False)
    return next((f"{a!r} and then {b!r}" for a, b in pairs if a != b), "different lengths")


def _endings(env: TaskEnv[Any], tasks: Sequence[Task]) -> None:
    for task in tasks:
        env.reset(options={"task": task})
        step, terminated, truncated, info = _play_out(env, task)
        assert not (terminated and truncated), "a task's end is not also a limit"
        assert not truncated or step == task.limits.max_steps, f"truncated at step {step}"
        assert "verdict" in info, "the last step's info must hold the verdict"
    if isinstance(env, ShellEnv):
        _shell_endings(env, tasks)


def _play_out(env: TaskEnv[Any], task: Task) -> tuple[int, bool, bool, dict[str, Any]]:
    """Do nothing until the episode ends; return the number of steps and how it ended."""
    for step in range(1, task.limits.max_steps + 1):
        _, _, terminated, truncated, info = env.step(env.idle)
        if terminated or truncated:
            return step, terminated, truncated, info
    raise AssertionError(f"{task.id} does not end after {task.limits.max_steps} steps")


def _shell_endings(env: ShellEnv, tasks: Sequence[Task]) -> None:
    for task in tasks:
        env.reset(options={"task": task})
        _, _, terminated, truncated, _ = env.step(SUBMIT)
        assert terminated and not truncated, "submit must terminate and not truncate"
        env.reset(options={"task": task})
        for step in range(1, task.limits.max_steps + 1):
            _, reward, terminated, truncated, _ = env.step("true")
            last = step == task.limits.max_steps
            assert not terminated, "a command that does nothing must not terminate"
            assert truncated == last, f"truncated={truncated} at step {step}"
            assert last or reward == 0, "no reward before the end"


def _fair(env: TaskEnv[Any], tasks: Sequence[Task]) -> None:
    for task in tasks:
        finding = validate_task(env, task)
        assert not finding.reason, f"{finding.task}: {finding.reason}: {finding.detail}"


def _needs_reset(env: TaskEnv[Any], tasks: Sequence[Task]) -> None:
    env.reset(options={"task": tasks[0]})
    _play_out(env, tasks[0])
    _expect_reset_needed(env, "after the end")


def _expect_reset_needed(env: TaskEnv[Any], moment: str) -> None:
    try:
        env.step("true")
    except gymnasium.error.ResetNeeded:
        return
    raise AssertionError(f"step {moment} raised nothing")


def _grades(env: TaskEnv[Any], tasks: Sequence[Task]) -> None:
    for task in tasks:
        env.reset(options={"task": task})
        before = env.grade()
        env.reset(options={"task": task})
        *_, info = _play_out(env, task)
        assert info["verdict"] == env.grade() == before, f"{task.id}: verdicts differ"


def _nonsense(env: TaskEnv[Any], tasks: Sequence[Task]) -> None:
    limits = replace(tasks[0].limits, step_timeout_s=SHORT_S, max_steps=4)
    task = replace(tasks[0], limits=limits)
    for action in NONSENSE:
        env.reset(options={"task": task})
        try:
            for said in (action, "echo still here", env.idle, env.idle):
                observation, _, terminated, truncated, info = env.step(said)
                assert observation in env.observation_space, f"{action[:40]!r}: {observation}"
                size = len(observation.get("output", ""))
                assert size <= 4 * limits.output_bytes + 500, f"{action[:40]!r}: {size} characters"
                if terminated or truncated:
                    break
        except EnvError as error:
            raise AssertionError(f"{action[:40]!r} ended in {error!r}") from error
        assert "verdict" in info, f"{action[:40]!r}: no verdict"
    if isinstance(env, ShellEnv):
        _shell_survives(env, tasks)


def _shell_survives(env: ShellEnv, tasks: Sequence[Task]) -> None:
    env.reset(options={"task": tasks[0]})
    observation, *_ = env.step("echo well")
    assert observation["output"] == "well\n", f"after nonsense: {observation['output']!r}"


def _closes(env: TaskEnv[Any], tasks: Sequence[Task]) -> None:
    env.reset(options={"task": tasks[0]})
    env.close()
    env.close()
    _expect_reset_needed(env, "after close")


def main(argv: Sequence[str]) -> int:
    """Check one registered environment; return the exit code."""
    from envs import images, registry
    from envs.words import UsageError, parse

    usage = f"usage: python -m envs.check NAME [tasks=2]   (NAME: {', '.join(registry.names())})"
    if {*argv} & {"-h", "--help"}:
        sys.stdout.write(f"{usage}\n")
        return 0
    try:
        words = parse(argv, keys=("tasks",))
        if len(words.names) != 1:
            raise UsageError(usage)
        count = words.number("tasks", 2, least=1)
        entry = registry.find(words.names[0])
        if entry.image:
            images.resolve(entry.image)
        registry.register()
        report = check_env(gymnasium.make(entry.gym_id), count)
    except (UsageError, EnvError, MissingDependency) as error:
        sys.stderr.write(f"{error}\n")
        return 3 if isinstance(error, MissingDependency) else 2
    sys.stdout.write(f"{report}\n")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
