"""An X server without a screen, its session bus and its window manager, as the agent's user."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from typing import Any

from PIL import Image, ImageGrab

QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
GTK_SETTINGS = """[Settings]
gtk-cursor-blink=false
gtk-enable-animations=false
gtk-theme-name=Adwaita
gtk-recent-files-enabled=false
"""


class DisplayGone(Exception):
    """The X server ended."""


class Display:
    """A running desktop. ``start`` sets the environment of everything launched afterwards."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.apps: list[subprocess.Popen[bytes]] = []
        self.name = self.start_server()
        os.environ["DISPLAY"] = self.name
        self.start_session()

    def start_server(self) -> str:
        """Start Xvfb and return the display that it chose."""
        reader, writer = os.pipe()
        screen = f"{self.width}x{self.height}x24"
        argv = ["Xvfb", "-displayfd", str(writer), "-screen", "0", screen, "-nolisten", "tcp",
                "-noreset", "-ac", "-dpi", "96"]  # fmt: skip
        self.server = subprocess.Popen(argv, pass_fds=(writer,), **QUIET)  # type: ignore[call-overload]
        os.close(writer)
        number = b""
        while not number.endswith(b"\n"):
            chunk = os.read(reader, 16)
            if not chunk:
                raise DisplayGone("the X server did not start")
            number += chunk
        os.close(reader)
        return f":{int(number)}"

    def start_session(self) -> None:
        """Start bus and window manager; write the settings that make pictures repeatable."""
        home = os.environ["HOME"]
        os.makedirs(f"{home}/.config/gtk-3.0", exist_ok=True)
        with open(f"{home}/.config/gtk-3.0/settings.ini", "w") as file:
            file.write(GTK_SETTINGS)
        os.makedirs("/tmp/runtime", mode=0o700, exist_ok=True)
        os.environ.update(XDG_RUNTIME_DIR="/tmp/runtime", GTK_THEME="Adwaita", GIO_USE_VFS="local",
                          GSETTINGS_BACKEND="memory", NO_AT_BRIDGE="0",
                          ACCESSIBILITY_ENABLED="1")  # fmt: skip
        bus = subprocess.run(
            ["dbus-daemon", "--session", "--fork", "--print-address=1"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
            timeout=10, check=True,
        )  # fmt: skip
        os.environ["DBUS_SESSION_BUS_ADDRESS"] = bus.stdout.decode().strip()
        self.manager = subprocess.Popen(["openbox", "--sm-disable"], **QUIET)  # type: ignore[call-overload]

    def launch(self, argv: list[str], cwd: str, said: str = "") -> None:
        """Start an application; ``said`` is its whole standard input."""
        pipes = {**QUIET, "stdin": subprocess.PIPE}
        app = subprocess.Popen(argv, cwd=cwd, start_new_session=True, **pipes)  # type: ignore[call-overload]
        self.apps.append(app)
        with contextlib.suppress(OSError):  # it may have ended, which is told elsewhere
            app.stdin.write(said.encode())
            app.stdin.close()

    def ended(self) -> list[int]:
        """Return the exit codes of applications that ended since the last call."""
        codes = [app.poll() for app in self.apps]
        self.apps = [app for app, code in zip(self.apps, codes, strict=True) if code is None]
        return [code for code in codes if code is not None]

    def grab(self) -> Image.Image:
        """Return the screen. Raises ``DisplayGone``."""
        if self.server.poll() is not None:
            raise DisplayGone("the X server ended")
        try:
            return ImageGrab.grab(xdisplay=self.name)
        except OSError as error:
            raise DisplayGone(f"the screen cannot be read: {error}") from error

    def window(self) -> str:
        """Return the title of the active window, "" without one."""
        done = self._xdotool("getactivewindow", "getwindowname")
        return done.strip()

    def show(self, title: str) -> None:
        """Have the manager show the windows of a title, in front.

        Now and then it misses the request to show a new window, which then stays hidden although
        its program believes it to be there; asked again it does.
        """
        for window in self._xdotool("search", "--name", f"^{re.escape(title)}$").split():
            self._xdotool("windowmap", window)
            self._xdotool("windowactivate", window)

    def pointer(self) -> list[int]:
        """Return where the pointer is."""
        rows: dict[str, Any] = dict(
            row.split("=") for row in self._xdotool("getmouselocation", "--shell").split()
        )
        return [int(rows.get("X", 0)), int(rows.get("Y", 0))]

    def _xdotool(self, *argv: str) -> str:
        done = subprocess.run(["xdotool", *argv], stdout=subprocess.PIPE, text=True, check=False,
                              stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                              timeout=5)  # fmt: skip
        return done.stdout
