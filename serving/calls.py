"""Work that other threads hand to the engine's thread, with the future they wait on."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class Call:
    """An action run between two steps. A caller that has gone away costs nothing."""

    def __init__(self, action: Callable[[], None]) -> None:
        self.future: Future[None] = Future()
        self._action = action

    def run(self) -> None:
        """Run the action; its error is the caller's, never the thread's."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self._action()
        except Exception as error:  # carried to the caller, as an executor does
            self.future.set_exception(error)
        else:
            self.future.set_result(None)


def fail(future: "Future[Any]", error: Exception) -> None:
    """Fail a future that nothing has settled yet, unless its owner cancelled it."""
    if future.set_running_or_notify_cancel():
        future.set_exception(error)
