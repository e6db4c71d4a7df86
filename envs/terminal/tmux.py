"""An interactive terminal in a sandbox: keystrokes to a screen, and what is new on it.

A tmux session of the official size (160 by 40, 50,000 lines of scrollback) run by the agent's own
user through ``Sandbox.exec``. Editors, pagers, debuggers and prompts are operated as a person
would. The image must hold tmux.

What is new is told from the whole buffer, scrollback included: the lines behind the longest start
that it shares with the buffer of before, as long as that start holds all but the last screen;
otherwise the screen as it stands, as where a full-screen program has redrawn it.

Example:
    >>> with SandboxPool() as pool:  # doctest: +SKIP
    ...     terminal = Tmux(pool.acquire(SandboxSpec(image="terminal")))
    ...     terminal.start()
    ...     terminal.send("echo hi\\n", wait_s=0.5)
    'New Terminal Output:\\nhi\\nagent@…$'
"""

import json
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envs.errors import SetupError
from envs.sandbox.protocol import ExecResult, Sandbox

WIDTH, HEIGHT, SCROLLBACK = 160, 40, 50_000
CALL_TIMEOUT_S = 30.0
MOST_WAIT_S = 60.0
MOST_KEYS_AT_ONCE = 8_000
POLL_S = 0.1
_NAMED = re.compile(
    r"(?:(?:C-|M-|S-)+\S|F[1-9]|F1[0-2]|Enter|Escape|Tab|BTab|Space|BSpace|Up|Down|Left|Right"
    r"|Home|End|PageUp|PageDown|PPage|NPage|IC|DC)"
)
NEW, SCREEN = "New Terminal Output:", "Current Terminal Screen:"


class TerminalEnded(Exception):
    """The terminal is gone by what was done in it: the agent's doing, no failure of the world."""


@dataclass(frozen=True)
class Keystrokes:
    """One action on a terminal.

    Attributes:
        keys: typed as they are (a line feed is Enter), or one key by tmux's name, as in ``C-c``.
        duration_s: how long to wait for what they do, at most ``MOST_WAIT_S``.
    """

    keys: str
    duration_s: float = 1.0


def parse_keystrokes(action: str) -> list[Keystrokes] | None:
    """Return the keystrokes of an action, None when it is something else, as a shell command.

    Known are ``{"keystrokes": …, "duration": …}`` and a reply of the official agent, whose
    ``commands`` is a list of these.

    Raises:
        ValueError: it is of that form with a value that is none.

    Example:
        >>> parse_keystrokes('{"keystrokes": "ls\\\\n", "duration": 0.5}')
        [Keystrokes(keys='ls\\n', duration_s=0.5)]
    """
    if not action.lstrip().startswith("{"):
        return None
    try:
        given = json.loads(action)
    except ValueError:
        return None
    rows = given.get("commands") if "commands" in given else [given]
    if "keystrokes" not in given and "commands" not in given:
        return None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("commands: give a list of objects with keystrokes")
    return [_keystrokes(row) for row in rows]


def _keystrokes(row: dict[str, Any]) -> Keystrokes:
    keys, wait = row.get("keystrokes"), row.get("duration", 1.0)
    if not isinstance(keys, str):
        raise ValueError(f"keystrokes={keys!r:.60}: give text")
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait < float("inf"):
        raise ValueError(f"duration={wait!r:.60}: give seconds, 0 or more")
    return Keystrokes(keys, min(float(wait), MOST_WAIT_S))


