"""A whole machine for tasks of public formats: their own image as it is, root, every path writable.

Those tasks install packages, start services and write anywhere, so this back end promises less than
``docker``: Docker's default capabilities, a root who is the host's root unless the engine remaps
users, a network where the task asks for one, files on the engine's disk, bounded where its storage
driver takes a size (memory, processors and process ids always are). Nothing of ours is inside;
bash is needed, and ``timeout`` of coreutils. The owner's end is noticed by the reaper, not by the
container.

A command that hangs is killed with what it started since, and the shell survives. A machine is
used once: ``reset`` refuses, and the pool closes it on release.
"""

import base64
import io
import secrets
import tarfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from envs.errors import (
    SandboxError,
    SandboxFileError,
    SandboxLimitError,
    SandboxLost,
    SandboxStartError,
)
from envs.sandbox.container import LABEL, create_machine, remove_container, starting
from envs.sandbox.engine import connect
from envs.sandbox.inside.streams import Output
from envs.sandbox.lease import drop_lease, renew_lease
from envs.sandbox.output import decode
from envs.sandbox.protocol import ExecResult, SandboxSpec
from envs.sandbox.streams import ExecStream

if TYPE_CHECKING:
    from docker import APIClient

SHELL_START_S = 60.0
STRIKE_S = 3.0  # from the kill of a hung command to that of its shell
POLL_S = 0.25
UPTIME = "read -r up _ </proc/uptime; echo $up"
# Kills what descends from process $2 ("all": every process) and began after $1, hundredths of a
# second of the machine's uptime; spares pid 1, its oldest child, and itself. Needs bash and /proc.
KILLER = r"""
since=$1; top=$2; keep=
declare -A parent began
for stat in /proc/[0-9]*/stat; do
  read -r line 2>/dev/null <"$stat" || continue
  pid=${stat#/proc/}; pid=${pid%/stat}; set -- ${line##*) }
  parent[$pid]=$2; began[$pid]=${20}
  [ "$2" = 1 ] && { [ -z "$keep" ] || [ "$pid" -lt "$keep" ]; } && keep=$pid
done
for pid in "${!parent[@]}"; do
  [ "$pid" = 1 ] || [ "$pid" = $$ ] || [ "$pid" = "$keep" ] && continue
  if [ "$top" = all ]; then kill -KILL "$pid" 2>/dev/null; continue; fi
  [ "${began[$pid]}" -ge "$since" ] || continue
  up=$pid
  while [ -n "$up" ] && [ "$up" != 0 ] && [ "$up" != "$top" ]; do up=${parent[$up]}; done
  [ "$up" = "$top" ] && [ "$pid" != "$top" ] && kill -KILL "$pid" 2>/dev/null
done
exit 0
"""


