"""The plan of a run: the resolved configuration with the counts that follow from it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from envs.types import Task
from rl import memory
from rl.algorithms import METHODS
from rl.doctor import available_memory, gpu_memory, total_memory
from rl.errors import ConfigError
from rl.settings import RunConfig
from serving.models import resolve


def describe(config: RunConfig, train: Sequence[Task], heldout: Sequence[Task]) -> str:
    """Return what will happen, in lines for people."""
    rollout, optim = config.rollout, config.optim
    episodes = rollout.groups_per_step * rollout.group_size
    kl = f"{config.algorithm.kl_coef:g}" if config.algorithm.kl_coef else "off (kl_coef=0)"
    method = f"LoRA r={config.lora.rank}" if config.lora.enabled else "full fine-tuning"
    lines = [
        f"env {config.env}: {_count(train)} to train on, {_count(heldout)} held out",
        f"model {config.model}, {method}",
        *require_memory(config),
        f"{config.algorithm.name} (loss {config.algorithm.loss}): {rollout.groups_per_step} groups "
        f"x {rollout.group_size} = {episodes} episodes per step, {optim.steps} steps = "
        f"{episodes * optim.steps} episodes; "
        f"at most {episodes * config.agent.max_reply_tokens} reply tokens per step and turn",
        f"lr {optim.lr:g}, temperature {rollout.temperature:g} on both sides, KL anchor {kl}, "
        f"staleness at most {rollout.max_staleness:g}",
        f"{rollout.workers} workers x {rollout.episodes_per_worker} episodes at once",
    ]
    if METHODS[config.algorithm.name].needs:
        lines.append(
            f"what follows each turn is judged by verifier, rules and {config.judge.model}; "
            "failures become hints, the served policy is the teacher"
        )
    if config.warmstart.kind != "none":
        w = config.warmstart
        lines.append(
            f"warm start: {w.demonstrations} demonstrations, {w.epochs} epoch(s) in batches of "
            f"{w.batch} at lr {w.lr:g}"
        )
    evaluation = config.evaluation
    lines.append(
        f"evaluation: {len(heldout) * evaluation.samples} episodes at temperature "
        f"{evaluation.temperature:g}, before and after"
    )
    return "\n".join("  " + line.strip() for line in lines)


def _count(tasks: Sequence[Task]) -> str:
    levels = Counter(
        tag.split(":")[1] for task in tasks for tag in task.tags if tag.startswith("level:")
    )
    detail = ", ".join(f"{n} {level}" for level, n in sorted(levels.items()))
    return f"{len(tasks)} tasks ({detail})" if detail else f"{len(tasks)} tasks"


def require_memory(config: RunConfig) -> list[str]:
    """Return what the run will need and what is there, in lines for people.

    Raises:
        ConfigError: it cannot fit; with the settings that would, if any would.
    """
    folder, machine, gpu = resolve(config.model), available_memory(), gpu_memory()
    if config.gpus.actor and gpu is None and config.ray.address is None:
        raise ConfigError(
            f"gpus.actor={config.gpus.actor}: this machine has no GPU; leave gpus.actor out, or "
            "join the cluster that has them with ray.address"
        )
    found = memory.places(config, folder, machine, gpu)
    most = memory.places(config, folder, total_memory(), gpu)  # what others use comes back
    if not fits(most):
        raise ConfigError(f"{_worst(most)}; {_remedy(config, folder, total_memory(), gpu)}")
    lines = [str(place) for place in found]
    for place in found:
        if place.size is not None and place.needs.total > place.size:
            lines.append(
                f"warning: {place.name} may run out of memory when all of it is used at once; "
                f"{_remedy(config, folder, machine, gpu, strict=True)}"
            )
    return ["  " + line for line in lines]


def fits(found: Sequence[memory.Place], strict: bool = False) -> bool:
    """Whether everything has room. This machine's memory is an upper bound that is seldom reached
    and shared with others: there only what stands all the time must fit, unless ``strict``."""
    return not any(
        place.size is not None
        and (place.needs.total if strict or "GPU" in place.name else place.needs.standing)
        > place.size
        for place in found
    )


def _worst(found: Sequence[memory.Place]) -> str:
    over = [place for place in found if not fits([place])]
    return f"it does not fit: {over[0]}"


def _remedy(
    config: RunConfig, folder: Path, machine: int, gpu: int | None, strict: bool = False
) -> str:
    """Return the first settings that would fit."""
    for arguments, thrifty in memory.thriftier(config):
        if fits(memory.places(thrifty, folder, machine, gpu), strict):
            return f"this would fit: {arguments}"
    more = "more GPUs (gpus.actor), or " if config.gpus.actor else ""
    return f"take {more}a smaller model"