class Tmux:
    """A terminal in a sandbox that belongs to somebody else.

    Args:
        sandbox: where it runs.
        cwd: where its shell starts; the sandbox's own by default.
    """

    def __init__(self, sandbox: Sandbox, cwd: str | None = None) -> None:
        self._sandbox = sandbox
        self._cwd = cwd
        self._socket = f"clawgym-{secrets.token_hex(6)}"
        self._seen: tuple[str, ...] = ()

    def start(self) -> None:
        """Start tmux with a shell in it.

        Raises:
            SetupError: the image holds no tmux, or it does not start.
            SandboxLost: the sandbox is gone.
        """
        size = ["-x", str(WIDTH), "-y", str(HEIGHT)]
        found = self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-s", "agent", *size, ";",
            "set-option", "-g", "history-limit", str(SCROLLBACK), ";",
            "set-option", "-g", "status", "off", ";", "new-window", "-d", "-t", "agent:1",
            "bash", ";", "kill-window", "-t", "agent:0",
        )  # fmt: skip
        if found.exit_code != 0:
            why = found.output.strip()[-200:]
            raise SetupError(f"no terminal: {why}. The image needs tmux")
        self._settle()
        self._seen = self.buffer()

    def send(self, keys: str, *, wait_s: float = 1.0) -> str:
        """Type keys, wait, and return what is new.

        Args:
            keys: see ``Keystrokes``.
            wait_s: longest wait; ``Enter``-less keys and running programs use it up.

        Raises:
            TerminalEnded: it is gone.
            SandboxLost: the sandbox is gone.
        """
        if _NAMED.fullmatch(keys):
            self._sent("send-keys", "-t", "agent", keys)
        else:
            for start in range(0, len(keys), MOST_KEYS_AT_ONCE):
                part = keys[start : start + MOST_KEYS_AT_ONCE].replace("\n", "\r")
                if part.endswith(";"):  # tmux would take it for the end of its command
                    part = part[:-1] + r"\;"
                self._sent("send-keys", "-t", "agent", "-l", "--", part)
        time.sleep(min(wait_s, MOST_WAIT_S))
        return self.news()

    def news(self) -> str:
        """Return what has come since the last look, under a heading that says what it is."""
        before, now = self._seen, self.buffer()
        self._seen = now
        new = new_lines(before, now)
        if new is not None:
            return f"{NEW}\n" + "\n".join(new)
        return f"{SCREEN}\n{self.screen()}"

    def screen(self) -> str:
        """Return the visible lines, without empty ones at the end."""
        return self._captured(()).rstrip("\n")

    def buffer(self) -> tuple[str, ...]:
        """Return all lines, scrollback first, without empty ones at the end."""
        return tuple(self._captured(("-S", "-")).rstrip("\n").split("\n"))

    def close(self) -> None:
        """End the session and what runs in it. Idempotent."""
        self._tmux("kill-server")

    def _settle(self) -> None:
        """Wait for the first prompt; a shell that shows none has a moment."""
        end = time.monotonic() + 5.0
        while not self.screen().strip() and time.monotonic() < end:
            time.sleep(POLL_S)

    def _captured(self, more: Sequence[str]) -> str:
        return self._sent("capture-pane", "-p", "-J", "-t", "agent", *more).output

    def _sent(self, *words: str) -> ExecResult:
        done = self._tmux(*words)
        if done.exit_code != 0:
            raise TerminalEnded(done.output.strip()[-200:])
        return done

    def _tmux(self, *words: str) -> ExecResult:
        return self._sandbox.exec(
            ["tmux", "-u", "-L", self._socket, *words],
            cwd=self._cwd,
            timeout_s=CALL_TIMEOUT_S,
            env={"TERM": "xterm-256color"},
            max_output_bytes=8 << 20,
        )


def cut(text: str, most_bytes: int) -> str:
    """Return a text of at most so many bytes: head and tail, and what is missing between them, in
    the words of the official agent.

    Example:
        >>> cut("abcdefgh", 4)
        'ab\\n[... output limited to 4 bytes; 4 interior bytes omitted ...]\\ngh'
    """
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= most_bytes:
        return text
    half = most_bytes // 2
    head, tail = data[:half].decode("utf-8", "ignore"), data[-half:].decode("utf-8", "ignore")
    omitted = len(data) - 2 * half
    limit = f"[... output limited to {most_bytes} bytes; {omitted} interior bytes omitted ...]"
    return f"{head}\n{limit}\n{tail}"


def new_lines(before: Sequence[str], now: Sequence[str]) -> list[str] | None:
    """Return the lines that came, None where the screen was redrawn rather than added to.

    The last line of before may have grown: it is a prompt that was typed at.

    Example:
        >>> new_lines(["$ "], ["$ ls", "a", "$ "])
        ['$ ls', 'a', '$ ']
        >>> new_lines(["one", "two", "$ "], ["~", "~", "-- VISUAL --"]) is None
        True
    """
    if not before or tuple(before) == ("",):
        return list(now)
    kept = len(before) - 1
    if list(now[:kept]) != list(before[:kept]) or len(now) <= kept:
        return None
    if not now[kept].startswith(before[kept].rstrip()):
        return None
    return list(now[kept:]) if list(now) != list(before) else []
