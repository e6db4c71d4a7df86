"""The gateway in a background thread with its own event loop; for tests, actors and notebooks."""

import asyncio
import logging
import secrets
import threading
from types import TracebackType

from aiohttp import web

from .app import build_app, check_api_key
from .engine import Engine
from .errors import PolicyUnavailable
from .gateway import Gateway
from .renderer import Renderer

START_TIMEOUT_S = 30.0
LAST_PORT = 65535

logger = logging.getLogger(__name__)


class PolicyServer:
    """Serves an engine; does not own it (close the engine yourself).

    Args:
        engine, renderer: of the same model.
        api_key: None makes one up, see ``api_key``.
        host, port: loopback and a free port by default.
        model_name: name in ``/v1/models``.

    Raises:
        ValueError: a key or a port that cannot be.
    """

    def __init__(
        self,
        engine: Engine,
        renderer: Renderer,
        *,
        api_key: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        model_name: str = "policy",
    ) -> None:
        self.api_key = api_key or secrets.token_urlsafe(24)
        check_api_key(self.api_key)
        if not 0 <= port <= LAST_PORT:
            raise ValueError(f"port must be 0..{LAST_PORT}, not {port}")
        self.base_url = ""
        self.gateway = Gateway(engine, renderer)
        self._model_name = model_name
        self._address = (host, port)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="policy-server", daemon=True)

    def start(self) -> str:
        """Start and return the base URL, such as ``http://127.0.0.1:41234``.

        Raises:
            PolicyUnavailable: the address cannot be bound.
        """
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S) or self._failure is not None:
            raise PolicyUnavailable(f"the server did not start: {self._failure or 'time-out'}")
        return self.base_url

    def stop(self) -> None:
        """Stop; replies in flight are cut. Idempotent."""
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(START_TIMEOUT_S)
        self.gateway.close()

    def wait(self) -> None:
        """Block until the server has stopped."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def __enter__(self) -> "PolicyServer":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # told by start(); once started, by the log
            self._failure = error
            if self._ready.is_set():
                logger.exception("the server has ended")
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        app = build_app(self.gateway, self.api_key, self._model_name)
        # a client that goes away cancels its handler, which cancels its request in the engine
        runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, *self._address, backlog=1024)
            await site.start()
            host, port = runner.addresses[0][:2]
            self.base_url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            self._ready.set()
            await self._stopping.wait()
        finally:
            await runner.cleanup()
