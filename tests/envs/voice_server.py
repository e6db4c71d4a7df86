"""A server that plays the model behind a user's voice."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    """Answers every request with ``answer`` after ``wait_s`` and keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.wait_s, self.drip = 200, 0.0, False
        self.answer: bytes = message("Please, no bold.")
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        server = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.asked.append({"path": self.path, **json.loads(body)})
        server.keys.append(self.headers.get("Authorization", ""))
        time.sleep(server.wait_s)
        try:
            self.send_response(server.status)
            self.send_header("Content-Length", str(len(server.answer)))
            self.end_headers()
            for byte in server.answer if server.drip else ():
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(0.05)
            if not server.drip:
                self.wfile.write(server.answer)
        except OSError:
            pass  # the client gave up, as it should

    def log_message(self, format: str, *args: Any) -> None: ...


def message(text: Any) -> bytes:
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


@contextmanager
def answering() -> Iterator[Server]:
    """A server that answers until the end."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
