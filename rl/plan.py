"""The plan of a run: the resolved configuration with the counts that follow from it."""

from collections import Counter
from collections.abc import Sequence

from envs.types import Task
from rl import memory
from rl.doctor import available_memory
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
        *([said] if (said := _memory(config)) else []),
        f"{config.algorithm.name} (loss {config.algorithm.loss}): {rollout.groups_per_step} groups "
        f"x {rollout.group_size} = {episodes} episodes per step, {optim.steps} steps = "
        f"{episodes * optim.steps} episodes; "
        f"at most {episodes * config.agent.max_reply_tokens} reply tokens per step and turn",
        f"lr {optim.lr:g}, temperature {rollout.temperature:g} on both sides, KL anchor {kl}, "
        f"staleness at most {rollout.max_staleness:g}",
        f"{rollout.workers} workers x {rollout.episodes_per_worker} episodes at once",
    ]
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
    return "\n".join("  " + line for line in lines)


def _count(tasks: Sequence[Task]) -> str:
    levels = Counter(
        tag.split(":")[1] for task in tasks for tag in task.tags if tag.startswith("level:")
    )
    detail = ", ".join(f"{n} {level}" for level, n in sorted(levels.items()))
    return f"{len(tasks)} tasks ({detail})" if detail else f"{len(tasks)} tasks"


def _memory(config: RunConfig) -> str:
    """Return what the run will need, and what is there."""
    plan = memory.needed(config, resolve(config.model))
    return f"{plan}; available: {available_memory() / memory.GIB:.1f} GiB" if plan else ""
