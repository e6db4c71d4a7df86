"""A port of this machine's loopback that leads to a port inside a sandbox without network.

The engine starts ``socat`` in the container and its exec socket carries the bytes: no network, no
shared folder, and the same with an engine on another machine. The port takes a single connection.
"""

import select
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from envs.errors import SandboxLost
from envs.sandbox.engine import connect
from envs.sandbox.streams import ExecStream

if TYPE_CHECKING:
    from docker import APIClient

CHUNK = 1 << 16
CONNECT_S = 60.0


class Tunnel:
    """Open until either side closes, or ``close``.

    Args:
        container: name of the sandbox.
        port: inside.

    Raises:
        SandboxLost: container or engine is gone.
    """

    def __init__(self, container: str, port: int) -> None:
        self._api: APIClient = connect()
        self._client: socket.socket | None = None
        try:
            self._stream = ExecStream(
                self._api, container, ["socat", "-", f"TCP:127.0.0.1:{port}"], user="1000",
                stdin=True,
            )  # fmt: skip
        except BaseException:
            self._api.close()
            raise
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(CONNECT_S)
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._serve, name="clawgym-tunnel", daemon=True).start()

    def close(self) -> None:
        """Close both ends. Idempotent; never raises."""
        for end in (self._server, self._client):
            if end is not None:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                with suppress(OSError):
                    end.close()
        self._stream.close()
        self._api.close()

    def _serve(self) -> None:
        try:
            self._client, _ = self._server.accept()
            self._server.close()
            threading.Thread(target=self._up, name="clawgym-tunnel-up", daemon=True).start()
            while not self._stream.ended:
                if data := self._stream.read(3600.0):
                    self._client.sendall(data)
        except OSError:
            pass  # one side is gone: so is the tunnel
        self.close()

    def _up(self) -> None:
        assert self._client is not None
        with suppress(OSError, ValueError, SandboxLost):
            while True:
                select.select([self._client], [], [])
                data = self._client.recv(CHUNK)
                if not data:
                    break
                self._stream.send(data)
        self.close()
