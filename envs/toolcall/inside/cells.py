"""A Python interpreter that keeps its state from cell to cell, also when a cell must be killed.

Before each cell the interpreter forks: the child runs the cell and, when it comes to its end, is
the interpreter from then on; the parent goes away. A child that dies (killed, out of memory, a
crash in C) leaves the parent, with the state of before the cell. A cell that takes too long is
interrupted first, which keeps what it did, and killed when it will not stop.

Left out: threads that go on after their cell (the next fork leaves them behind).
"""

from __future__ import annotations

import ast
import io
import json
import linecache
import os
import resource
import select
import signal
import sys
import time
import traceback
from typing import Any

from .door import Door, Kept, Row, start

STRIKES_S = (0.5, 0.5, 0.5)
DEATH_S = 5.0
MAX_WRITTEN_BYTES = 32 << 20
CHUNK = 1 << 16
NAME = "<cell>"


class Cells:
    """The side of the door: hands cells over, watches time and output."""

    def __init__(self, config: Row) -> None:
        self.config = config
        self.state = "kept"
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        self.spawn()

    def spawn(self) -> None:
        request_r, self.request = os.pipe()
        self.reply, reply_w = os.pipe()
        self.output, output_w = os.pipe()
        if os.fork() == 0:
            for fd in (self.request, self.reply, self.output):
                os.close(fd)
            try:
                interpret(request_r, reply_w, output_w, self.config)
            finally:
                os._exit(0)
        for fd in (request_r, reply_w, output_w):
            os.close(fd)

    def answer(self, request: Row) -> Row:
        self.kept, self.pid, self.lines = Kept(request["output_bytes"]), 0, b""
        try:
            os.write(self.request, json.dumps({"code": request["code"]}).encode() + b"\n")
            row = self.watch(request["timeout_s"])
        except OSError:
            row = None
        if row is None:  # everything is dead
            for fd in (self.request, self.reply, self.output):
                os.close(fd)
            self.spawn()
            row = {"status": "killed", "state": "lost"}
        self.drain()
        return {**row, "output": self.kept.text(), "written": self.kept.total}

    def watch(self, timeout_s: float) -> Row | None:
        """Return how the cell ended; None when no interpreter is left."""
        begun = time.monotonic()
        deadline, strikes, why = begun + timeout_s, 0, ""
        while True:
            late = time.monotonic() >= deadline or self.kept.total > MAX_WRITTEN_BYTES
            if late and strikes > len(STRIKES_S):
                return None
            if late:
                why = why or ("timed_out" if self.kept.total <= MAX_WRITTEN_BYTES else "flooded")
                self.strike(strikes)
                deadline = time.monotonic() + (*STRIKES_S, DEATH_S)[strikes]
                strikes += 1
                self.kept.total = min(self.kept.total, MAX_WRITTEN_BYTES)
            row = self.move(deadline - time.monotonic())
            if row == {}:
                return None
            if row is not None and "status" in row:
                if why and row["status"] != "ok":
                    row["status"] = why
                return {"state": "kept", **row, "wall_s": time.monotonic() - begun}

    def move(self, timeout_s: float) -> Row | None:
        """Wait for output or a message: a message is returned, {} means that all are dead."""
        ready, _, _ = select.select([self.reply, self.output], [], [], max(0.0, timeout_s))
        if self.output in ready:
            self.kept.add(os.read(self.output, CHUNK))
        if self.reply not in ready:
            return None
        data = os.read(self.reply, CHUNK)
        if not data:
            return {}
        self.lines += data
        *whole, self.lines = self.lines.split(b"\n")
        for line in whole:
            try:
                row = json.loads(line)
                self.pid = int(row.get("pid", self.pid))
            except (ValueError, TypeError, AttributeError):
                continue  # a cell found the descriptor
            if "status" in row:
                return {str(key): value for key, value in row.items()}
        return None

    def strike(self, strikes: int) -> None:
        if self.pid > 1:
            number = signal.SIGINT if strikes < len(STRIKES_S) else signal.SIGKILL
            try:
                os.killpg(self.pid, number)
            except OSError:
                pass

    def drain(self) -> None:
        """Take what lies in the pipe; something left in the background may write for ever."""
        for _ in range(16):
            if not select.select([self.output], [], [], 0)[0]:
                return
            data = os.read(self.output, CHUNK)
            if not data:
                return
            self.kept.add(data)


