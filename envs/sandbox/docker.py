"""The default sandbox: one Docker container with a small server as its main process.

Read-only root, tmpfs for every writable place, no network, all capabilities dropped but the three
that the server needs to run commands as another user, no-new-privileges, limits on memory, pids
and CPU, no log. A command costs one round trip over the attach socket; a reset kills and wipes.
The container ends by itself when its owner's socket closes, however that comes about.

Left out: images without Python, partial network access, disk quotas beyond the tmpfs sizes.
"""

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from envs.errors import (
    SandboxError,
    SandboxFileError,
    SandboxLimitError,
    SandboxLost,
    SandboxStartError,
)
from envs.sandbox import snapshots
from envs.sandbox.container import create_arguments, remove_container, starting
from envs.sandbox.engine import connect
from envs.sandbox.lease import drop_lease, renew_lease
from envs.sandbox.output import decode
from envs.sandbox.protocol import ExecResult, SandboxSpec
from envs.sandbox.wire import Wire, WireError
from envs.text import printable

if TYPE_CHECKING:
    from docker import APIClient

START_TIMEOUT_S = 120.0
FILE_TIMEOUT_S = 150.0  # the helper inside gets 60 s, twice
RESET_TIMEOUT_S = 150.0
REPLY_GRACE_S = 30.0


