"""Frames between a sandbox's owner and the server inside, over the engine's attach socket.

The engine multiplexes the container's standard output and error into that socket: blocks of
``!BxxxI`` stream and length, then bytes. Output carries the server's frames (``!II`` header and
body length, JSON, bytes); the end of error is kept as the first cause for a lost server.
"""

import json
import socket
import struct
import time
from contextlib import suppress
from typing import Any

ERROR_STREAM = 2
KEPT_STDERR = 4096


class WireError(Exception):
    """The other end is gone, silent or talks nonsense. Says which."""


class Wire:
    """One attach socket. Not thread-safe: one call at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = bytearray()
        self._stderr = bytearray()

    def call(
        self, request: dict[str, Any], body: bytes, timeout_s: float
    ) -> tuple[dict[str, Any], bytes]:
        """Send a request and return the reply.

        Raises:
            WireError: no whole reply within ``timeout_s``.
        """
        deadline = time.monotonic() + timeout_s
        header = json.dumps(request).encode()
        try:
            self._sock.settimeout(timeout_s)
            self._sock.sendall(struct.pack("!II", len(header), len(body)) + header + body)
            header_length, body_length = struct.unpack("!II", self._take(8, deadline))
            reply = json.loads(self._take(header_length, deadline))
            return reply, self._take(body_length, deadline)
        except TimeoutError:
            raise WireError(f"no reply to {request['op']!r} in {timeout_s:.0f} s") from None
        except (OSError, ValueError) as error:
            raise WireError(f"{request['op']!r}: {error}{self.last_words()}") from error

    def last_words(self) -> str:
        """Return what the server wrote to its standard error last, or nothing."""
        text = self._stderr.decode("utf-8", "replace").strip()
        return f"; the server said: {text}" if text else ""

    def close(self) -> None:
        """Close the socket, which ends the server and any call under way. Idempotent."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _take(self, length: int, deadline: float) -> bytes:
        while len(self._buffer) < length:
            stream, size = struct.unpack("!BxxxI", self._receive(8, deadline))
            data = self._receive(size, deadline)
            if stream == ERROR_STREAM:
                self._stderr = (self._stderr + data)[-KEPT_STDERR:]
            else:
                self._buffer += data
        data = bytes(self._buffer[:length])
        del self._buffer[:length]
        return data

    def _receive(self, length: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < length:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._sock.settimeout(left)
            chunk = self._sock.recv(min(length - len(data), 1 << 20))
            if not chunk:
                raise OSError("the connection to the container has closed")
            data += chunk
        return bytes(data)
