"""A policy server or a live run under test, started as its user would: a process of its own."""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.client import PolicyClient

START_TIMEOUT_S = 300.0
SETTLE_TIMEOUT_S = 900.0


class RunFailed(Exception):
    """The program under test ended or stood still; the message names its log."""


@dataclass(frozen=True)
class Program:
    """A served policy.

    Attributes:
        client: speaks to it.
        folder: of its run.
        process: its own.
    """

    client: PolicyClient
    folder: Path
    process: "subprocess.Popen[bytes]"

    async def settle(self) -> None:
        """Wait until all that was said to a live run is judged and every batch that is due is
        learned.

        Raises:
            RunFailed: it did not come to rest.
        """
        deadline, quiet_since = time.monotonic() + SETTLE_TIMEOUT_S, time.monotonic()
        before: object = None
        while time.monotonic() - quiet_since < 1.5:
            self.check()
            status = self.status()
            busy = (
                status.get("being_judged", 1)
                or status.get("learning", True)
                or status.get("ready_to_learn", 0) >= status.get("batch", 1)
            )
            if busy or status != before:
                quiet_since = time.monotonic()
            before = status
            if time.monotonic() > deadline:
                raise RunFailed(f"the learner did not come to rest: {status}")
            await asyncio.sleep(0.25)

    def check(self) -> None:
        """Raise ``RunFailed`` when the program has ended."""
        if (code := self.process.poll()) is not None:
            raise RunFailed(
                f"it ended with exit code {code}; see {self.folder.with_suffix('.log')}"
            )

    def status(self) -> dict[str, Any]:
        """Return where a live run stands, see ``rl.live.loop``; nothing before it has begun."""
        try:
            status: dict[str, Any] = json.loads((self.folder / "live.json").read_text())
        except (OSError, ValueError):
            return {}
        return status


@asynccontextmanager
async def serve(command: Sequence[str], folder: Path) -> AsyncIterator[Program]:
    """Start a program that serves a policy and stop it by signal afterwards.

    Args:
        command: module and arguments, such as ``["rl.train", "env=chat", "run=FOLDER"]``.
        folder: of its run, if it has one; its output goes to a file of that name with ``.log``.

    SIGTERM to this process cancels the task that is within, as Ctrl-C does under ``asyncio.run``,
    so that the program does not outlive it.

    Raises:
        RunFailed: it did not start.
    """
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    key = secrets.token_urlsafe(16)
    log = folder.with_suffix(".log")
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "CLAWGYM_API_KEY": key, "CLAWGYM_ADMIN_KEY": f"admin-{key}"},
            start_new_session=True,  # a terminal's Ctrl-C would reach it a second time
        )
        try:
            url = await _address(process, log)
            async with PolicyClient(url, key) as client:
                yield Program(client, folder, process)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                await asyncio.to_thread(process.wait, 120)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Wait until the program says where it serves."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        for line in text.splitlines():
            word = line.partition("ready. Base URL: ")[2].split(" ")[0] or line.strip()
            if word.startswith("http://"):
                return word.removesuffix("/v1")
        if process.poll() is not None:
            raise RunFailed(f"it did not start: {text[-600:]}")
        await asyncio.sleep(0.3)
    raise RunFailed(f"it did not start in {START_TIMEOUT_S:.0f} s; see {log}")