class DockerSandbox:
    """A ``Sandbox`` in a container of its own. See ``envs.sandbox.protocol.Sandbox``.

    Args:
        spec: what it is made of; ``spec.image`` is an image family, a full reference, or what
            ``snapshot`` returned.
        run_id: whose it is; ``reap(run_id=…)`` finds it by that.
        worker: which worker of the run.

    Raises:
        SandboxStartError: the container could not be made or did not become ready in time.
        MissingDependency: no engine, or no such image; names the remedy.
    """

    def __init__(self, spec: SandboxSpec, *, run_id: str = "adhoc", worker: str = "0") -> None:
        self.spec = spec
        self.created = time.monotonic()
        self._id = f"clawgym-{uuid.uuid4().hex[:12]}"
        self._lock = threading.Lock()
        self._lost = ""
        self._lease_ends = 0.0
        self._closed = False
        self._wire: Wire | None = None
        self._api: APIClient = connect()
        try:
            image, self._archive = snapshots.load(spec.image)
            self._renew(START_TIMEOUT_S)
            self._wire = self._start(image, run_id, worker)
            self.reset()
        except SandboxLost as error:
            self.close()
            raise SandboxStartError(f"the sandbox did not become ready: {error}") from error
        except BaseException:
            self.close()
            raise

    @property
    def id(self) -> str:
        """Short unique name, also of the container."""
        return self._id

    def shell(
        self, command: str, *, timeout_s: float = 10.0, max_output_bytes: int = 16384
    ) -> ExecResult:
        """See ``Sandbox.shell``."""
        request = {"op": "shell", "timeout": timeout_s, "max_output": max_output_bytes}
        body = command.encode("utf-8", "surrogateescape")
        return _result(*self._call(request, body, timeout_s + REPLY_GRACE_S))

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
        """See ``Sandbox.exec``. What the program leaves in the background lives on, with nobody
        reading its output, until ``kill_processes`` or ``reset``."""
        if len(stdin) > self.spec.memory_bytes // 4:
            raise SandboxLimitError(f"{len(stdin)} bytes of input exceed a quarter of the memory")
        request = {
            "op": "exec",
            "argv": list(argv),
            "cwd": cwd,
            "env": dict(env or {}),
            "timeout": timeout_s,
            "max_output": max_output_bytes,
        }
        return _result(*self._call(request, stdin, timeout_s + REPLY_GRACE_S))

    def kill_processes(self) -> None:
        """See ``Sandbox.kill_processes``."""
        reply, _ = self._call({"op": "kill"}, b"", FILE_TIMEOUT_S)
        if "error" in reply:
            raise self._lose(f"processes could not be ended: {reply['error']}")

    def read_file(self, path: str, *, max_bytes: int = 8 << 20) -> bytes:
        """See ``Sandbox.read_file``. A relative path starts at the working directory."""
        reply, data = self._call(
            {"op": "read", "path": path, "max": max_bytes}, b"", FILE_TIMEOUT_S
        )
        if "error" in reply:
            raise SandboxFileError(f"cannot read {path}: {reply['error']}")
        if len(data) > max_bytes:
            raise SandboxLimitError(f"{path} is larger than {max_bytes} bytes")
        return data

    def write_file(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """See ``Sandbox.write_file``. A relative path starts at the working directory."""
        if len(data) > self.spec.disk_bytes:
            raise SandboxFileError(f"cannot write {path}: {len(data)} bytes exceed the disk limit")
        reply, _ = self._call({"op": "write", "path": path, "mode": mode}, data, FILE_TIMEOUT_S)
        if "error" in reply:
            raise SandboxFileError(f"cannot write {path}: {reply['error']}")

    def reset(self) -> None:
        """See ``Sandbox.reset``: kills everything, wipes every writable place, proves both."""
        reply, _ = self._call({"op": "reset"}, self._archive, RESET_TIMEOUT_S)
        if "error" in reply:
            raise SandboxStartError(f"{self._id} could not be reset: {reply['error']}")

    def snapshot(self, tag: str) -> str:
        """See ``Sandbox.snapshot``. Keeps files, not processes or shell variables. The archive
        lies in this machine's state folder, so the reference is good on this machine."""
        reply, archive = self._call({"op": "dump"}, b"", FILE_TIMEOUT_S)
        if "error" in reply:
            raise SandboxError(f"no snapshot of {self._id}: {reply['error']}")
        return snapshots.save(tag, self.spec.image, archive)

    def ping(self) -> None:
        """Ask the server inside for a sign of life. Raises ``SandboxLost``."""
        self._call({"op": "ping"}, b"", REPLY_GRACE_S)

    def heartbeat(self) -> None:
        """See ``Sandbox.heartbeat``."""
        if not self._closed:
            self._renew(0.0)

    def close(self) -> None:
        """See ``Sandbox.close``."""
        if self._closed:
            return
        self._closed = True
        if self._wire is not None:
            self._wire.close()
        if remove_container(self._api, self._id):
            drop_lease(self._id)
        with suppress(Exception):
            self._api.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    # ------------------------------------------------------------- inside

    def _start(self, image: str, run_id: str, worker: str) -> Wire:
        with starting(self._id, image, "run: python -m envs.images build"):
            stream = self._run(image, run_id, worker)
        return Wire(getattr(stream, "_sock", stream))

    def _run(self, image: str, run_id: str, worker: str) -> Any:
        """Create, attach and start; once more without kernel settings if they are refused."""
        import docker.errors

        for bound_ipc in (True, False):
            arguments = create_arguments(
                self._api, self.spec, image, self._id, run_id, worker, bound_ipc=bound_ipc
            )
            try:
                self._api.create_container_from_config(arguments, self._id)  # type: ignore[no-untyped-call]
                stream = self._api.attach_socket(
                    self._id, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
                )
                self._stream = stream  # keeps the HTTP response, and so the socket, alive
                self._api.start(self._id)
            except docker.errors.APIError as error:
                refused = any(word in str(error) for word in ("sysctl", "kernel."))
                if not (bound_ipc and refused and remove_container(self._api, self._id)):
                    raise
            else:
                break
        return stream

    def _call(
        self, request: dict[str, Any], body: bytes, timeout_s: float
    ) -> tuple[dict[str, Any], bytes]:
        with self._lock:
            if self._lost:
                raise SandboxLost(self._lost)
            if self._closed or self._wire is None:
                raise SandboxLost(f"{self._id} is closed")
            try:
                self._renew(timeout_s)
                reply, data = self._wire.call(request, body, timeout_s)
            except WireError as error:
                raise self._lose(str(error)) from error
            if "lost" in reply:
                raise self._lose(f"{request['op']!r}: {reply['lost']}")
            return {k: printable(v) if isinstance(v, str) else v for k, v in reply.items()}, data

    def _renew(self, needed_s: float) -> None:
        """Keep the lease ahead of a call, at most four renewals per lease."""
        now = time.monotonic()
        if self._lease_ends - now < max(needed_s, 0.75 * self.spec.lease_s):
            lease_s = max(self.spec.lease_s, needed_s)
            with suppress(OSError):
                renew_lease(self._id, lease_s)
                self._lease_ends = now + lease_s

    def _lose(self, cause: str) -> SandboxLost:
        """Remember the first cause: every later call repeats it."""
        self._lost = self._lost or f"{self._id}: {cause}"
        return SandboxLost(self._lost)


def _result(reply: dict[str, Any], data: bytes) -> ExecResult:
    if "error" in reply:
        return ExecResult(f"{reply['error']}\n", 126)
    total, head = int(reply["total"]), int(reply["head"])
    return ExecResult(
        output=decode(data, head, total),
        exit_code=int(reply["code"]),
        timed_out=bool(reply["timed_out"]),
        truncated=total > len(data),
        output_bytes=total,
        duration_s=float(reply["seconds"]),
        note=str(reply["note"]),
    )
