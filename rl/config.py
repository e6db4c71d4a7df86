"""Configuration: YAML recipe + dotted overrides, merged by OmegaConf, validated by frozen models.

``resolve(["env=swe", "optim.lr=1e-6", "recipe=smoke"])`` gives a ``RunConfig``. Unknown keys are
refused with the nearest legal name. Order of precedence: defaults < the environment's recipe
(``recipes/<env>.yaml``) < ``recipe=`` < command line. This file is the one source of defaults.
"""

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rl.errors import ConfigError

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
ENVS = ("terminal", "swe")


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TasksConfig(_Section):
    """Which tasks are played."""

    path: str | None = Field(None, description="JSONL file of tasks; default: the built-in set")
    levels: tuple[str, ...] = Field((), description="levels to train on; empty: all")
    families: tuple[str, ...] = Field((), description="families to train on; empty: all")
    limit: int | None = Field(None, ge=1, description="most training tasks")


class AgentConfig(_Section):
    """How the model plays."""

    reply_format: Literal["plain", "fenced"] = Field("plain", description="what a reply looks like")
    max_reply_tokens: int = Field(64, ge=1, description="most tokens of one reply")
    max_steps: int | None = Field(
        None, ge=1, description="actions per episode; default: the task's"
    )
    max_parse_errors: int = Field(2, ge=1, description="replies without an action in a row")
    time_limit_s: float = Field(300.0, gt=0, description="wall-clock limit of an episode")
    finish: Literal["submit", "solved"] = Field(
        "solved", description="end when the agent says so, or as soon as the verifier is satisfied"
    )


class RolloutConfig(_Section):
    """How episodes are collected."""

    workers: int = Field(2, ge=1, description="Ray rollout workers")
    episodes_per_worker: int = Field(16, ge=1, description="episodes at once in one worker")
    groups_per_step: int = Field(6, ge=1, description="groups (tasks) in one optimiser batch")
    group_size: int = Field(8, ge=2, description="episodes of one task")
    min_group: int = Field(4, ge=2, description="finished members below which a group is dropped")
    curriculum: Literal["uniform", "informative"] = Field(
        "uniform", description="every family in turn, or those whose groups carry a gradient"
    )
    temperature: float = Field(0.7, gt=0, description="applied by sampler and trainer alike")
    top_p: float = Field(
        1.0, gt=0, le=1, description="must be 1: truncation is refused in training"
    )
    max_staleness: int = Field(1, ge=0, description="policy versions a token may lag behind (eta)")
    max_retries: int = Field(2, ge=0, description="new attempts after a failure of the machine")
    stall_timeout_s: float = Field(900.0, gt=0, description="longest wait without any episode")


class AlgorithmConfig(_Section):
    """The learning signal (algorithms: docs/architecture.md)."""

    name: Literal["grpo", "dr_grpo", "rloo"] = Field("grpo", description="advantage estimator")
    clip_low: float = Field(0.2, gt=0, description="lower clip of the ratio, 1 - clip_low")
    clip_high: float = Field(0.28, gt=0, description="upper clip of the ratio, 1 + clip_high")
    aggregation: Literal["token_mean", "seq_mean_token_mean", "seq_mean_token_sum_norm"] = Field(
        "token_mean", description="how token losses become one number"
    )
    kl_coef: float = Field(0.001, ge=0, description="weight of the k3 anchor to the start policy")
    train_truncated: bool = Field(True, description="train replies cut by the token limit")


class OptimConfig(_Section):
    """The optimiser."""

    lr: float = Field(1e-5, gt=0, description="peak learning rate")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's")
    betas: tuple[float, float] = Field((0.9, 0.95), description="AdamW's")
    warmup_steps: int = Field(0, ge=0, description="linear warm-up of the rate")
    max_grad_norm: float = Field(1.0, gt=0, description="gradient clipping")
    steps: int = Field(20, ge=1, description="optimiser steps of the RL phase")


class LoraConfig(_Section):
    """Low-rank adapters; full fine-tuning without."""

    enabled: bool = Field(False, description="train adapters instead of all weights")
    rank: int = Field(16, ge=1, description="r")
    alpha: float = Field(32.0, gt=0, description="scale is alpha / r")


