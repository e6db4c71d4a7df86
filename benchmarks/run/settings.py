"""What a run is asked to do, from ``key=value`` words.

A run that is continued takes its settings from its folder; only what does not change the result may
then be given anew.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from envs.registry import names, nearest
from envs.types import Split
from envs.words import UsageError

SERVING = "serving."


@dataclass(frozen=True)
class Settings:
    """See ``python -m benchmarks.run --help``; ``0`` of a limit means the task's own or none.

    Attributes:
        serving: further ``key=value`` words of ``python -m serving``.
    """

    suite: str = ""
    model: str = ""
    name: str = ""
    key_env: str = "CLAWGYM_API_KEY"
    split: Split = "heldout"
    levels: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    base: str = ""
    n: int = 0
    k: int = 1
    seed: int = 0
    temperature: float = 1.0
    max_reply_tokens: int = 256
    max_steps: int = 0
    max_parse_errors: int = 3
    time_limit_s: float = 300.0
    reply_timeout_s: float = 300.0
    reply_format: str = "plain"
    finish: str = "submit"
    workers: int = 2
    episodes_per_worker: int = 8
    retries: int = 2
    retry_wait_s: float = 1.0
    ray_address: str = ""
    out: str = ""
    resume: str = ""
    serving: tuple[str, ...] = field(default=())

    @property
    def is_url(self) -> bool:
        """Whether the model answers somewhere already."""
        return self.model.startswith(("http://", "https://"))

    @property
    def folder(self) -> str:
        """Where the run is kept."""
        stem = self.suite.rpartition("/")[2].removesuffix(".jsonl")
        return self.resume or self.out or f"runs/bench-{stem}-{time.strftime('%Y%m%d-%H%M%S')}"

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; ``from_json`` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Settings":
        """Build settings. Raises ``TypeError`` for unknown keys."""
        lists = ("levels", "families", "serving")
        return cls(**{**row, **{key: tuple(row[key]) for key in lists if key in row}})


KEYS = {f.name.replace("ray_address", "ray.address"): f.name for f in fields(Settings)}
KEYS.pop("serving")
FREE = frozenset(  # may differ when a run goes on
    ("model", "key_env", "serving", "ray_address", "resume", "workers", "episodes_per_worker")
).union(("retries", "retry_wait_s", "reply_timeout_s"))
_CHOICES = {
    "split": get_args(Split),
    "reply_format": ("plain", "fenced"),
    "finish": ("submit", "solved"),
}
_LEAST = {"k": 1, "max_reply_tokens": 1, "max_parse_errors": 1, "episodes_per_worker": 1}


def parse(words: Sequence[str]) -> dict[str, Any]:
    """Return the values given, by field of ``Settings``.

    Raises:
        UsageError: an unknown key, with the nearest; a value out of its range; a key given twice.
    """
    given: dict[str, Any] = {}
    serving: list[str] = []
    for word in words:
        key, sign, text = word.partition("=")
        if key.startswith(SERVING) and sign:
            serving.append(word.removeprefix(SERVING))
            continue
        if not sign or key not in KEYS:
            raise UsageError(f"no option {key!r}: {nearest(key, KEYS)}")
        if KEYS[key] in given:
            raise UsageError(f"{key} is there twice")
        if not text:
            raise UsageError(f"{key}= has no value")
        given[KEYS[key]] = _value(key, text)
    return {**given, "serving": tuple(serving)} if serving else given


def new(given: Mapping[str, Any]) -> Settings:
    """Return the settings of a new run. Raises ``UsageError`` for what is missing."""
    settings = Settings(**given)
    if not settings.suite:
        raise UsageError(
            "suite= is missing: an environment, such as suite=chat, a .jsonl file or a directory"
        )
    if not settings.model:
        raise UsageError("model= is missing: a base URL, a model's name or its folder")
    if settings.is_url and settings.serving:
        raise UsageError("serving.… is for a model served here, and model= is a URL")
    return replace(settings, suite=_absolute(settings.suite), model=_absolute(settings.model))


def resumed(kept: Settings, given: Mapping[str, Any]) -> Settings:
    """Return a run's settings with what may be given anew.

    Raises:
        UsageError: an option that would make it another run.
    """
    for name, value in given.items():
        if name not in FREE and value != getattr(kept, name):
            was = getattr(kept, name)
            raise UsageError(f"{name}={value} in a run with {name}={was}: start a new run")
    return replace(kept, **given)


def _absolute(name: str) -> str:
    """Return a file or folder by its whole path, so that a run goes on from anywhere."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() and name not in names() else name


def _value(key: str, text: str) -> Any:
    name = KEYS[key]
    kind = get_type_hints(Settings)[name]
    if name in _CHOICES and text not in _CHOICES[name]:
        raise UsageError(f"{key}={text}: {nearest(text, _CHOICES[name])}")
    if kind == tuple[str, ...]:
        inside = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        return tuple(part.strip() for part in inside.split(",") if part.strip())
    if kind not in (int, float):
        return text
    least = _LEAST.get(name, 0)
    try:
        number = kind(text)
    except ValueError:
        number = -1
    if not least <= number < float("inf"):
        noun = "a whole number" if kind is int else "a number"
        raise UsageError(f"{key}={text}: give {noun} from {least}")
    return number
