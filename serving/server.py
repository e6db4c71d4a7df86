"""The gateway in a background thread with its own event loop; for tests, actors and notebooks."""

import asyncio
import contextlib
import gc
import logging
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from aiohttp import web

from .app import MAX_BODY_BYTES, build_app
from .engine import Engine, Host
from .errors import PolicyUnavailable
from .gateway import Gateway, Limits
from .journal import Journal
from .keys import Keys, RateLimit
from .quality import QualityLog
from .redaction import Redact
from .renderer import Renderer
from .sessions import SessionStore, Sink

START_TIMEOUT_S = 30.0
LAST_PORT = 65535
MOST_FILES = 16384
DAY_S = 86_400.0
YOUNG_OBJECTS = 10_000  # made between two collections of garbage
EXPIRY_S = 600.0  # between two looks for turns that are too old

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerOptions:
    """Who may ask for how much, and what is kept.

    Attributes:
        admin_key: opens the learner's routes; None: the API key does.
        other_keys: further keys → their owners' names; each has sessions of its own.
        sessions: folder in which turns stay over restarts; None keeps them in memory.
        max_turns: most turns kept in memory.
        sinks: told of every turn and all feedback.
        requests_per_minute: with one key; 0 is without limit.
        max_requests: most choices sampled or waiting at once; further requests get 429.
        max_body_bytes: of a request; more gets 413.
        adapter_by_user: serve a caller whose name is that of a loaded adapter with it.
        redact: changes a turn or feedback before it is recorded; None in its place records
            nothing. See ``serving.redaction``.
        durable: a reply's last event waits until its turn is on disk, and so does the answer to
            feedback; wants ``sessions``.
        keep_days: turns older than this are removed, with what was said of them; 0 keeps them.
    """

    admin_key: str | None = None
    other_keys: Mapping[str, str] = field(default_factory=dict)
    sessions: Path | None = None
    max_turns: int = 8192
    sinks: tuple[Sink, ...] = ()
    requests_per_minute: int = 0
    max_requests: int = 4096
    max_body_bytes: int = MAX_BODY_BYTES
    adapter_by_user: bool = False
    redact: Redact | None = None
    durable: bool = False
    keep_days: float = 0.0


class PolicyServer:
    """Serves an engine; does not own it (close the engine yourself).

    Args:
        engine, renderer: of the same model.
        api_key: None makes one up, see ``api_key``.
        host, port: loopback and a free port by default.
        model_name: name in ``/v1/models``.
        options: see ``ServerOptions``.

    Raises:
        ValueError: a key or a port that cannot be, or ``durable`` without a folder.
        OSError, sqlite3.Error: the sessions' folder cannot be used.
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
        options: ServerOptions | None = None,
    ) -> None:
        options = options or ServerOptions()
        self.api_key = api_key or secrets.token_urlsafe(24)
        if api_key == "":
            raise ValueError("an API key must not be empty")
        self._keys = Keys(self.api_key, options.admin_key, options.other_keys)
        if not 0 <= port <= LAST_PORT:
            raise ValueError(f"port must be 0..{LAST_PORT}, not {port}")
        if options.durable and options.sessions is None:
            raise ValueError("durable=True needs sessions=FOLDER, where turns are to be kept")
        if not options.keep_days >= 0:
            raise ValueError(f"keep_days must be 0 or more, not {options.keep_days:g}")
        self.base_url = ""
        self._options = options
        self._journal = None if options.sessions is None else Journal(options.sessions)
        self.gateway = Gateway(
            engine,
            renderer,
            self._sessions(),
            model_name=model_name,
            adapter_by_user=options.adapter_by_user,
            limits=Limits(options.max_requests),
            redact=options.redact,
            settled=self._journal.settled if self._journal and options.durable else None,
            refusal=self._refusal,
            quality=QualityLog(options.sessions),
        )
        self._address = (host, port)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="policy-server", daemon=True)

    def _refusal(self) -> str:
        return self._journal.refusal if self._journal else ""

    def _sessions(self) -> SessionStore:
        journal = [] if self._journal is None else [self._journal]
        store = SessionStore(self._options.max_turns, [*journal, *self._options.sinks])
        for kept in journal:
            for turn, feedback in kept.read(self._options.max_turns):
                store.restore(turn, feedback)
        return store

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
        if self._journal is not None:
            self._journal.close()

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
            engine = self.gateway.engine
            if isinstance(engine, Host):
                engine.host(self._serve()).result()
            else:
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
        _allow_connections()
        app = build_app(
            self.gateway,
            self._keys,
            rate_limit=RateLimit(self._options.requests_per_minute),
            max_body_bytes=self._options.max_body_bytes,
        )
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
            await self._until_stopped(self._stopping)
        finally:
            await runner.cleanup()

    async def _until_stopped(self, stopping: asyncio.Event) -> None:
        """Wait for the end; meanwhile let go of what is too old."""
        keep_s = self._options.keep_days * DAY_S
        while not stopping.is_set():
            if keep_s:
                oldest = time.time() - keep_s
                self.gateway.sessions.expire(oldest)
                if self._journal is not None:
                    self._journal.expire(oldest)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), EXPIRY_S if keep_s else None)


def _allow_connections() -> None:
    """Raise the limit of open files: each stream holds a socket, with a remote engine two."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def spare_collector() -> None:
    """Have the garbage collector pass over what was made so far: models, modules, restored turns.

    Going through all that again and again was a fifth of a request's processor time. For processes
    that do nothing but serve, once they are ready: what is garbage now and in a circle is collected
    first, what becomes so of it later never is.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
