"""Terminal-Bench 1 task directories: ``task.yaml``, ``docker-compose.yaml``, the solution.

Left out: running anything; parsers of test output other than pytest's (``rewards``).

Example:
    >>> parse_config("instruction: Say hello.\\ndifficulty: easy").max_agent_timeout_sec
    360.0
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from envs.errors import TaskError
from envs.terminal.formats.record import FormatRecord, read_text, validated

SERVICE = "client"
VARIABLE = re.compile(
    r"\$(?:(?P<escaped>\$)|\{(?P<braced>\w+)(?:(?P<sign>:?[-?+])(?P<other>[^}]*))?\}|(?P<bare>\w+))"
)


class TerminalBenchConfig(FormatRecord):
    """``task.yaml``."""

    instruction: str
    author_name: str = "unknown"
    author_email: str = "unknown"
    difficulty: Literal["easy", "medium", "hard", "unknown"]
    category: str = "software_engineering"
    tags: tuple[str, ...] = ()
    parser_name: Literal["pytest", "swebench", "swelancer", "mlebench", "sweperf"] = "pytest"
    max_agent_timeout_sec: float = 360.0
    max_test_timeout_sec: float = 60.0
    run_tests_in_same_shell: bool = False
    disable_asciinema: bool = False
    estimated_duration_sec: float | None = None
    expert_time_estimate_min: int | None = None
    junior_time_estimate_min: int | None = None


class Keystrokes(FormatRecord):
    """One item of ``solution.yaml``: what is typed into the terminal."""

    command: str
    min_timeout_sec: float = 0.0
    max_timeout_sec: float = 180.0
    block: bool = False
    append_enter: bool = True


class ComposeService(FormatRecord):
    """A service, as far as a sandbox must know it; the rest is in ``model_extra``."""

    image: str | None = None
    container_name: str | None = None
    build: str | dict[str, Any] | None = None
    command: str | tuple[str, ...] | None = None
    environment: dict[str, Any] | tuple[str, ...] = ()
    volumes: tuple[str | dict[str, Any], ...] = ()
    network_mode: str | None = None
    cpus: float | None = None
    mem_limit: str | int | None = None


class Compose(FormatRecord):
    """``docker-compose.yaml``."""

    services: dict[str, ComposeService] = Field(min_length=1)


@dataclass(frozen=True)
class TerminalBenchTask:
    """A task directory.

    Attributes:
        path: the directory; its name is the task's.
        config: ``task.yaml``.
        compose: ``docker-compose.yaml``, not interpolated; None if absent.
        solution: keystrokes of ``solution.yaml``; empty when ``solution.sh`` is there, or neither.
        dockerfile, run_tests, solve: the files of the format; None if absent.
    """

    path: Path
    config: TerminalBenchConfig
    compose: Compose | None
    solution: tuple[Keystrokes, ...]
    dockerfile: Path | None
    run_tests: Path | None
    solve: Path | None


def parse_config(text: str, source: str = "task.yaml") -> TerminalBenchConfig:
    """Parse the text of a ``task.yaml``. Raises ``TaskError`` with source, key and reason."""
    return validated(TerminalBenchConfig, _yaml(text, source), source)


def parse_compose(text: str, source: str = "docker-compose.yaml") -> Compose:
    """Parse a compose file without interpolation. Raises ``TaskError``."""
    return validated(Compose, _yaml(text, source), source)


def parse_solution(text: str, source: str = "solution.yaml") -> tuple[Keystrokes, ...]:
    """Parse a ``solution.yaml``. Raises ``TaskError`` with source, item, key and reason."""
    rows = _yaml(text, source)
    if not isinstance(rows, list):
        raise TaskError(f"{source}: give a list of commands")
    return tuple(
        validated(Keystrokes, row, f"{source}, item {number}") for number, row in enumerate(rows, 1)
    )


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """Fill in ``$X``, ``${X}``, ``${X:-default}`` and ``${X-default}``; ``$$`` is one ``$``.

    Raises:
        TaskError: a variable that is not there and has no default, or another form.

    Example:
        >>> interpolate("${T_BENCH_TEST_DIR}:$$HOME", {"T_BENCH_TEST_DIR": "/tests"})
        '/tests:$HOME'
    """

    def value(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        name, sign = match["braced"] or match["bare"], match["sign"]
        if sign not in (None, "-", ":-"):
            raise TaskError(f"{match[0]}: only defaults, ${{X:-…}} and ${{X-…}}, are known")
        found = variables.get(name)
        if found is None or (sign == ":-" and not found):
            found = match["other"]
        if found is None:
            raise TaskError(f"{match[0]} is not set; known: {', '.join(sorted(variables))}")
        return found

    return VARIABLE.sub(value, text)


def is_task(path: Path) -> bool:
    """Return whether a directory claims to be a Terminal-Bench 1 task."""
    return (path / "task.yaml").is_file()


def read_task(path: Path) -> TerminalBenchTask:
    """Read a task directory; ``solution.sh`` before ``solution.yaml``. Raises ``TaskError``."""
    compose, keys = path / "docker-compose.yaml", path / "solution.yaml"
    solve = _file(path / "solution.sh")
    typed = keys.is_file() and solve is None
    return TerminalBenchTask(
        path=path,
        config=parse_config(read_text(path / "task.yaml"), str(path / "task.yaml")),
        compose=parse_compose(read_text(compose), str(compose)) if compose.is_file() else None,
        solution=parse_solution(read_text(keys), str(keys)) if typed else (),
        dockerfile=_file(path / "Dockerfile"),
        run_tests=_file(path / "run-tests.sh"),
        solve=solve,
    )


def _yaml(text: str, source: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise TaskError(f"{source}: no YAML: {' '.join(str(error).split())}") from error


def _file(path: Path) -> Path | None:
    return path if path.is_file() else None
