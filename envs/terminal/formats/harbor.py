"""Harbor task directories (Terminal-Bench 2): ``task.toml`` as records, and the files beside it.

Schema 1.0 to 1.4. Legacy keys are read as the official harness does: ``version``, ``memory``,
``storage``, ``allow_internet``. Stricter than officially in one thing: a time or threshold that is
not finite is refused. Left out: running anything; collisions between artifacts.

Example:
    >>> parse_config('version = "1.0"\\n[environment]\\nmemory = "2G"').environment.memory_mb
    2048
"""

import re
import tomllib
import unicodedata
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from envs.errors import TaskError
from envs.terminal.formats.record import FormatRecord, read_text, validated

NetworkMode = Literal["public", "no-network", "allowlist"]
COMPOSE_NAMES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
HOST_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
SERVICE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
BAD_IN_STEP = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
DEVICE = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[1-9¹²³])", re.IGNORECASE)
CANARY = re.compile(r"(<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)
SIZES_MB = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}


def allowed_host(entry: str) -> str:
    """Return a host, ``*.`` pattern, address or range in normal form. Raises ``ValueError``."""
    host = entry.strip().lower().rstrip(".")
    if "%" not in host and ("/" in host or ":" in host):
        parsed = ip_network(host) if "/" in host else ip_address(host)
        return parsed.compressed
    name = host.removeprefix("*.")
    if host != name and re.fullmatch(r"[0-9.]+", name):
        raise ValueError(f"{entry!r}: a wildcard goes before a name, not an address")
    if not all(HOST_LABEL.fullmatch(label) for label in name.split(".")):
        raise ValueError(f"{entry!r}: give a host, '*.host', an address or a range, no URL or port")
    return host


def _service(name: str) -> str:
    if not SERVICE.fullmatch(name.strip()):
        raise ValueError(f"{name!r} is no compose service name")
    return name.strip()


def _step_name(name: str) -> str:
    bad = name in ("", ".", "..") or name.endswith((".", " ")) or BAD_IN_STEP.search(name)
    device = DEVICE.fullmatch(name.partition(".")[0].rstrip(" "))
    if bad or device or not name.strip() or len(name.encode()) > 255:
        raise ValueError(f"step name {name!r} is no portable directory name")
    return name


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _http_is_streamable(value: Any) -> Any:
    return "streamable-http" if value == "http" else value


def size_mb(text: str) -> int:
    """Return a legacy size in MB, rounded down. Raises ``ValueError``.

    Example:
        >>> size_mb("1.5G"), size_mb("512m"), size_mb("2048K")
        (1536, 512, 2)
    """
    size = text.strip().upper()
    if size[-1:] not in SIZES_MB:
        raise ValueError(f"size {text!r}: give a number and G, M or K")
    return int(float(size[:-1]) * SIZES_MB[size[-1]])


def without_canary(text: str) -> str:
    """Return an instruction as the agent sees it: leading canary comments and blanks are not.

    Example:
        >>> without_canary("<!-- a CANARY -->\\n\\nDo it.\\n")
        'Do it.\\n'
    """
    lines, start = text.split("\n"), 0
    while start < len(lines) and CANARY.fullmatch(lines[start].strip()):
        start += 1
    while start < len(lines) and not lines[start].strip():
        start += 1
    return "\n".join(lines[start:])


Host = Annotated[str, AfterValidator(allowed_host)]
Service = Annotated[str, AfterValidator(_service)]


class Phase(FormatRecord):
    """Network of one phase; None is the environment's."""

    network_mode: NetworkMode | None = None
    allowed_hosts: tuple[Host, ...] | None = None

    @model_validator(mode="after")
    def _hosts_need_allowlist(self) -> "Phase":
        if self.network_mode != "allowlist" and (
            self.allowed_hosts or (self.network_mode is None and self.allowed_hosts is not None)
        ):
            raise ValueError("allowed_hosts needs network_mode = 'allowlist'")
        return self


