"""Configuration: YAML recipe + dotted overrides, merged by OmegaConf, validated by frozen models.

``resolve(["env=swe", "optim.lr=1e-6", "recipe=smoke"])`` gives a ``RunConfig``. Unknown keys are
refused with the nearest legal name. Order of precedence: defaults < the environment's recipe
(``recipes/<env>.yaml``) < ``recipe=`` < command line. This file is the one source of defaults.
"""

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rl.errors import ConfigError

RECIPES = Path(__file__).resolve().parent.parent / "recipes"


Beta = Annotated[float, Field(ge=0, lt=1)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


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
    group_size: int = Field(8, ge=2, le=64, description="episodes of one task")
    min_group: int = Field(4, ge=2, description="finished members below which a group is dropped")
    curriculum: Literal["uniform", "informative"] = Field(
        "uniform", description="every family in turn, or those whose groups carry a gradient"
    )
    temperature: float = Field(
        0.7, ge=1e-3, le=2, description="applied by sampler and trainer alike"
    )
    top_p: float = Field(
        1.0, gt=0, le=1, description="must be 1: truncation is refused in training"
    )
    max_staleness: int = Field(1, ge=0, description="policy versions a token may lag behind (eta)")
    max_retries: int = Field(2, ge=0, description="new attempts after a failure of the machine")
    retry_wait_s: float = Field(2.0, ge=0, description="before the first; doubles each time")
    stall_timeout_s: float = Field(900.0, gt=0, description="longest wait without any episode")


class AlgorithmConfig(_Section):
    """The learning signal (algorithms: docs/architecture.md)."""

    name: Literal["grpo", "dr_grpo", "rloo"] = Field("grpo", description="advantage estimator")
    clip_low: float = Field(0.2, gt=0, lt=1, description="lower clip of the ratio, 1 - clip_low")
    clip_high: float = Field(0.28, gt=0, description="upper clip of the ratio, 1 + clip_high")
    aggregation: Literal["token_mean", "seq_mean_token_mean", "seq_mean_token_sum_norm"] = Field(
        "token_mean", description="how token losses become one number"
    )
    norm_length: int = Field(256, ge=1, description="fixed length of seq_mean_token_sum_norm")
    kl_coef: float = Field(
        0.001, ge=0, description="weight of the k3 anchor to the model before any training"
    )
    train_truncated: bool = Field(True, description="train replies cut by the token limit")


class OptimConfig(_Section):
    """The optimiser."""

    lr: float = Field(1e-5, gt=0, description="peak learning rate")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's")
    betas: tuple[Beta, Beta] = Field((0.9, 0.95), description="AdamW's")
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
    temperature: float = Field(0.0, ge=0, le=2, description="0 is greedy")
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
    max_slots: int = Field(48, ge=1, le=4096, description="requests decoded at once")
    context: int = Field(1024, ge=64, description="most tokens of prompt and reply")


class RayConfig(_Section):
    """Where Ray runs."""

    address: str | None = Field(None, description="of a running cluster; default: this machine")


class RunConfig(_Section):
    """Everything a run is made of."""

    env: str = Field("terminal", description="short name; see python -m envs.tasks list")
    model: str = Field("smollm2-135m", description="name, folder or hub id")
    run: str | None = Field(None, description="run folder; default runs/<env>-<time>")
    resume: str | None = Field(None, description="run folder to continue")
    seed: int = Field(0, ge=0, lt=2**31, description="of tasks, sampling and initialisation")
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


# what a run is: a resumed one cannot be given another
IDENTITY = ("env", "model", "run", "seed", "rollout.group_size", "tasks.", "lora.")
TEXTS = ("env", "model", "run", "resume", "recipe", "tasks.path", "ray.address")
SHORTHANDS = {"algorithm": "algorithm.name", "engine": "engine.name", "warmstart": "warmstart.kind"}


def resolve(arguments: Sequence[str]) -> RunConfig:
    """Merge recipe files and ``key=value`` arguments into a validated configuration.

    Raises:
        ConfigError: one line: the value, the legal set, the remedy.
    """
    overrides = _parse(arguments)
    recipe = overrides.pop("recipe", None)
    try:
        if "resume" in overrides:
            layers = [_resumed(overrides, recipe)]
        else:
            layers = _recipes(overrides, recipe)
        return validate(cast(DictConfig, OmegaConf.merge(*layers, _dotted(overrides))))
    except (OmegaConfBaseException, yaml.YAMLError) as error:
        raise ConfigError(f"settings: {_first_line(error)}") from None


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
    _known_env(config.env)
    if config.rollout.top_p < 1.0:
        raise ConfigError(
            f"rollout.top_p={config.rollout.top_p}: truncated sampling changes the behaviour "
            "distribution and cannot be trained on; use rollout.top_p=1 and a lower temperature"
        )
    for small, large in (
        ("rollout.min_group", "rollout.group_size"),
        ("agent.max_reply_tokens", "engine.context"),
    ):
        if _value(config, small) > _value(config, large):
            raise ConfigError(
                f"{small}={_value(config, small)} is more than {large}={_value(config, large)}"
            )
    return config


def _value(config: RunConfig, key: str) -> int:
    section, _, name = key.partition(".")
    return int(getattr(getattr(config, section), name))


def _known_env(env: object) -> None:
    from envs import registry

    if env not in registry.names():
        raise ConfigError(
            f"env={env!r} is not an environment{_nearest(str(env), registry.names())}"
        )


def _recipes(overrides: dict[str, Any], recipe: object) -> list[DictConfig]:
    """Return the files of settings a new run starts from: the environment's, then ``recipe``."""
    if not RECIPES.is_dir():
        raise ConfigError(f"{RECIPES} is missing: install from a checkout with pip install -e .")
    if recipe is not None and not (isinstance(recipe, str) and recipe):
        raise ConfigError(f"recipe={recipe!r}: give a file or one of {_recipe_names()}")
    chosen = _load(recipe_path(recipe)) if isinstance(recipe, str) else OmegaConf.create({})
    for key in ("resume", "run", "recipe"):
        if key in chosen:
            raise ConfigError(f"recipe={recipe}: {key!r} belongs on the command line")
    env = overrides.get("env", chosen.get("env", "terminal"))
    _known_env(env)
    own = RECIPES / f"{env}.yaml"
    return [_load(own), chosen] if own.exists() else [chosen]


def _recipe_names() -> list[str]:
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


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
        raise ConfigError(f"recipe={recipe!r} is not a recipe{_nearest(recipe, _recipe_names())}")
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
        if not value:
            raise ConfigError(f"{argument!r} has no value; null means none")
        values[SHORTHANDS.get(key, key)] = _parse_value(key, value)
    return values


def _parse_value(key: str, value: str) -> Any:
    """Read a value as YAML, or as it stands where a text is wanted (``run=20240101``)."""
    if key in TEXTS and value:
        return None if value == "null" else value
    try:
        parsed = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={value}"]), resolve=True)
    except (OmegaConfBaseException, yaml.YAMLError) as error:
        raise ConfigError(f"{key}={value}: {_first_line(error)}") from None
    assert isinstance(parsed, dict)
    return parsed["value"]


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _dotted(values: dict[str, Any]) -> DictConfig:
    merged = OmegaConf.create({})
    for key, value in values.items():
        node = merged
        *sections, name = key.split(".")
        for section in sections:
            node.setdefault(section, {})
            node = node[section]
        node[name] = value
    return merged


def _load(path: Path) -> DictConfig:
    try:
        loaded = OmegaConf.load(path)
    except (OSError, UnicodeDecodeError, OmegaConfBaseException, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {_first_line(error)}") from None
    if not isinstance(loaded, DictConfig):
        raise ConfigError(f"{path}: a recipe is a mapping of keys")
    for short, key in SHORTHANDS.items():
        if isinstance(loaded.get(short), str):
            OmegaConf.update(loaded, short, {key.split(".")[1]: loaded[short]}, merge=False)
    return loaded


def _resumed(overrides: dict[str, Any], recipe: object) -> DictConfig:
    """Return the settings an interrupted run was started with."""
    folder = Path(str(overrides["resume"]))
    fixed = [key for key in overrides if key.startswith(IDENTITY)]
    if recipe is not None or fixed:
        what = ", ".join([*fixed, *(["recipe"] if recipe is not None else [])])
        raise ConfigError(f"a resumed run keeps its {what}: leave it out, or start a new run")
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
        if key in legal_keys():
            return f"{key!r} is written with a dot: nest it, {key.replace('.', ': {')}: …}}"
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
