"""One program in a container, started by the engine: its input and output over an exec socket."""

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from envs.errors import SandboxLost

if TYPE_CHECKING:
    from docker import APIClient


class ExecStream:
    """A running program. Not thread-safe.

    Args:
        user: name or number; "" is the image's.

    Raises:
        SandboxLost: the container or the engine is gone.
    """

    def __init__(
        self,
        api: "APIClient",
        container: str,
        argv: Sequence[str],
        *,
        user: str = "",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bool = False,
    ) -> None:
        import docker.errors
        import requests

        self._api = api
        self._pending = bytearray()
        self.ended = False
        try:
            made = api.exec_create(
                container, list(argv), stdin=stdin, user=user, workdir=cwd,
                environment=dict(env or {}),
            )  # fmt: skip
            self._exec = made["Id"]
            response: Any = api.exec_start(self._exec, socket=True)
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise SandboxLost(f"{container}: no program could be started: {error}") from error
        self._response = response  # keeps the HTTP response, and so the socket, alive
        self._sock: socket.socket = getattr(response, "_sock", response)

    def send(self, data: bytes, *, end: bool = False) -> None:
        """Give the program input; ``end`` closes it. Raises ``SandboxLost``."""
        try:
            self._sock.settimeout(60.0)
            self._sock.sendall(data)
            if end:
                self._sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise SandboxLost(f"the program takes no input: {error}") from error

    def read(self, timeout_s: float) -> bytes:
        """Return what the program wrote, standard output and error as they came; ``b""`` when there
        was nothing in time. ``ended`` tells whether nothing will come any more."""
        deadline = time.monotonic() + timeout_s
        while not self.ended:
            if len(self._pending) >= 8:
                size = struct.unpack("!BxxxI", self._pending[:8])[1]
                if len(self._pending) >= 8 + size:
                    data = bytes(self._pending[8 : 8 + size])
                    del self._pending[: 8 + size]
                    return data
            left = deadline - time.monotonic()
            if left <= 0:
                return b""
            try:
                self._sock.settimeout(left)
                chunk = self._sock.recv(1 << 16)
            except TimeoutError:
                return b""
            except OSError:
                chunk = b""
            self.ended = not chunk
            self._pending += chunk
        return b""

    def running(self) -> bool:
        """Ask the engine. Raises ``SandboxLost``."""
        return bool(self._inspect()["Running"])

    def exit_code(self) -> int:
        """Return the exit code of a program that has ended. Raises ``SandboxLost``."""
        return int(self._inspect()["ExitCode"] or 0)

    def close(self) -> None:
        """Let go of the socket; the program is not ended by that. Idempotent."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            self._sock.close()

    def _inspect(self) -> dict[str, int | bool | None]:
        import docker.errors
        import requests

        try:
            found: dict[str, int | bool | None] = self._api.exec_inspect(self._exec)
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise SandboxLost(f"the engine knows nothing of the program: {error}") from error
        return found