class Healthcheck(FormatRecord):
    """Asked after the start until it exits with 0."""

    command: str
    interval_sec: float = 5.0
    timeout_sec: float = 30.0
    start_period_sec: float = 0.0
    start_interval_sec: float = 5.0
    retries: int = 3


class McpServer(FormatRecord):
    """A tool server for the agent."""

    name: str
    transport: Annotated[
        Literal["sse", "streamable-http", "stdio"], BeforeValidator(_http_is_streamable)
    ] = "sse"
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    headers: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_its_address(self) -> "McpServer":
        needed = "command" if self.transport == "stdio" else "url"
        if not getattr(self, needed):
            raise ValueError(f"transport {self.transport!r} needs {needed!r}")
        if self.transport == "stdio" and self.headers:
            raise ValueError("'headers' is for HTTP transports")
        return self


class Tpu(FormatRecord):
    """A slice of TPUs."""

    type: str = Field(min_length=1)
    topology: str = Field(pattern=r"^\s*[1-9]\d*(x[1-9]\d*)+\s*$")


class Environment(FormatRecord):
    """``[environment]``: where the agent works. None is "not stated"."""

    build_timeout_sec: float = 600.0
    docker_image: str | None = None
    os: Annotated[Literal["linux", "windows"], BeforeValidator(_lower)] = "linux"
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    gpus: int | None = None
    gpu_types: tuple[str, ...] | None = None
    tpu: Tpu | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    skills_dir: str | None = None
    healthcheck: Healthcheck | None = None
    workdir: str | None = None
    network_mode: NetworkMode = "public"
    allowed_hosts: tuple[Host, ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_legacy_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for key in ("memory", "storage"):
            legacy = data.pop(key, None)
            if isinstance(legacy, str):
                new = size_mb(legacy)
                if data.setdefault(f"{key}_mb", new) != new:
                    raise ValueError(f"{key} = {legacy!r} is not {key}_mb = {data[f'{key}_mb']!r}")
        internet = data.pop("allow_internet", None)
        if internet is not None:
            try:
                internet = TypeAdapter(bool).validate_python(internet)
            except ValidationError:
                raise ValueError(f"allow_internet = {internet!r}: give true or false") from None
        if internet is not None and data.get("allowed_hosts") is None:
            data.setdefault("network_mode", "public" if internet else "no-network")
        return data

    @model_validator(mode="after")
    def _hosts_need_allowlist(self) -> "Environment":
        if self.allowed_hosts and self.network_mode != "allowlist":
            raise ValueError("allowed_hosts needs network_mode = 'allowlist'")
        return self


class Collect(FormatRecord):
    """A command run in a service once the agent has ended."""

    command: str
    service: Service = "main"
    timeout_sec: float = 60.0
    user: str | int | None = None


class Verifier(Phase):
    """``[verifier]``. Its mode is ``separate`` when only an environment is given."""

    timeout_sec: float = 600.0
    env: dict[str, str] = Field(default_factory=dict)
    user: str | int | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: Environment | None = None
    collect: tuple[Collect, ...] = ()

    @model_validator(mode="after")
    def _shared_has_no_environment(self) -> "Verifier":
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError("environment_mode = 'shared' and [verifier.environment] exclude")
        return self

    @property
    def mode(self) -> Literal["shared", "separate"] | None:
        """Return the mode stated or implied; None when the level above decides."""
        return self.environment_mode or ("separate" if self.environment is not None else None)


class Agent(Phase):
    """``[agent]``. No time-out means none is stated."""

    timeout_sec: float | None = None
    user: str | int | None = None


class Artifact(FormatRecord):
    """A file or folder to keep. A bare string is its source."""

    source: str
    destination: str | None = None
    exclude: tuple[str, ...] = ()
    service: Service | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, data: Any) -> Any:
        return {"source": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _stays_inside(self) -> "Artifact":
        if ".." in PurePosixPath(self.source).parts:
            raise ValueError(f"artifact source {self.source!r} must not hold '..'")
        if self.destination:
            path = PurePosixPath(self.destination)
            bad = path.is_absolute() or ".." in path.parts or not path.parts
            if bad or "\\" in self.destination or str(path) == "manifest.json":
                raise ValueError(f"artifact destination {self.destination!r} must stay inside")
        if self.service not in (None, "main") and not re.match(r"/|[A-Za-z]:[/\\]", self.source):
            raise ValueError(f"artifact source {self.source!r} of a service must be absolute")
        return self


class Step(FormatRecord):
    """``[[steps]]``: one part of a multi-step task, in ``steps/<name>/``."""

    name: Annotated[str, AfterValidator(_step_name)]
    agent: Agent = Agent()
    verifier: Verifier = Verifier()
    min_reward: float | dict[str, float] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: tuple[Artifact, ...] = ()


class Author(FormatRecord):
    """Who made it."""

    name: str
    email: str | None = None


class Package(FormatRecord):
    """``[task]``: its name in a registry."""

    name: str = Field(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")
    version: str | None = Field(default=None, min_length=1)
    description: str = ""
    authors: tuple[Author, ...] = ()
    keywords: tuple[str, ...] = ()


class Solution(FormatRecord):
    """``[solution]``."""

    env: dict[str, str] = Field(default_factory=dict)


class HarborConfig(FormatRecord):
    """``task.toml``. ``metadata`` is free."""

    schema_version: str = "1.4"
    task: Package | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    verifier: Verifier = Verifier()
    agent: Agent = Agent()
    environment: Environment = Environment()
    solution: Solution = Solution()
    source: str | None = None
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    steps: tuple[Step, ...] = ()
    artifacts: tuple[Artifact, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _read_version(cls, data: Any) -> Any:
        if isinstance(data, dict) and "version" in data:
            data = dict(data)
            data.setdefault("schema_version", data.pop("version"))
            data.pop("version", None)
        return data

    @model_validator(mode="after")
    def _steps_differ(self) -> "HarborConfig":
        names = [unicodedata.normalize("NFC", step.name).casefold() for step in self.steps]
        if len(set(names)) < len(names):
            raise ValueError(f"two steps of one name among {[step.name for step in self.steps]}")
        return self


@dataclass(frozen=True)
class HarborTask:
    """A task directory.

    Attributes:
        path: the directory; its name is the task's.
        config: ``task.toml``.
        instruction: ``instruction.md`` without its canary; "" for a multi-step task, whose steps
            have their own.
        step_instructions: one text for each step.
        dockerfile, compose, test, solve, trajectory: the files of the format; None if absent.
    """

    path: Path
    config: HarborConfig
    instruction: str
    step_instructions: tuple[str, ...]
    dockerfile: Path | None
    compose: Path | None
    test: Path | None
    solve: Path | None
    trajectory: Path | None


def parse_config(text: str, source: str = "task.toml") -> HarborConfig:
    """Parse the text of a ``task.toml``. Raises ``TaskError`` with source, key and reason."""
    try:
        return validated(HarborConfig, tomllib.loads(text), source)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TaskError(f"{source}: no TOML: {error}") from error


def is_task(path: Path) -> bool:
    """Return whether a directory claims to be a Harbor task."""
    return (path / "task.toml").is_file()


def read_task(path: Path) -> HarborTask:
    """Read a task directory. Raises ``TaskError`` that names file and key."""
    config = parse_config(read_text(path / "task.toml"), str(path / "task.toml"))
    environment = path / "environment"
    return HarborTask(
        path=path,
        config=config,
        instruction="" if config.steps else without_canary(read_text(path / "instruction.md")),
        step_instructions=tuple(
            without_canary(read_text(path / "steps" / step.name / "instruction.md"))
            for step in config.steps
        ),
        dockerfile=_file(environment / "Dockerfile"),
        compose=next(filter(None, (_file(environment / name) for name in COMPOSE_NAMES)), None),
        test=_file(path / "tests" / "test.sh"),
        solve=_file(path / "solution" / "solve.sh"),
        trajectory=_file(path / "trajectory.json"),
    )


def _file(path: Path) -> Path | None:
    return path if path.is_file() else None
