"""Task directories of the formats as ``Task``s.

``data`` of such a task: ``kind`` (``harbor`` or ``terminal_bench``), ``directory``, ``config`` (the
whole record as JSON), ``limits`` (what ``TaskLimits`` has no place for), ``unknown`` (keys the
format does not know), ``unsupported`` (why this version cannot play it), ``steps`` (how many),
``content`` (a digest of all its files) and ``base`` (what stands in for an image that cannot be
had, see ``images``; such a task is tagged
``base:…``).

Every one is held out: these are benchmarks, and evaluation data is never trained on. A task whose
files carry a canary is tagged ``canary``; ``image`` is the tag its own Dockerfile is built under.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from envs.errors import TaskError
from envs.images.base import pull
from envs.sandbox.engine import has_image
from envs.terminal.formats import harbor, terminal_bench
from envs.terminal.formats.harbor import Environment, HarborTask, Phase
from envs.terminal.formats.images import ensure_image, tag_of
from envs.terminal.formats.record import FormatRecord, unknown_keys
from envs.terminal.formats.terminal_bench import TerminalBenchTask
from envs.types import Task, TaskLimits

MB = 2**20
MAX_STEPS = 1000  # the formats bound time, not steps
COMMAND_TIMEOUT_S = 180.0  # Terminal-Bench's longest wait for one command
OUTPUT_BYTES = 10_000  # what the official agent shows of one output
PIDS = 4096
DEFAULT_MEMORY_MB = 2048  # the first Harbor schema's, where a task states none
DEFAULT_STORAGE_MB = 10240
BUILD_TIMEOUT_S = 1800.0


def load_directory(path: Path, base: str = "") -> list[Task]:
    """Return the task of a task directory, or those of all task directories directly below.

    Args:
        base: see ``images.ensure_image``.

    Raises:
        TaskError: no such directory, no task in it, or a bad one; names file and key.
    """
    if not path.is_dir():
        raise TaskError(f"{path} is no directory")
    folders = [path] if _kind(path) else sorted(p for p in path.iterdir() if _kind(p))
    if not folders:
        raise TaskError(f"{path} holds no task: no task.toml or task.yaml in it or one level below")
    return [load_task(folder, base) for folder in folders]


def load_task(path: Path, base: str = "") -> Task:
    """Return the task of one directory. Raises ``TaskError``."""
    match _kind(path):
        case "harbor":
            return harbor_task(harbor.read_task(path), base)
        case "terminal_bench":
            return terminal_bench_task(terminal_bench.read_task(path), base)
    raise TaskError(f"{path}: neither task.toml nor task.yaml")


def _kind(path: Path) -> str:
    if harbor.is_task(path):
        return "harbor"
    return "terminal_bench" if terminal_bench.is_task(path) else ""


# ----------------------------------------------------------------- Harbor


def harbor_task(source: HarborTask, base: str = "") -> Task:
    """Convert a Harbor task. A multi-step task's instruction is its first step's; the next one is
    the observation that follows when a step is submitted.

    Raises:
        TaskError: a limit that is not positive; names file and key.
    """
    config, environment = source.config, source.config.environment
    where = source.path / "task.toml"
    limits = TaskLimits(
        max_steps=MAX_STEPS,
        step_timeout_s=_command_timeout(config.agent.timeout_sec, f"{where}: agent.timeout_sec"),
        verifier_timeout_s=_positive(config.verifier.timeout_sec, f"{where}: verifier.timeout_sec"),
        output_bytes=OUTPUT_BYTES,
        memory_bytes=_mb(environment.memory_mb, DEFAULT_MEMORY_MB, f"{where}: memory_mb"),
        disk_bytes=_mb(environment.storage_mb, DEFAULT_STORAGE_MB, f"{where}: storage_mb"),
        pids=PIDS,
        cpus=_positive(
            1.0 if environment.cpus is None else environment.cpus, f"{where}: environment.cpus"
        ),
    )
    stated = {
        "agent_timeout_s": config.agent.timeout_sec,
        "build_timeout_s": environment.build_timeout_sec,
        "agent_network": config.agent.network_mode or environment.network_mode,
        "verifier_network": config.verifier.network_mode or environment.network_mode,
        "cpus_stated": environment.cpus is not None,
        "memory_stated": environment.memory_mb is not None,
        "storage_stated": environment.storage_mb is not None,
    }
    text = source.step_instructions[0] if config.steps else source.instruction
    files = (source.dockerfile, source.test, source.solve, where, source.path / "instruction.md")
    return _task(
        "harbor",
        source.path,
        config,
        text,
        limits=limits,
        stated=stated,
        unsupported=list(_harbor_gaps(source)),
        difficulty=config.metadata.get("difficulty"),
        category=config.metadata.get("category"),
        canary=_has_canary(files),
        dockerfile=source.dockerfile,
        ready_image=environment.docker_image or "",
        base=base,
        steps=len(config.steps) or 1,
    )


def _harbor_gaps(source: HarborTask) -> Iterator[str]:
    config, environment = source.config, source.config.environment
    if source.compose is not None:
        yield f"docker compose (environment/{source.compose.name})"
    elif source.dockerfile is None and environment.docker_image is None:
        yield "an image (no Dockerfile, and environment.docker_image names none)"
    steps = source.path / "steps"
    known = [step.name for step in config.steps]
    lacking = [name for name in known if not (steps / name / "tests" / "test.sh").is_file()]
    if source.test is None and (lacking or not config.steps):
        yield f"a verifier (no tests/test.sh{' for ' + ', '.join(lacking) if lacking else ''})"
    phases: dict[str, Environment | Phase] = {
        "environment": environment,
        "agent": config.agent,
        "verifier": config.verifier,
        **{f"steps.{step.name}.agent": step.agent for step in config.steps},
        **{f"steps.{step.name}.verifier": step.verifier for step in config.steps},
    }
    for name, phase in phases.items():
        if phase.network_mode == "allowlist":
            yield f"a network allow list ([{name}] network_mode)"
    given = {"environment": environment.env, "solution": config.solution.env}
    given |= {"verifier": config.verifier.env}
    given |= {f"steps.{step.name}.verifier": step.verifier.env for step in config.steps}
    for name, variables in given.items():
        if asked := [key for key, value in variables.items() if "${" in value]:
            yield f"variables of this machine ([{name}.env] {', '.join(asked)})"
    if environment.gpus:
        yield f"GPUs (environment.gpus = {environment.gpus})"
    if environment.tpu is not None:
        yield "a TPU (environment.tpu)"
    if environment.os == "windows":
        yield "Windows (environment.os)"
    if "separate" in {config.verifier.mode, *(step.verifier.mode for step in config.steps)}:
        yield "a verifier in a container of its own ([verifier] environment_mode)"
    if config.verifier.collect or any(step.verifier.collect for step in config.steps):
        yield "collect hooks ([[verifier.collect]])"
    if environment.mcp_servers:
        names = ", ".join(server.name for server in environment.mcp_servers)
        yield f"MCP servers ({names})"
    if environment.skills_dir is not None:
        yield "skills (environment.skills_dir)"
    if source.trajectory is not None:
        yield "a context from before (trajectory.json)"


# ----------------------------------------------------------------- Terminal-Bench 1


def terminal_bench_task(source: TerminalBenchTask, base: str = "") -> Task:
    """Convert a Terminal-Bench 1 task; processors and memory are the compose file's, if stated.

    Raises:
        TaskError: a limit that is not positive; names file and key.
    """
    config, where = source.config, source.path / "task.yaml"
    client = source.compose.services.get(terminal_bench.SERVICE) if source.compose else None
    cpus = 1.0 if client is None or client.cpus is None else client.cpus
    limits = TaskLimits(
        max_steps=MAX_STEPS,
        step_timeout_s=_command_timeout(
            config.max_agent_timeout_sec, f"{where}: max_agent_timeout_sec"
        ),
        verifier_timeout_s=_positive(config.max_test_timeout_sec, f"{where}: max_test_timeout_sec"),
        output_bytes=OUTPUT_BYTES,
        memory_bytes=DEFAULT_MEMORY_MB * MB,
        disk_bytes=DEFAULT_STORAGE_MB * MB,
        pids=PIDS,
        cpus=_positive(cpus, f"{source.path / 'docker-compose.yaml'}: services.client.cpus"),
    )
    network = "no-network" if client and client.network_mode == "none" else "public"
    stated = {
        "agent_timeout_s": config.max_agent_timeout_sec,
        "build_timeout_s": None,
        "agent_network": network,
        "verifier_network": network,
        "cpus_stated": client is not None and client.cpus is not None,
        "memory_stated": False,
        "storage_stated": False,
    }
    files = (where, source.dockerfile, source.run_tests, source.solve)
    return _task(
        "terminal_bench",
        source.path,
        config,
        config.instruction,
        limits=limits,
        stated=stated,
        unsupported=list(_terminal_bench_gaps(source)),
        difficulty=config.difficulty,
        category=config.category,
        canary=_has_canary(files),
        dockerfile=source.dockerfile,
        base=base,
    )


def _terminal_bench_gaps(source: TerminalBenchTask) -> Iterator[str]:
    services = sorted(source.compose.services) if source.compose else [terminal_bench.SERVICE]
    if services != [terminal_bench.SERVICE]:
        yield f"compose services besides 'client' alone ({', '.join(services)})"
    client = source.compose.services.get(terminal_bench.SERVICE) if source.compose else None
    if client is not None and client.mem_limit is not None:
        yield f"a memory limit of compose (services.client.mem_limit = {client.mem_limit})"
    if client is not None and client.model_extra:
        keys = ", ".join(sorted(client.model_extra))
        yield f"further settings of compose (services.client: {keys})"
    if source.dockerfile is None:
        yield "an image (no Dockerfile)"
    if source.run_tests is None:
        yield "a verifier (no run-tests.sh)"
    if source.config.parser_name != "pytest":
        yield f"the test parser {source.config.parser_name!r} (parser_name)"


# ----------------------------------------------------------------- both


def have_image(task: Task) -> str:
    """Return the reference of a task's image, built from its own Dockerfile where it is missing.

    Raises:
        TaskError, SetupError, MissingDependency: see ``images.ensure_image``.
    """
    if not task.data["dockerfile"]:
        if has_image(task.image) or pull(task.image):
            return task.image
        raise TaskError(f"{task.id}: image {task.image} is neither here nor to be pulled")
    dockerfile = Path(task.data["dockerfile"])
    limit = task.data["limits"]["build_timeout_s"] or BUILD_TIMEOUT_S
    return ensure_image(task.image, dockerfile.parent, dockerfile, task.data["base"], limit)


def _task(
    kind: str,
    path: Path,
    config: FormatRecord,
    instruction: str,
    *,
    limits: TaskLimits,
    stated: dict[str, Any],
    unsupported: list[str],
    difficulty: object,
    category: object,
    canary: bool,
    dockerfile: Path | None,
    ready_image: str = "",
    base: str = "",
    steps: int = 1,
) -> Task:
    path = path.resolve()
    tags = [f"source:{kind}"]
    image = ready_image
    if dockerfile is not None:
        dockerfile = dockerfile.resolve()
        image = tag_of(dockerfile.parent, dockerfile, base)
        if base:
            tags.append(f"base:{base}")
    if isinstance(difficulty, str) and difficulty:
        tags.append(f"level:{difficulty}")
    if canary:
        tags.append("canary")
    name = kind.replace("_", "-")
    if isinstance(category, str) and category:
        name += "-" + re.sub(r"[^a-z0-9]+", "-", category.lower()).strip("-")
    return Task(
        id=f"terminal/{name}/{path.name}",
        env="terminal",
        family=name,
        split="heldout",
        instruction=instruction,
        image=image,
        limits=limits,
        data={
            "kind": kind,
            "directory": str(path),
            "config": config.model_dump(mode="json"),
            "limits": stated,
            "unknown": list(unknown_keys(config)),
            "unsupported": unsupported,
            "dockerfile": "" if dockerfile is None else str(dockerfile),
            "content": tag_of(path, path).partition(":")[2],
            "base": base,
            "steps": steps,
        },
        tags=tuple(tags),
    )


def _command_timeout(agent_timeout_s: float | None, where: str) -> float:
    if agent_timeout_s is None:
        return COMMAND_TIMEOUT_S
    return min(COMMAND_TIMEOUT_S, _positive(agent_timeout_s, where))


def _mb(value: int | None, default: int, where: str) -> int:
    return int(_positive(default if value is None else value, where)) * MB


def _positive(value: float, where: str) -> float:
    if value <= 0:
        raise TaskError(f"{where} = {value}: give a number above 0")
    return value


def _has_canary(files: Iterable[Path | None]) -> bool:
    return any(
        b"canary" in path.read_bytes().lower()
        for path in files
        if path is not None and path.is_file()
    )
