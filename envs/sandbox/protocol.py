"""The contract of a sandbox: what every back end does, and what it raises.

A back end is right when ``envs.sandbox.check.check_sandbox`` passes on it. Methods are synchronous
and may be called from any thread, one call at a time per sandbox.

The line between the agent's fault and ours (design, contract 2): what a command does (exit code,
time-out, endless output, killing its own shell) is an ``ExecResult``; what the machine does
(container gone, daemon gone) is a ``SandboxLost``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self, runtime_checkable


@dataclass(frozen=True)
class SandboxSpec:
    """What a sandbox is made of.

    Attributes:
        image: image reference the back end resolves.
        workdir: where commands start; writable by the agent.
        memory_bytes, pids, disk_bytes, cpus: limits. ``disk_bytes`` bounds every writable place.
        network: False means no network at all. There is no half-way in this version.
        env: environment of every command; nothing of the host's environment is ever added.
        labels: extra labels, on top of ``clawgym`` and the lease's.
        lease_s: seconds without a heartbeat after which the reaper removes the sandbox.
        machine: True asks for ``envs.sandbox.machine``: the image as it is, root, every path
            writable, and so a weaker promise. ``workdir=""`` is then the image's own.
        user: of a machine's commands; "" is root.
    """

    image: str
    workdir: str = "/workspace"
    memory_bytes: int = 512 * 2**20
    pids: int = 128
    disk_bytes: int = 64 * 2**20
    cpus: float = 1.0
    network: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    lease_s: float = 300.0
    machine: bool = False
    user: str = ""


@dataclass(frozen=True)
class ExecResult:
    """What a command did.

    Attributes:
        output: standard output and error, merged in order, decoded with ``backslashreplace``. Over
            the limit the head and the tail are kept and a line between says how much was cut.
        exit_code: the command's; 124 on time-out, 128 + n when killed by signal n.
        timed_out: the limit was reached and the process group was killed.
        truncated: output was cut.
        output_bytes: bytes the command wrote, kept or not.
        duration_s: wall-clock seconds inside the sandbox.
        note: one line for the agent about something unusual ("the shell was restarted"), or "".
    """

    output: str
    exit_code: int
    timed_out: bool = False
    truncated: bool = False
    output_bytes: int = 0
    duration_s: float = 0.0
    note: str = ""


@runtime_checkable
class Sandbox(Protocol):
    """A machine an agent may wreck. A context manager; ``close`` is idempotent."""

    @property
    def id(self) -> str:
        """Short unique name, also of the container."""
        ...

    def shell(
        self, command: str, *, timeout_s: float = 10.0, max_output_bytes: int = 16384
    ) -> ExecResult:
        """Run one command in the sandbox's persistent bash: directory and variables stay.

        A command that hangs is killed with everything it started, and the shell survives. ``exit``
        and a killed shell end in a fresh shell and a ``note``. Standard input is empty.

        Raises:
            SandboxLost: container, daemon or server is gone.
        """
        ...

    def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        max_output_bytes: int = 1 << 20,
    ) -> ExecResult:
        """Run one program in a process of its own, as the agent's user, with the spec's clean
        environment: nothing of the persistent shell (aliases, PATH, functions) reaches it.

        Raises:
            SandboxLost: container, daemon or server is gone.
        """
        ...

    def kill_processes(self) -> None:
        """End every process of the agent (the persistent shell too; it restarts at need).

        Called before a verifier runs, so that nothing of the agent's is alive beside it.

        Raises:
            SandboxLost: container, daemon or server is gone.
        """
        ...

    def read_file(self, path: str, *, max_bytes: int = 8 << 20) -> bytes:
        """Return a file's bytes.

        Raises:
            SandboxFileError: missing, a directory, a device, unreadable.
            SandboxLimitError: larger than ``max_bytes``.
            SandboxLost: container, daemon or server is gone.
        """
        ...

    def write_file(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file as the agent's user, parents made as needed; replaces an existing file.

        Raises:
            SandboxFileError: the path cannot be written (also: no space left).
            SandboxLost: container, daemon or server is gone.
        """
        ...

    def reset(self) -> None:
        """Bring the sandbox back to its image: no process, file or variable of before is left.

        Back ends may implement it by a fresh container.

        Raises:
            SandboxStartError: the fresh state could not be made.
            SandboxLost: container, daemon or server is gone.
        """
        ...

    def snapshot(self, tag: str) -> str:
        """Keep the state of the writable places under ``tag``; returns a spec image reference that
        starts from it.

        Raises:
            SandboxError: it could not be kept.
            SandboxLost: container, daemon or server is gone.
        """
        ...

    def heartbeat(self) -> None:
        """Renew the lease. Never raises."""
        ...

    def close(self) -> None:
        """End the sandbox and remove everything it left. Idempotent; never raises."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None: ...


class SandboxProvider(Protocol):
    """Where environments get sandboxes from: a pool, or a fresh one each time."""

    def acquire(self, spec: SandboxSpec) -> Sandbox:
        """Return a clean, running sandbox of this spec, owned by the caller until ``release``.

        Raises:
            SandboxStartError: none could be started; also when no engine answers for a while.
            MissingImage: no such image; names the remedy.
        """
        ...

    def release(self, sandbox: Sandbox) -> None:
        """Take a sandbox back (to be reset and reused, or closed). Never raises."""
        ...

    def close(self) -> None:
        """Close every sandbox this provider made. Idempotent; never raises."""
        ...
