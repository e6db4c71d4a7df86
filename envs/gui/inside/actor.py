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

from PIL import Image

from .access import Tree
from .display import Display, DisplayGone
from .hands import Hands

READY_S = 25.0
PATIENCE_S = 0.7
OTHER_NAME_S = 4.0
POLL_S = 0.02
NUM_EQUAL = 3
TREE_POLL_S = 0.05


class Actor:
    """The desktop and everything that sees and moves it."""

    def __init__(self, folder: str, width: int, height: int) -> None:
        self.folder = folder
        self.display = Display(width, height)
        self.hands = Hands(self.display.name)
        self.hands.await_manager(READY_S)
        self.tree = Tree(width, height)

    def do_launch(self, request: dict[str, Any]) -> dict[str, Any]:
        """Start an application and wait until it shows a window in the tree."""
        new: list[str] = []
        before = {node["id"] for node in self.tree.read() if node["depth"] == 0}
        self.display.launch(request["argv"], request["cwd"], request.get("said", ""))
        begun = time.monotonic()
        ask_again = begun + PATIENCE_S
        while (now := time.monotonic()) < begun + READY_S:
            roots = [node for node in self.tree.read() if node["depth"] == 0]
            new = [node["name"] for node in roots if node["id"] not in before]
            active = self.display.window()
            # some programs call their window otherwise than the window manager does
            if new and (active in new or (active and now > begun + OTHER_NAME_S)):
                self.settle(3.0)  # the window manager may still be placing it
                return {}
            if new and now > ask_again:
                self.display.show(new[0])
                ask_again = now + PATIENCE_S
            time.sleep(TREE_POLL_S)
        seen = f"accessible windows: {new}, active: {self.display.window()!r}"
        return {"error": f"no window within {READY_S:.0f} s ({seen}, exit codes of "
                         f"programs: {self.display.ended()})"}  # fmt: skip

    def do_step(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do events, wait until nothing moves, and say what is to be seen."""
        self.hands.do(request["events"])
        settled, tree, picture = self.settle(request["settle_s"])
        answer: dict[str, Any] = {
            "settled": settled,
            "ended": self.display.ended(),
            "window": self.display.window(),
            "pointer": self.display.pointer(),
        }
        if "tree" in request["see"]:
            answer["tree"] = tree
        if "screenshot" in request["see"]:
            path = f"{self.folder}/screen.png"
            picture.convert("RGB").save(path, compress_level=1)
            answer["screenshot"] = path
        return answer

    def settle(self, limit_s: float) -> tuple[bool, list[dict[str, Any]], Image.Image]:
        """Wait until screen and tree stay the same over polls. Reading the tree asks every
        application, so one that is still busy with its events delays the poll, not the result."""
        end, last, equal = time.monotonic() + limit_s, None, 0
        while True:
            tree, picture = self.tree.read(), self.display.grab()
            seen = (tree, picture.tobytes())
            equal = equal + 1 if seen == last else 1
            if equal >= NUM_EQUAL or time.monotonic() >= end:
                return equal >= NUM_EQUAL, tree, picture
            last = seen
            time.sleep(POLL_S)

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