class TrainerConfig(_Section):
    """How the batch is computed."""

    token_budget: int = Field(512, ge=64, description="distinct tokens per micro-batch")
    logit_chunk: int = Field(512, ge=1, description="positions whose logits exist at once")
    threads: int | None = Field(None, ge=1, description="CPU threads; default: all cores")
    activation_checkpointing: bool = Field(False, description="recompute to save memory")


class WarmstartConfig(_Section):
    """Supervised steps on oracle trajectories before RL; reported apart."""

    kind: Literal["none", "oracle"] = Field("none", description="oracle: demonstrate train tasks")
    demonstrations: int = Field(32, ge=1, description="oracle episodes")
    batch: int = Field(8, ge=1, description="episodes per optimiser step")
    epochs: int = Field(1, ge=1, description="passes over the demonstrations")
    lr: float = Field(2e-5, gt=0, description="learning rate of the warm start")


class EvaluationConfig(_Section):
    """Held-out evaluation, before and after."""

    tasks: int = Field(96, ge=1, description="held-out tasks, the same every time")
    levels: tuple[str, ...] = Field((), description="levels; empty: the training levels")
    temperature: float = Field(0.0, ge=0, description="0 is greedy")
    samples: int = Field(1, ge=1, description="episodes per task")
    every: int = Field(0, ge=0, description="also every so many steps; 0: only before and after")
    releases: bool = Field(True, description="env=swe: also the real-package tasks, reported apart")


class CheckpointConfig(_Section):
    """What is kept for a resume."""

    every: int = Field(5, ge=1, description="optimiser steps between checkpoints")
    keep: int = Field(2, ge=1, description="checkpoints kept")


class EngineConfig(_Section):
    """The policy server."""

    name: Literal["torch"] = Field("torch", description="embedded torch engine")
    threads: int | None = Field(None, ge=1, description="CPU threads; default: all cores")
    max_slots: int = Field(48, ge=1, description="requests decoded at once")
    context: int = Field(1024, ge=64, description="most tokens of prompt and reply")


class RayConfig(_Section):
    """Where Ray runs."""

    address: str | None = Field(None, description="of a running cluster; default: this machine")


class RunConfig(_Section):
    """Everything a run is made of."""

    env: str = Field("terminal", description=f"one of {', '.join(ENVS)}")
    model: str = Field("smollm2-135m", description="name, folder or hub id")
    run: str | None = Field(None, description="run folder; default runs/<env>-<time>")
    resume: str | None = Field(None, description="run folder to continue")
    seed: int = Field(0, ge=0, description="of tasks, sampling and initialisation")
    tasks: TasksConfig = TasksConfig()
    agent: AgentConfig = AgentConfig()
    rollout: RolloutConfig = RolloutConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    optim: OptimConfig = OptimConfig()
    lora: LoraConfig = LoraConfig()
    trainer: TrainerConfig = TrainerConfig()
    warmstart: WarmstartConfig = WarmstartConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    engine: EngineConfig = EngineConfig()
    ray: RayConfig = RayConfig()


SHORTHANDS = {"algorithm": "algorithm.name", "engine": "engine.name", "warmstart": "warmstart.kind"}


def resolve(arguments: Sequence[str]) -> RunConfig:
    """Merge recipe files and ``key=value`` arguments into a validated configuration.

    Raises:
        ConfigError: one line: the value, the legal set, the remedy.
    """
    overrides = _parse(arguments)
    recipe = overrides.pop("recipe", None)
    layers: list[Any] = []
    if "resume" in overrides:
        if recipe is not None:
            raise ConfigError("a resumed run keeps its settings: leave recipe= out")
        layers.append(_resumed(Path(str(overrides["resume"]))))
    else:
        env = str(overrides.get("env", "terminal"))
        if env not in ENVS:
            raise ConfigError(f"env={env!r} is not an environment{_nearest(env, ENVS)}")
        if (RECIPES / f"{env}.yaml").exists():
            layers.append(_load(RECIPES / f"{env}.yaml"))
        if recipe is not None and recipe != env:
            layers.append(_load(recipe_path(str(recipe))))
    return validate(cast(DictConfig, OmegaConf.merge(*layers, _dotted(overrides))))