class MachineSandbox:
    """A ``Sandbox`` of the kind described above; ``spec.image`` is a full reference.

    Raises:
        SandboxStartError: the container could not be made.
        MissingImage: no such image.
        MissingDependency: no engine.
    """

    def __init__(self, spec: SandboxSpec, *, run_id: str = "adhoc", worker: str = "0") -> None:
        self.spec = spec
        self.created = time.monotonic()
        self._id = f"clawgym-{uuid.uuid4().hex[:12]}"
        self._lock = threading.Lock()
        self._closed = False
        self._stream: ExecStream | None = None
        self._shell_pid = "all"
        self._boot = 0.0  # our clock when the machine's uptime was 0
        self._cwd: str | None = None
        self.user = spec.user
        self._api: APIClient = connect(timeout_s=120.0)
        try:
            self.heartbeat()
            self._start(run_id, worker)
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
        with self._lock:
            begun = time.monotonic()
            stream = self._ready_shell()
            mark = secrets.token_hex(12)
            data = command.encode("utf-8", "surrogateescape").replace(b"\0", b"")
            code = base64.b64encode(data).decode()
            stream.send(
                f'eval "$(base64 -d <<< {code})" </dev/null\n'
                f'printf "\\n%s %s %s\\n" {mark} "$?" "$PWD"\n'.encode()
            )
            output, said = self._await(stream, mark, begun, timeout_s, max_output_bytes)
            timed_out = time.monotonic() - begun >= timeout_s
            note = ""
            if said is None:
                exit_code = 124 if timed_out else stream.exit_code() if stream.ended else 124
                self._drop_shell()
                note = "the shell ended and was started anew"
            else:
                number, _, self._cwd = said.partition(" ")
                exit_code = 124 if timed_out else int(number)
            return self._result(output, exit_code, timed_out, begun, note)

    def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        max_output_bytes: int = 1 << 20,
        user: str | None = None,
    ) -> ExecResult:
        """See ``Sandbox.exec``. Runs as ``user``, the spec's by default; what it leaves in the
        background lives on."""
        begun, output = time.monotonic(), Output(max_output_bytes)
        limited = ["timeout", "-k", "2", f"{timeout_s:.3f}", *argv]
        environment = {**self.spec.env, **(env or {})}
        stream = ExecStream(
            self._api, self._id, limited, user=self.user if user is None else user, env=environment,
            cwd=cwd or self.spec.workdir or None, stdin=bool(stdin),
        )  # fmt: skip
        try:
            if stdin:
                stream.send(stdin, end=True)
            while not stream.ended:
                data = stream.read(POLL_S)
                output.add(data)
                if not data and not stream.ended and not stream.running():
                    break
            code = stream.exit_code()
        finally:
            stream.close()
        timed_out = code in (124, 137) and time.monotonic() - begun >= timeout_s
        return self._result(output, 124 if timed_out else code, timed_out, begun, "")

    def kill_processes(self) -> None:
        """See ``Sandbox.kill_processes``; root's too."""
        self._drop_shell()
        self._kill(0.0, "all")

    def read_file(self, path: str, *, max_bytes: int = 8 << 20) -> bytes:
        """See ``Sandbox.read_file``. ``path`` is absolute."""
        import docker.errors
        import requests

        try:
            chunks, facts = self._api.get_archive(self._id, path)
            if int(facts["size"]) > max_bytes:
                raise SandboxLimitError(f"{path} is larger than {max_bytes} bytes")
            data = b"".join(chunks)
        except docker.errors.NotFound as error:
            raise SandboxFileError(f"cannot read {path}: {error.explanation}") from error
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise SandboxLost(f"{self._id}: {error}") from error
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            entry = tar.next()
            file = tar.extractfile(entry) if entry is not None and entry.isreg() else None
            if file is None:
                raise SandboxFileError(f"cannot read {path}: no regular file")
            return file.read()

    def write_file(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """See ``Sandbox.write_file``. ``path`` is absolute; root's file."""
        entry = tarfile.TarInfo(path.lstrip("/"))
        entry.size, entry.mode, entry.mtime = len(data), mode, int(time.time())
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.addfile(entry, io.BytesIO(data))
        self._put("/", archive.getvalue())

    def upload(self, folder: Path, target: str) -> None:
        """Put a folder's contents into ``target``, made at need; modes and links are kept, owners
        become root. Raises ``SandboxFileError``, ``SandboxLost``."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for path in sorted(folder.iterdir()):  # not the folder: its mode is the target's own
                tar.add(path, arcname=f"{target.strip('/')}/{path.name}", filter=_as_root)
        self._put("/", archive.getvalue())

    def become(self, user: str) -> None:
        """Run what follows as this user, "" for root; the shell starts anew when it changes."""
        if user != self.user:
            self.user = user
            self._drop_shell()

    def set_network(self, on: bool) -> None:
        """Connect to the engine's bridge, or take away every network. Raises ``SandboxLost``."""
        import docker.errors
        import requests

        try:
            facts = self._api.inspect_container(self._id)
            present = set(facts["NetworkSettings"]["Networks"])
            if on == ("bridge" in present):
                return
            for name in present:
                self._api.disconnect_container_from_network(self._id, name)
            if on:
                self._api.connect_container_to_network(self._id, "bridge")
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise SandboxLost(f"{self._id}: its network could not be changed: {error}") from error

    def reset(self) -> None:
        """Raise ``SandboxStartError``: there is no way back to the image but a new machine."""
        raise SandboxStartError(f"{self._id} is a machine: used once, never reset")

    def snapshot(self, tag: str) -> str:
        """See ``Sandbox.snapshot``: an image of the engine, of files only."""
        import docker.errors
        import requests

        try:
            made = self._api.commit(
                self._id,
                repository="clawgym/snapshot",
                tag=tag,
                conf={"Labels": {LABEL: "snapshot"}},
            )
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise SandboxError(f"no snapshot of {self._id}: {error}") from error
        return str(made["Id"])

    def ping(self) -> None:
        """Ask whether the container runs. Raises ``SandboxLost``."""
        import docker.errors
        import requests

        try:
            state = self._api.inspect_container(self._id)["State"]
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise SandboxLost(f"{self._id}: {error}") from error
        if not state["Running"]:
            raise SandboxLost(f"{self._id} has ended with {state['ExitCode']}")

    def heartbeat(self) -> None:
        """See ``Sandbox.heartbeat``."""
        if not self._closed:
            with suppress(OSError):
                renew_lease(self._id, max(self.spec.lease_s, 600.0))

    def close(self) -> None:
        """See ``Sandbox.close``."""
        if self._closed:
            return
        self._closed = True
        self._drop_shell()
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

    def _start(self, run_id: str, worker: str) -> None:
        with starting(self._id, self.spec.image, "pull or build it"):
            create_machine(self._api, self.spec, self._id, run_id, worker)
            self._api.start(self._id)

    def _ready_shell(self) -> ExecStream:
        if self._closed:
            raise SandboxLost(f"{self._id} is closed")
        if self._stream is not None and not self._stream.ended:
            return self._stream
        self.ping()
        for cwd in dict.fromkeys((self._cwd, self.spec.workdir or None)):
            stream = ExecStream(self._api, self._id, ["bash"], user=self.user, cwd=cwd,
                                env=self.spec.env, stdin=True)  # fmt: skip
            mark = secrets.token_hex(12)
            asked = f'exec 2>&1\nprintf "\\n%s %s %s\\n" {mark} $$ "$({UPTIME})"\n'
            stream.send(asked.encode())
            _, said = self._await(stream, mark, time.monotonic(), SHELL_START_S, 0)
            if said is not None:
                self._shell_pid, _, uptime = said.partition(" ")
                self._boot = time.monotonic() - float(uptime)
                self._stream = stream
                return stream
            stream.close()
        raise SandboxLost(f"{self._id}: bash did not start")

    def _await(
        self, stream: ExecStream, mark: str, begun: float, timeout_s: float, most: int
    ) -> tuple[Output, str | None]:
        """Collect output until the line of ``mark``; returns what stood behind it, None without."""
        output, held, struck = Output(most), b"", False
        needle, deadline = f"\n{mark} ".encode(), begun + timeout_s
        while not stream.ended:
            held += stream.read(max(0.0, min(POLL_S, deadline - time.monotonic())))
            place = held.find(needle)
            if place >= 0 and b"\n" in held[place + len(needle) :]:
                output.add(held[:place])
                line = held[place + len(needle) :].partition(b"\n")[0]
                return output, line.decode("utf-8", "replace")
            if place < 0 and len(held) > len(needle):
                output.add(held[: -len(needle)])
                held = held[-len(needle) :]
            if time.monotonic() >= deadline:
                if struck:
                    break
                self._kill(begun - self._boot, self._shell_pid)
                struck, deadline = True, time.monotonic() + STRIKE_S
        output.add(held)
        return output, None

    def _kill(self, since_s: float, top: str) -> None:
        argv = ["bash", "-c", KILLER, "killer", str(int(since_s * 100) - 5), top]
        stream = ExecStream(self._api, self._id, argv, user="0")
        end = time.monotonic() + 30.0
        while not stream.ended and time.monotonic() < end:
            stream.read(POLL_S)
        stream.close()

    def _drop_shell(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _put(self, place: str, archive: bytes) -> None:
        import docker.errors
        import requests

        try:
            self._api.put_archive(self._id, place, archive)
        except docker.errors.APIError as error:
            raise SandboxFileError(f"files could not be written: {error.explanation}") from error
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise SandboxLost(f"{self._id}: {error}") from error

    def _result(
        self, output: Output, code: int, timed_out: bool, begun: float, note: str
    ) -> ExecResult:
        data, head = output.result()
        return ExecResult(
            output=decode(data, head, output.total),
            exit_code=code,
            timed_out=timed_out,
            truncated=output.total > len(data),
            output_bytes=output.total,
            duration_s=time.monotonic() - begun,
            note=note,
        )


def _as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry if entry.isreg() or entry.isdir() or entry.issym() else None
