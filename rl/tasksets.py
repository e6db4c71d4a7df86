"""Which tasks a run trains on and is measured on.

Held-out tasks are drawn once by the run's seed-free order, half by new parameters and half by new
templates where both exist, so that every run and every phase sees the same ones.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envs.types import Task
from rl.errors import ConfigError
from rl.settings import RunConfig


@dataclass(frozen=True)
class TaskSets:
    """What a run trains on and what it is measured on; disjoint."""

    train: Sequence[Task]
    heldout: Sequence[Task]


def select(config: RunConfig) -> TaskSets:
    """Return training and held-out tasks of a run.

    Raises:
        ConfigError: the filters leave nothing, or a task file cannot be read.
    """
    from envs.errors import TaskError
    from envs.tasks.loading import load

    source = config.tasks.path or config.env
    if config.tasks.path and not config.tasks.path.endswith(".jsonl"):
        return _of_directory(config, config.tasks.path)
    try:
        train = load(
            source,
            split="train",
            levels=config.tasks.levels or None,
            families=config.tasks.families or None,
            limit=config.tasks.limit,
            seed=config.seed,
        )
        heldout = load(source, split="heldout")
        trainable = {task.family for task in load(source, split="train")}
        if config.evaluation.levels:
            load(source, split="heldout", levels=config.evaluation.levels)
    except TaskError as error:
        raise ConfigError(f"tasks: {error}; see: python -m envs.tasks list") from error
    if strangers := {task.env for task in [*train, *heldout]} - {config.env}:
        raise ConfigError(f"{source} holds tasks of {sorted(strangers)}, not of env={config.env}")
    levels = config.evaluation.levels or config.tasks.levels or None
    releases = [task for task in heldout if "source:release" in task.tags]
    generated = [
        task
        for task in heldout
        if "source:release" not in task.tags
        and (levels is None or _level(task) in levels)
        and _belongs(task, config.tasks.families, trainable)
    ]
    chosen = _balanced(generated, config.evaluation.tasks)
    chosen += releases if config.evaluation.releases else []
    if not chosen:
        raise ConfigError(f"no held-out task has evaluation.levels={list(levels or [])}")
    return TaskSets(_limited(config, train), _limited(config, chosen))


def _of_directory(config: RunConfig, path: str) -> TaskSets:
    """Split a directory of public tasks: every fifth is held out, and so is what carries a canary,
    which says that it is never to be trained on."""
    from envs.errors import TaskError
    from envs.tasks.loading import load

    if not Path(path).is_dir():
        raise ConfigError(f"tasks.path={path}: give a .jsonl file or a directory of public tasks")
    try:
        tasks = load(
            str(Path(path).resolve()),
            levels=config.tasks.levels or None,
            families=config.tasks.families or None,
            base=config.tasks.base,
        )
    except TaskError as error:
        raise ConfigError(f"tasks: {error}") from error
    if strangers := {task.env for task in tasks} - {config.env}:
        raise ConfigError(f"{path} holds tasks of {sorted(strangers)}, not of env={config.env}")
    playable = [task for task in tasks if not task.data.get("unsupported")]
    free = [task for task in playable if "canary" not in task.tags]
    held = free[4::5] or free[-1:]
    train = [replace(task, split="train") for task in free if task not in held]
    if not train:
        raise ConfigError(f"{path} holds {len(free)} tasks to train on: give at least two that "
                          "carry no canary and need nothing unsupported")  # fmt: skip
    heldout = [task for task in playable if task not in free or task in held]
    return TaskSets(
        _limited(config, train[: config.tasks.limit]),
        _limited(config, heldout[: config.evaluation.tasks]),
    )


def _balanced(tasks: Sequence[Task], count: int) -> list[Task]:
    """Take tasks by turns from every held-out kind and, within it, every family."""
    kinds: dict[str, list[Task]] = {}
    for kind in ("heldout:parameters", "heldout:template"):
        families: dict[str, list[Task]] = {}
        for task in tasks:
            if kind in task.tags:
                families.setdefault(task.family, []).append(task)
        longest = max((len(f) for f in families.values()), default=0)
        kinds[kind] = [f[i] for i in range(longest) for f in families.values() if i < len(f)]
    longest = max(len(k) for k in kinds.values())
    order = [k[i] for i in range(longest) for k in kinds.values() if i < len(k)]
    rest = [task for task in tasks if task not in order]
    return (order + rest)[:count]


def _belongs(task: Task, families: Sequence[str], trainable: Collection[str]) -> bool:
    """A family that could be trained on is measured only where it is; one that is all held out
    always."""
    return not families or task.family in families or task.family not in trainable


def _level(task: Task) -> str:
    return next((tag.split(":")[1] for tag in task.tags if tag.startswith("level:")), "")


def _limited(config: RunConfig, tasks: Sequence[Task]) -> list[Task]:
    """Apply ``agent.max_steps``."""
    steps = config.agent.max_steps
    if steps is None:
        return list(tasks)
    return [replace(task, limits=replace(task.limits, max_steps=steps)) for task in tasks]