def validate(values: DictConfig | dict[str, Any]) -> RunConfig:
    """Check merged values against the models and their mutual constraints.

    Raises:
        ConfigError: see ``resolve``.
    """
    plain = OmegaConf.to_container(values, resolve=True) if OmegaConf.is_config(values) else values
    try:
        config = RunConfig.model_validate(plain)
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None
    if config.env not in ENVS:
        raise ConfigError(f"env={config.env!r} is not an environment{_nearest(config.env, ENVS)}")
    if config.rollout.top_p < 1.0:
        raise ConfigError(
            f"rollout.top_p={config.rollout.top_p}: truncated sampling changes the behaviour "
            "distribution and cannot be trained on; use rollout.top_p=1 and a lower temperature"
        )
    if config.rollout.min_group > config.rollout.group_size:
        raise ConfigError(
            f"rollout.min_group={config.rollout.min_group} is more than "
            f"rollout.group_size={config.rollout.group_size}"
        )
    return config


def recipe_path(recipe: str) -> Path:
    """Return the file of a recipe given by path or by name.

    Raises:
        ConfigError: neither; the message lists the recipes.
    """
    if Path(recipe).suffix in (".yaml", ".yml"):
        if Path(recipe).is_file():
            return Path(recipe)
        raise ConfigError(f"recipe={recipe}: no such file")
    path = RECIPES / f"{recipe}.yaml"
    if not path.is_file():
        names = sorted(p.stem for p in RECIPES.glob("*.yaml"))
        raise ConfigError(f"recipe={recipe!r} is not a recipe{_nearest(recipe, names)}")
    return path


def legal_keys(model: type[BaseModel] = RunConfig, prefix: str = "") -> Iterator[str]:
    """Yield every dotted key of the configuration."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from legal_keys(kind, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _parse(arguments: Sequence[str]) -> dict[str, Any]:
    """Split ``key=value`` arguments; values are YAML."""
    values: dict[str, Any] = {}
    legal = [*legal_keys(), *SHORTHANDS, "recipe"]
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or not key:
            raise ConfigError(
                f"{argument!r} is not key=value; for example env=terminal optim.lr=1e-6"
            )
        if key not in legal:
            raise ConfigError(f"unknown key {key!r}{_nearest(key, legal)}")
        try:
            parsed = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={value}"]))
        except OmegaConfBaseException as error:
            raise ConfigError(f"{argument!r}: {str(error).splitlines()[0]}") from None
        assert isinstance(parsed, dict)
        values[SHORTHANDS.get(key, key)] = parsed["value"]
    return values


def _dotted(values: dict[str, Any]) -> DictConfig:
    merged = OmegaConf.create({})
    for key, value in values.items():
        OmegaConf.update(merged, key, value)
    return merged


def _load(path: Path) -> DictConfig:
    try:
        loaded = OmegaConf.load(path)
    except Exception as error:  # OmegaConf passes YAML's many errors through
        raise ConfigError(f"{path}: {str(error).splitlines()[0]}") from None
    if not isinstance(loaded, DictConfig):
        raise ConfigError(f"{path}: a recipe is a mapping of keys")
    for short, key in SHORTHANDS.items():
        if isinstance(loaded.get(short), str):
            OmegaConf.update(loaded, short, {key.split(".")[1]: loaded[short]}, merge=False)
    return loaded


def _resumed(folder: Path) -> DictConfig:
    """Return the settings an interrupted run was started with."""
    path = folder / "config.json"
    if not path.is_file():
        raise ConfigError(f"resume={folder}: no run there (config.json is missing)")
    loaded = _load(path)
    loaded.run = str(folder)
    return loaded


def _explain(error: ValidationError) -> str:
    """Turn pydantic's first complaint into one line."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}{_nearest(key, list(legal_keys()))}"
    return f"{key}={first.get('input')!r}: {first['msg'].lower()}"


def _nearest(word: str, legal: Sequence[str]) -> str:
    """Return the hint that follows a wrong name."""
    close = difflib.get_close_matches(word, legal, 1, 0.5)
    if not close:
        tails = {name.rsplit(".", 1)[-1]: name for name in reversed(legal)}
        close = [
            tails[t] for t in difflib.get_close_matches(word.rsplit(".", 1)[-1], tails, 1, 0.7)
        ]
    hint = f"; did you mean {close[0]!r}?" if close else ""
    listing = f" (choose from {', '.join(legal)})" if len(legal) <= 12 else ""
    return f"{hint}{listing}"
