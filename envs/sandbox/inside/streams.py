"""Pipes of the in-container server: bounded output, and reads and writes that never wait."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

CHUNK = 1 << 16


class Output:
    """Head and tail of a stream in bounded memory."""

    def __init__(self, limit: int) -> None:
        self.head_limit = limit // 2
        self.tail_limit = limit - self.head_limit
        self.head, self.tail = bytearray(), bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self.head_limit - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data[-self.tail_limit :] if self.tail_limit else b""
        if len(self.tail) > 2 * self.tail_limit + CHUNK:
            del self.tail[: len(self.tail) - self.tail_limit]

    def result(self) -> tuple[bytes, int]:
        """Return the bytes kept and the length of their head."""
        tail = self.tail[-self.tail_limit :] if self.tail_limit else b""
        return bytes(self.head + tail), len(self.head)


def available(fd: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0])


def feed(fd: int, data: memoryview) -> memoryview:
    """Write what the pipe takes; returns what is left, nothing when the reader has gone."""
    try:
        return data[os.write(fd, data[:CHUNK]) :]
    except BlockingIOError:
        return data
    except OSError:
        return data[:0]


def drain(fd: int, output: Output) -> None:
    """Take what lies in the pipe now and no more: a background writer may never stop."""
    left = available(fd) if fd >= 0 else 0
    while left > 0:
        data = os.read(fd, min(left, CHUNK))
        if not data:
            return
        output.add(data)
        left -= len(data)
