"""Speaks MCP to a server in the same sandbox, over its standard streams or over HTTP.

A request of the owner is one call of JSON-RPC; the answer says what became of it: ``ok``,
``refused`` (the server's own error), ``timed_out``, ``died``, ``flooded``, ``nonsense``. The server
is a child here; whatever it writes is read in bounded memory, what is no message is thrown away and
counted. A request of the server's gets an answer: pings are answered, all else is not supported.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import subprocess
import time
import urllib.parse
from typing import Any

from .door import Door, Kept, Row, start

MAX_LINE_BYTES = 1 << 20
MAX_NOISE_BYTES = 4 << 20
PONG_S = 1.0
CHUNK = 1 << 16


class Failed(Exception):
    """No result. The first argument names why, the second says more."""


class Stdio:
    """A server on pipes, a message a line."""

    def __init__(self, config: Row) -> None:
        self.config = config
        self.child: subprocess.Popen[bytes] | None = None
        self.number = 0

    def start(self) -> None:
        self.stop()
        self.left, self.noise, self.errors = b"", 0, Kept(4096)
        try:
            self.child = subprocess.Popen(
                self.config["argv"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.config.get("cwd") or None,
                env={**os.environ, **self.config.get("env", {})},
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise Failed("died", f"it cannot be started: {error}") from error

    def stop(self) -> None:
        if self.child is None:
            return
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except OSError:
            pass
        self.child.wait()
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr):
            if stream is not None:
                stream.close()
        self.child = None

    def send(self, row: Row, deadline: float) -> None:
        if self.child is None or self.child.stdin is None:
            raise Failed("died", "the server is not running")
        fd = self.child.stdin.fileno()
        os.set_blocking(fd, False)
        data = json.dumps(row).encode() + b"\n"
        while data:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Failed("timed_out", "it does not read what it is sent")
            if not select.select([], [fd], [], left)[1]:
                continue
            try:
                data = data[os.write(fd, data) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise self.dead() from error

    def ask(self, method: str, params: Row, timeout_s: float) -> Any:
        self.number += 1
        deadline = time.monotonic() + timeout_s
        self.noise = 0
        row = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.send(row, deadline)
        return self.wait_for(self.number, deadline)

    def notify(self, method: str, params: Row) -> None:
        row = {"jsonrpc": "2.0", "method": method, "params": params}
        self.send(row, time.monotonic() + PONG_S)

    def wait_for(self, number: int, deadline: float) -> Any:
        while True:
            for row in self.messages(deadline):
                if row.get("id") == number and "method" not in row:
                    return result_of(row)
                if "method" in row and "id" in row:
                    self.send(reply_to(row), deadline)

    def messages(self, deadline: float) -> list[Row]:
        """Wait for output and return the messages in it."""
        assert self.child is not None and self.child.stdout is not None
        assert self.child.stderr is not None
        streams = [self.child.stdout, self.child.stderr]
        left = deadline - time.monotonic()
        if left <= 0:
            raise Failed("timed_out", "no answer")
        ready = select.select(streams, [], [], left)[0]
        if self.child.stderr in ready:
            data = os.read(self.child.stderr.fileno(), CHUNK)
            self.errors.add(data)
            if not data:
                os.dup2(os.open("/dev/null", os.O_RDWR), self.child.stderr.fileno())
                time.sleep(0.002)
        if self.child.stdout not in ready:
            return []
        data = os.read(self.child.stdout.fileno(), CHUNK)
        if not data:
            raise self.dead()
        *whole, self.left = (self.left + data).split(b"\n")
        if len(self.left) > MAX_LINE_BYTES:
            raise Failed("flooded", f"a line of more than {MAX_LINE_BYTES} bytes")
        return [row for row in map(self.read, whole) if row is not None]

    def read(self, line: bytes) -> Row | None:
        try:
            row = json.loads(line) if len(line) <= MAX_LINE_BYTES else None
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict) and row.get("jsonrpc") == "2.0":
            if "id" in row:
                return row
        elif line.strip():
            self.noise += len(line)
        self.noise += 64  # a flood of notifications is one too
        if self.noise > MAX_NOISE_BYTES:
            raise Failed("flooded", f"{self.noise} bytes that are no answer")
        return None

    def dead(self) -> Failed:
        child = self.child
        assert child is not None and child.stderr is not None
        try:
            child.wait(0.5)
        except subprocess.TimeoutExpired:
            pass
        while select.select([child.stderr], [], [], 0)[0]:
            data = os.read(child.stderr.fileno(), CHUNK)
            if not data or self.errors.total > MAX_LINE_BYTES:
                break
            self.errors.add(data)
        words = self.errors.text().strip()[-600:]
        code = child.returncode
        return Failed(
            "died", f"exit code {code}; it said: {words}" if words else f"exit code {code}"
        )

    def running(self) -> bool:
        return self.child is not None


class Http:
    """A server on a port of the sandbox (streamable HTTP), started here if there is a command."""

    def __init__(self, config: Row) -> None:
        self.config = config
        self.child: subprocess.Popen[bytes] | None = None
        self.number = 0
        self.url = urllib.parse.urlsplit(config["url"])

    def start(self) -> None:
        self.stop()
        self.session = self.version = ""
        if not self.config.get("argv"):
            return
        try:
            self.child = subprocess.Popen(
                self.config["argv"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self.config.get("cwd") or None,
                env={**os.environ, **self.config.get("env", {})},
                start_new_session=True,
            )
        except OSError as error:
            raise Failed("died", f"it cannot be started: {error}") from error
        deadline = time.monotonic() + self.config.get("start_s", 20.0)
        while time.monotonic() < deadline:
            if self.child.poll() is not None:
                raise Failed("died", f"exit code {self.child.returncode}")
            connection = http.client.HTTPConnection(self.url.netloc, timeout=1.0)
            try:
                connection.connect()
                return
            except OSError:
                time.sleep(0.05)
            finally:
                connection.close()
        raise Failed("timed_out", f"nothing listens at {self.url.netloc}")

    def stop(self) -> None:
        if self.child is not None:
            try:
                os.killpg(self.child.pid, signal.SIGKILL)
            except OSError:
                pass
            self.child.wait()
            self.child = None

    def ask(self, method: str, params: Row, timeout_s: float) -> Any:
        self.number += 1
        row = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        result = result_of(self.post(row, timeout_s))
        if method == "initialize" and isinstance(result, dict):
            self.version = str(result.get("protocolVersion", ""))
        return result

    def notify(self, method: str, params: Row) -> None:
        self.post({"jsonrpc": "2.0", "method": method, "params": params}, PONG_S)

    def post(self, row: Row, timeout_s: float) -> Row:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        if self.version:
            headers["MCP-Protocol-Version"] = self.version
        deadline = time.monotonic() + timeout_s
        connection = http.client.HTTPConnection(self.url.netloc, timeout=timeout_s)
        try:
            connection.request("POST", self.url.path or "/", json.dumps(row), headers)
            response = connection.getresponse()
            self.session = response.headers.get("Mcp-Session-Id", self.session)
            if response.status >= 300:
                words = response.read(300).decode("utf-8", "replace")
                raise Failed("refused", f"HTTP {response.status}: {words}")
            if "id" not in row:
                return {}
            return self.answer(response, row["id"], deadline)
        except TimeoutError as error:
            raise Failed("timed_out", "no answer") from error
        except (OSError, http.client.HTTPException) as error:
            raise Failed("died", f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()

    def answer(self, response: http.client.HTTPResponse, number: int, deadline: float) -> Row:
        total, data = 0, b""
        stream = "text/event-stream" in (response.headers.get("Content-Type") or "")
        while True:
            line = response.readline(CHUNK)
            total += len(line)
            if total > MAX_NOISE_BYTES:
                raise Failed("flooded", f"{total} bytes without an answer")
            if time.monotonic() > deadline:
                raise Failed("timed_out", "no answer")
            if stream and line.startswith(b"data:"):
                data += line[5:].strip()
            elif not stream:
                data += line
            if line and (not stream or line.strip()):
                continue
            row = message(data)
            if row is not None and row.get("id") == number and "method" not in row:
                return row
            data = b""
            if not line:
                raise Failed("nonsense", "the answer holds no message")

    def running(self) -> bool:
        return self.child is not None or not self.config.get("argv")


def message(data: bytes) -> Row | None:
    try:
        row = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def result_of(row: Row) -> Any:
    if isinstance(row.get("error"), dict):
        error = row["error"]
        raise Failed("refused", f"{error.get('message', '')} ({error.get('code', '')})"[:2000])
    if "result" not in row:
        raise Failed("nonsense", "an answer without a result")
    return row["result"]


def reply_to(row: Row) -> Row:
    head = {"jsonrpc": "2.0", "id": row["id"]}
    if row["method"] == "ping":
        return {**head, "result": {}}
    return {**head, "error": {"code": -32601, "message": "not supported by this client"}}


class Link:
    """The side of the door."""

    def __init__(self, config: Row) -> None:
        self.server = Http(config) if config.get("url") else Stdio(config)

    def answer(self, request: Row) -> Row:
        try:
            row = {"status": "ok", "result": self.act(request)}
        except Failed as failure:
            status, words = failure.args
            hung = status == "timed_out" and not self.lives(request)
            if hung or status in ("died", "flooded", "nonsense"):
                self.server.stop()
            row = {"status": status, "words": words}
        return {**row, "running": self.server.running()}

    def act(self, request: Row) -> Any:
        if request["op"] == "start":
            self.server.start()
            return {}
        if request["op"] == "notify":
            self.server.notify(request["method"], request["params"])
            return {}
        return self.server.ask(request["method"], request["params"], request["timeout_s"])

    def lives(self, request: Row) -> bool:
        """After a time-out: take the request back and see whether the server still answers."""
        if request["op"] != "ask" or request["method"] == "initialize":
            return False
        words = {"requestId": self.server.number, "reason": "timed out"}
        try:
            self.server.notify("notifications/cancelled", words)
            self.server.ask("ping", {}, PONG_S)
        except Failed as failure:
            return bool(failure.args[0] == "refused")
        return True


def main() -> None:
    door, config = start()
    Door.serve(door, Link(config).answer)


if __name__ == "__main__":
    main()
