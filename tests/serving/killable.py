"""Starts servers that may be killed: ``python -m tests.serving.killable FOLDER``.

For each line of its input it forks a process that serves a scripted engine and prints its process
id and base URL; what is slow to import is imported once. The disk of these servers is slow, so that
a reply that does not wait for it is acknowledged long before it is written.
"""

import os
import sys
import threading
import time
from pathlib import Path

from serving import server
from serving.journal import Journal
from serving.models import resolve
from serving.renderer import Renderer
from serving.server import PolicyServer, ServerOptions

from .scripted import ScriptedEngine

COMMIT_S = 0.05


class SlowJournal(Journal):
    """Every commit takes a while."""

    def _write(self, writes: list[object]) -> None:  # type: ignore[override]
        if writes:
            time.sleep(COMMIT_S)
        super()._write(writes)  # type: ignore[arg-type]


def serve(renderer: Renderer, folder: Path) -> None:
    """Serve until killed."""
    vars(server)["Journal"] = SlowJournal
    options = ServerOptions(sessions=folder, durable=True)
    engine = ScriptedEngine(renderer, "a reply of several tokens")
    with PolicyServer(engine, renderer, api_key="secret", options=options) as started:
        print(os.getpid(), started.base_url, flush=True)
        threading.Event().wait()


def main(folder: Path) -> None:
    """Fork a server per line of input."""
    renderer = Renderer(resolve("tiny"))
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            serve(renderer, folder)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
