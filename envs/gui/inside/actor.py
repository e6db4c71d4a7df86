"""Answers the environment's requests: one JSON object a connection, on a socket in a folder.

Requests: ``{"op": "launch", "argv", "cwd"}``, ``{"op": "step", "events", "settle_s", "see"}``
where ``see`` names ``tree`` and ``screenshot``, and ``{"op": "clipboard"}``. An answer with
``gone`` says that the X server ended.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

from .access import Tree
from .display import Display, DisplayGone
from .hands import Hands

READY_S = 15.0
TREE_POLL_S = 0.05


class Actor:
    """The desktop and everything that sees and moves it."""

    def __init__(self, folder: str, width: int, height: int) -> None:
        self.folder = folder
        self.display = Display(width, height)
        self.hands = Hands(self.display.name)
        self.tree = Tree(width, height)

    def do_launch(self, request: dict[str, Any]) -> dict[str, Any]:
        """Start an application and wait until it shows a window in the tree."""
        before = {node["id"] for node in self.tree.read() if node["depth"] == 0}
        self.display.launch(request["argv"], request["cwd"])
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            roots = {node["id"] for node in self.tree.read() if node["depth"] == 0}
            if roots - before:
                self.display.settle(2.0)
                return {}
            time.sleep(TREE_POLL_S)
        return {"error": f"{request['argv'][0]} showed no window within {READY_S:.0f} s"}

    def do_step(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do events, wait until nothing moves, and say what is to be seen."""
        self.hands.do(request["events"])
        settled = self.display.settle(request["settle_s"])
        answer: dict[str, Any] = {
            "settled": settled,
            "ended": self.display.ended(),
            "window": self.display.window(),
            "pointer": self.display.pointer(),
        }
        if "tree" in request["see"]:
            answer["tree"] = self.tree.read()
        if "screenshot" in request["see"]:
            path = f"{self.folder}/screen.png"
            self.display.grab().convert("RGB").save(path, compress_level=1)
            answer["screenshot"] = path
        return answer

    def do_clipboard(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the clipboard's text, "" when nobody owns it."""
        try:
            done = subprocess.run(["xclip", "-o", "-selection", "clipboard"], check=False,
                                  capture_output=True, timeout=2)  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"text": ""}
        return {"text": done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            result: dict[str, Any] = getattr(self, f"do_{request['op']}")(request)
        except DisplayGone as error:
            result = {"gone": str(error)}
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            gone = self.display.server.poll() is not None
            result = {"gone": what} if gone else {"error": what}
        return result


def main() -> None:
    folder, width, height = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    door = socket.socket(socket.AF_UNIX)
    actor = Actor(folder, width, height)
    door.bind(f"{folder}/door.new")
    door.listen(8)
    os.rename(f"{folder}/door.new", f"{folder}/door")
    while True:
        connection, _ = door.accept()
        with connection:
            data = b""
            while chunk := connection.recv(1 << 16):
                data += chunk
            if data:
                try:
                    connection.sendall(json.dumps(actor.answer(json.loads(data))).encode())
                except OSError:
                    continue  # nobody waits for it any more
