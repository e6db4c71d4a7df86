"""A flag that tells its listeners at once; waiting for it costs no task."""

import asyncio
from collections.abc import Callable


class Signal:
    """Set once and for good. Belongs to one event loop."""

    def __init__(self) -> None:
        self._is_set = False
        self._listeners: dict[Callable[[], object], None] = {}

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._is_set

    def set(self) -> None:
        """Set it and call who listens. Idempotent."""
        self._is_set = True
        listeners, self._listeners = list(self._listeners), {}
        for listener in listeners:
            listener()

    def listen(self, listener: Callable[[], object]) -> None:
        """Have a function called when it is set; at once if it is already."""
        if self._is_set:
            listener()
        else:
            self._listeners[listener] = None

    def ignore(self, listener: Callable[[], object]) -> None:
        """Call a function no more."""
        self._listeners.pop(listener, None)

    async def wait(self) -> None:
        """Wait until it is set."""
        waiter = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        self.listen(wake)
        try:
            await waiter
        finally:
            self.ignore(wake)