# ------------------------------------------------------------- the interpreter


def interpret(request: int, reply: int, output: int, config: Row) -> None:
    """Run cells until the other side is gone."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    null = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    for stream, fd in (("stdout", 1), ("stderr", 2)):
        raw = io.TextIOWrapper(
            os.fdopen(fd, "wb", 0, closefd=False), "utf-8", "backslashreplace", write_through=True
        )
        setattr(sys, stream, raw)
    memory = int(config["memory_bytes"])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path[0], sys.argv = os.getcwd(), [""]
    space: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    number, before = 0, signal.getsignal(signal.SIGINT)
    while line := read_line(request):
        number += 1
        own, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(own)
            run_cell(json.loads(line)["code"], space, reply, number)
            os.write(theirs, b"1")
            os.close(theirs)
            signal.signal(signal.SIGINT, before)
            continue
        os.close(theirs)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        died = wait_for(pid, own)
        os.close(own)
        signal.signal(signal.SIGINT, before)
        if not died:
            os._exit(0)
        tell(reply, {"status": "killed", "state": "before", "why": died})


def run_cell(code: str, space: dict[str, Any], reply: int, number: int) -> None:
    """Run a cell in this process, a child made for it, and tell how it ended."""
    os.setpgid(0, 0)
    me, begun, status = os.getpid(), time.process_time(), "error"
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tell(reply, {"pid": me})
    try:
        execute(code, space, number)
        status = "ok"
    except KeyboardInterrupt:
        status = "interrupted"
    except BaseException as error:
        try:
            show(error)
        except BaseException:
            print("the error cannot be shown")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getpid() != me:  # a process that the cell forked came to the cell's end
        os._exit(0)
    try:
        sys.stdout.flush()
    except BaseException:
        pass
    tell(reply, {"status": status, "cpu_s": time.process_time() - begun})


def execute(code: str, space: dict[str, Any], number: int) -> None:
    """Execute a cell; the value of an expression at its end is shown."""
    linecache.cache[NAME] = (len(code), None, code.splitlines(True), NAME)
    tree = ast.parse(code, NAME)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, NAME, "exec"), space)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), NAME, "eval"), space)
        if value is not None:
            print(repr(value))


def show(error: BaseException) -> None:
    """Print an error with the cell's own lines."""
    place = error.__traceback__
    while place is not None and place.tb_frame.f_code.co_filename != NAME:
        place = place.tb_next
    lines = traceback.format_exception(type(error), error, place, limit=5, chain=False)
    print("".join(lines[-8:]).rstrip()[-4000:])


def wait_for(pid: int, fd: int) -> str:
    """Wait until the child is the interpreter; return "" then, else how it died."""
    while True:
        if select.select([fd], [], [], 0.02)[0] and os.read(fd, 1):
            return ""
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            if select.select([fd], [], [], 0)[0] and os.read(fd, 1):
                return ""
            if os.WIFSIGNALED(status):
                return f"signal {os.WTERMSIG(status)}"
            return f"exit code {os.WEXITSTATUS(status)}"


def read_line(fd: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(fd, CHUNK)
        if not data:
            return b""
        line += data
    return line


def tell(fd: int, row: Row) -> None:
    os.write(fd, json.dumps(row).encode() + b"\n")


def main() -> None:
    door, config = start()
    Door.serve(door, Cells(config).answer)


if __name__ == "__main__":
    main()
