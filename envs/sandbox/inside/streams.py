"""Pipes of the in-container server: bounded output, and reads and writes that never wait."""

from __future__ import annotations

import fcntl
import os
import select
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


def drain(fd: int, output: Output) -> None:
    """Take what lies in the pipe now and no more: a background writer may never stop."""
    left = available(fd) if fd >= 0 else 0
    while left > 0:
        data = os.read(fd, min(left, CHUNK))
        if not data:
            return
        output.add(data)
        left -= len(data)


def close(*fds: int) -> None:
    """Close descriptors; -1 stands for none."""
    for fd in fds:
        if fd >= 0:
            os.close(fd)


class Pipes:
    """A program's standard input and output, moved without ever waiting for either."""

    def __init__(self, stdin: int, stdout: int, data: bytes, output: Output) -> None:
        self.stdin, self.stdout, self.output = stdin, stdout, output
        self.left = memoryview(data)
        if stdin >= 0:
            os.set_blocking(stdin, False)

    def wanted(self) -> dict[int, int]:
        """Return what to poll for."""
        wanted = {self.stdout: select.POLLIN, self.stdin: select.POLLOUT}
        return {fd: events for fd, events in wanted.items() if fd >= 0}

    def move(self, ready: dict[int, int]) -> None:
        """Move what the poll found ready; closes an end that is done."""
        if self.stdin in ready:
            try:
                self.left = self.left[os.write(self.stdin, self.left[:CHUNK]) :]
            except BlockingIOError:
                pass
            except OSError:  # nobody reads any more
                self.left = self.left[:0]
            if not self.left:
                os.close(self.stdin)
                self.stdin = -1
        if self.stdout in ready:
            data = os.read(self.stdout, CHUNK)
            self.output.add(data)
            if not data:
                os.close(self.stdout)
                self.stdout = -1

    def close(self) -> None:
        """Take what is still in the output pipe and close both ends."""
        drain(self.stdout, self.output)
        close(self.stdin, self.stdout)
