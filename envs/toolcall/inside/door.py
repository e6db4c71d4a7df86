"""Requests in, replies out, for a program inside a sandbox that is asked by way of the shell.

Two pipes with names and a file lie in a folder: ``in`` takes a line of JSON, the reply is written
to ``out``, and its number then comes out of ``done``. Both pipes are held open for reading and
writing, so that nobody waits for somebody to open the other end. A shell needs builtins only to
ask, and reads a file faster than a pipe.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Callable

MAX_REQUEST_BYTES = 4 << 20

Row = dict[str, Any]


class Door:
    """One folder. Requests are answered one after the other."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.requests = os.open(f"{folder}/in", os.O_RDWR)
        self.done = os.open(f"{folder}/done", os.O_RDWR)
        self.left = b""

    def serve(self, answer: Callable[[Row], Row]) -> None:
        """Answer for ever. What ``answer`` raises ends the program."""
        os.write(self.done, b"0\n")  # both pipes have a reader from now on
        while True:
            line = self.take_line()
            try:
                request = json.loads(line)
                number = int(request["number"])
            except (ValueError, TypeError, KeyError):
                continue  # not from our owner
            self.reply(number, answer(request))

    def take_line(self) -> bytes:
        while b"\n" not in self.left:
            self.left += os.read(self.requests, 1 << 16)
            if len(self.left) > MAX_REQUEST_BYTES:
                self.left = b""
        line, _, self.left = self.left.partition(b"\n")
        return line

    def reply(self, number: int, row: Row) -> None:
        with open(f"{self.folder}/out.new", "wb") as file:
            file.write(json.dumps({**row, "number": number}).encode("ascii"))
        os.replace(f"{self.folder}/out.new", f"{self.folder}/out")
        os.write(self.done, b"%d\n" % number)


class Kept:
    """Head and tail of what was written, in bounded memory."""

    def __init__(self, limit: int) -> None:
        self.half = max(1, limit // 2)
        self.head, self.tail, self.total = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self.half - len(self.head)
        self.head += data[: max(0, room)]
        self.tail = (self.tail + data[max(0, room) :])[-self.half :]

    def text(self) -> str:
        left_out = self.total - len(self.head) - len(self.tail)
        middle = b"\n[... %d bytes cut ...]\n" % left_out if left_out else b""
        return (bytes(self.head) + middle + bytes(self.tail)).decode("utf-8", "backslashreplace")


def start() -> tuple[Door, Row]:
    """Leave the shell's session; return the door and what the command line configures."""
    if os.getpid() != os.getsid(0):
        os.setsid()
    sys.path.remove(sys.argv[1])
    return Door(sys.argv[1]), json.loads(sys.argv[2])
