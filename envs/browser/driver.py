"""The one thread of this process in which Playwright lives; everything else calls into it.

Playwright's driver is a program of its own (Node), started at first use and ended with this
process. Environments are played from many threads; ``Driver.run`` is how they reach it.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from envs.errors import MissingDependency

if TYPE_CHECKING:
    from playwright.async_api import Playwright

T = TypeVar("T")
START_S = 90.0
GRACE_S = 10.0
REMEDY = "run: pip install 'clawgym[gui]'"


class Driver:
    """A running Playwright. Thread-safe; ``shared`` gives this process's.

    Raises:
        MissingDependency: Playwright is not installed.
    """

    def __init__(self) -> None:
        try:
            from playwright.async_api import async_playwright
        except ImportError:
            raise MissingDependency("the package playwright is not installed", REMEDY) from None
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self.loop.run_forever, name="clawgym-playwright", daemon=True
        )
        self._thread.start()
        self.playwright: Playwright = self.run(async_playwright().start(), START_S)

    def run(self, work: "Coroutine[Any, Any, T]", timeout_s: float) -> T:
        """Return what a coroutine returns. Raises its errors, and ``TimeoutError``."""
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, timeout_s), self.loop)
        try:
            return future.result(timeout_s + GRACE_S)
        except CancelledError:
            raise TimeoutError("the driver was closed") from None
        except TimeoutError:
            future.cancel()
            raise

    def close(self) -> None:
        """End it. Idempotent; never raises."""
        if self.loop.is_closed() or self.pid != os.getpid():
            return
        with suppress(Exception):  # it ended before us
            self.run(self.playwright.stop(), GRACE_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(GRACE_S)
        if not self._thread.is_alive():
            self.loop.close()


_lock = threading.Lock()
_shared: Driver | None = None


def shared() -> Driver:
    """Return this process's driver, started at need. Raises ``MissingDependency``."""
    global _shared
    with _lock:
        if _shared is None or _shared.pid != os.getpid():
            _shared = Driver()
            atexit.register(_shared.close)
        return _shared
