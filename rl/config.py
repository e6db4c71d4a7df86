"""Configuration: YAML recipe + dotted overrides, merged by OmegaConf, validated by frozen models.

``resolve(["env=swe", "optim.lr=1e-6", "recipe=smoke"])`` gives a ``RunConfig``. Unknown keys are
refused with the nearest legal name. Order of precedence: defaults < the environment's recipe
(``recipes/<env>.yaml``) < ``recipe=`` < command line. The models and defaults: ``rl.settings``.
"""

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ValidationError

from rl.errors import ConfigError
from rl.methodsettings import AlgorithmConfig
from rl.settings import RunConfig
from rl.shares import consistent

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
# what a run is: a resumed one cannot be given another
IDENTITY = ("env", "model", "run", "seed", "rollout.group_size", "tasks.", "lora.")
TEXTS = ("env", "model", "run", "resume", "recipe", "tasks.path", "ray.address", "chat.keys")
# what people look for under a name that is not near ours
WISHES = {
    "device": "the trainer's GPUs are gpus.actor, the engine's are those of engine=sglang; without "
    "either all runs on the CPU",
    "learning_rate": "it is called optim.lr",
    "batch_size": "a batch is rollout.groups_per_step groups of rollout.group_size episodes",
    "epochs": "the length of a run is optim.steps",
    "temperature": "it is called rollout.temperature",
    "max_tokens": "it is called agent.max_reply_tokens",
    "threads": "there are engine.threads and trainer.threads",
    "output": "it is called run",
    "output_dir": "it is called run",
    "out": "it is called run",
    "wandb": "numbers go to metrics.jsonl and TensorBoard events in the run folder",
    "dataset": "it is called tasks.path",
}
WISHES["gpu"] = WISHES["cuda"] = WISHES["device"]
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
    assert isinstance(plain, dict)
    if isinstance(plain.get("algorithm"), dict):
        plain = {**plain, "algorithm": {"name": "grpo", **plain["algorithm"]}}
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
    consistent(config)
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


def sections(annotation: object) -> list[type[BaseModel]]:
    """Return the models a field may hold: one of a section, several of ``algorithm``, else none."""
    kinds = get_args(annotation) or (annotation,)
    return [k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)]


def method_names() -> list[str]:
    """Return the names that ``algorithm=`` takes."""
    methods = sections(RunConfig.model_fields["algorithm"].annotation)
    return [str(method.model_fields["name"].default) for method in methods]


def legal_keys(model: type[BaseModel] = RunConfig, prefix: str = "") -> Iterator[str]:
    """Yield every dotted key of the configuration, once."""
    for name, field in model.model_fields.items():
        kinds = sections(field.annotation)
        if kinds:
            nested = (key for kind in kinds for key in legal_keys(kind, f"{prefix}{name}."))
            yield from dict.fromkeys(nested)
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
            raise ConfigError(_unknown(key, legal))
        if not value:
            raise ConfigError(f"{argument!r} has no value; null means none")
        name = SHORTHANDS.get(key, key)
        if name in values:
            raise ConfigError(f"{name} is there twice: leave one out")
        values[name] = _parse_value(key, value)
    return values


def _unknown(key: str, legal: Sequence[str]) -> str:
    """Return what to say of a key that does not exist: where the thing is, or what is near."""
    inside = [name for name in legal if name.startswith(f"{key}.")]
    if inside:
        return f"{key!r} is a section: give one of its keys, {_some(inside)}"
    if wish := WISHES.get(key):
        return f"unknown key {key!r}: {wish}"
    return f"unknown key {key!r}{_nearest(key, legal)}"


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
    name = overrides.get("algorithm.name")
    if name is not None and "algorithm" in loaded:
        loaded.algorithm = _common(cast(dict[str, Any], OmegaConf.to_container(loaded.algorithm)))
    return loaded


def _common(written: dict[str, Any]) -> dict[str, Any]:
    """Return what another method can take over of a written ``algorithm`` section: the common keys
    that were not at their method's default."""
    methods = sections(RunConfig.model_fields["algorithm"].annotation)
    defaults = {m.model_fields["name"].default: m.model_fields for m in methods}
    own = defaults.get(written.get("name", "grpo"), AlgorithmConfig.model_fields)
    return {
        key: value
        for key, value in written.items()
        if key in AlgorithmConfig.model_fields and key in own and value != own[key].default
    }


def _explain(error: ValidationError) -> str:
    """Turn pydantic's first complaint into one line."""
    first = error.errors()[0]
    loc = [str(part) for part in first["loc"]]
    if first["type"] == "union_tag_invalid":
        names = first["ctx"]["expected_tags"].replace("'", "").split(", ")
        hint = _nearest(first["ctx"]["tag"], names)
        return f"algorithm={first['ctx']['tag']!r} is not a method{hint}"
    method = loc.pop(1) if loc[0] == "algorithm" and len(loc) > 2 else ""
    key = ".".join(loc)
    if first["type"] == "extra_forbidden":
        if key in legal_keys():
            if method:
                return f"{key!r} is not a setting of algorithm={method}: leave it out"
            return f"{key!r} is written with a dot: nest it, {key.replace('.', ': {')}: …}}"
        return _unknown(key, list(legal_keys()))
    given = first.get("input")
    if first["type"] == "tuple_type":
        return f"{key}={given}: a list is wanted, such as {key}=[{given}]"
    if first["type"] in ("model_type", "model_attributes_type", "dict_type"):
        inside = _some([name for name in legal_keys() if name.startswith(f"{key}.")])
        return f"{key}={given} in a recipe: {key!r} is a section of its own keys, {inside}"
    return f"{key}={given!r}: {first['msg'].lower()}"


def _some(names: Sequence[str], most: int = 8) -> str:
    more = ", … (docs/configuration.md)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _nearest(word: str, legal: Sequence[str]) -> str:
    """Return the hint that follows a wrong name."""
    close = difflib.get_close_matches(word, legal, 1, 0.5 if len(legal) <= 12 else 0.75)
    if not close:
        tails = {name.rsplit(".", 1)[-1]: name for name in reversed(legal)}
        close = [
            tails[t] for t in difflib.get_close_matches(word.rsplit(".", 1)[-1], tails, 1, 0.7)
        ]
    hint = f"; did you mean {close[0]!r}?" if close else ""
    listing = f" (choose from {', '.join(legal)})" if len(legal) <= 12 else ""
    return f"{hint}{listing}"
