"""Several SGLang servers as one: who is alive, who takes a prompt, and one state for all of them.

All that a server must have (weights, adapters, paused or not) is kept here; a server that does not
follow a change is evicted and its requests move on, and one that comes back is brought to the same
state before it takes requests again. Changes happen one after the other under ``changing``.

Everything here runs in the engine's event loop.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import EngineError
from .adapters import AdapterHandle
from .http import ServerLost, ServerRefused, SglangServer
from .request import as_version
from .routing import PrefixTable
from .signal import Signal

logger = logging.getLogger(__name__)

PROBE_S = 10.0  # a server that computes a long prompt answers late
SLOW_PROBES = 3  # this many in a row, and no token meanwhile, and it counts as dead
POLL_S = 0.05
OTHERS_S = 5.0  # at start, for the others once one has answered
HALF_WRITTEN = "Failed to update weights"  # its answer when it may hold a mixture


@dataclass(frozen=True)
class Limits:
    """How long the engine waits, in seconds.

    Attributes:
        reply_s: for one reply, retries included.
        server_s: for any server to take a request or to be there at start.
        change_s: for a server to load weights or an adapter.
        probe_every_s: between two probes of a server.
        cancel_s: for a cancelled reply's last tokens.
    """

    reply_s: float = 3600.0
    server_s: float = 60.0
    change_s: float = 600.0
    probe_every_s: float = 5.0
    cancel_s: float = 2.0


class Fleet:
    """See the module.

    Attributes:
        open: requests may be sent; not while paused or while weights load.
        version: policy version of all servers that are alive.
    """

    def __init__(self, servers: Sequence[SglangServer], limits: Limits) -> None:
        self.servers = list(servers)
        self.limits = limits
        self.open = asyncio.Event()
        self.open.set()
        self.changing = asyncio.Lock()
        self.version = 0
        self.paused = False
        self.num_loads = 0
        self.num_evicted = 0
        self.adapters: list[AdapterHandle] = []  # all that a server should have
        self._folder: Path | None = None  # the weights of ``version``; None: as they started
        self._table = PrefixTable()
        self._probes: list[asyncio.Task[None]] = []

    @property
    def alive(self) -> list[SglangServer]:
        """Servers that take requests."""
        return [server for server in self.servers if server.alive]

    @property
    def cache_key(self) -> str:
        """Names the weights in the servers' prefix caches: never twice the same for two loads."""
        return f"v{self.version}.{self.num_loads}"

    async def start(self) -> None:
        """Meet the servers; at least one must be there, and all at one version.

        Raises:
            EngineError: none answered in time, one refused us, or their versions differ.
        """
        await asyncio.gather(*(self._meet(server) for server in self.servers))
        met = [server for server in self.servers if server.info]
        if not met:
            raise EngineError(
                f"no SGLang server answered in {self.limits.server_s:g} s: {self.reasons()}"
            )
        versions = {server.url: as_version(server.info["weight_version"]) for server in met}
        if len(set(versions.values())) > 1:
            raise EngineError(
                f"the servers have different weight versions ({versions}); restart those behind"
            )
        self.version = next(iter(versions.values()))
        for server in met:
            if not await server.ready():  # paused by one who went away; we own the servers
                await server.post("/continue_generation", {"torch_empty_cache": False})
            self._join(server)
        self._probes = [asyncio.create_task(self._watch(server)) for server in self.servers]

    async def close(self) -> None:
        """Stop watching and close the connections; a pause of ours is ended."""
        for probe in self._probes:
            probe.cancel()
        await asyncio.gather(*self._probes, return_exceptions=True)
        if self.paused:
            await self._tell(self.alive, "/continue_generation", {"torch_empty_cache": False})
        await asyncio.gather(*(server.close() for server in self.servers))

    def reasons(self) -> str:
        """Why servers are not alive."""
        return "; ".join(f"{s.url}: {s.reason}" for s in self.servers if not s.alive)

    async def place(self, ids: Sequence[int]) -> SglangServer:
        """Return the server for a prompt, once requests may be sent and one is alive.

        It counts the request as running there; the caller takes it off (``num_running``).

        Raises:
            EngineError: none was alive for ``server_s``.
        """
        waited_s = 0.0
        while True:
            await self.open.wait()
            server = self.place_now(ids)
            if server is not None:
                return server
            if waited_s >= self.limits.server_s:
                raise EngineError(f"no server answered for {waited_s:.0f} s: {self.reasons()}")
            await asyncio.sleep(POLL_S)
            waited_s += POLL_S

    def place_now(self, ids: Sequence[int]) -> SglangServer | None:
        """As ``place``, or None where that would have to wait."""
        running = {i: s.num_running for i, s in enumerate(self.servers) if s.alive}
        if not running or not self.open.is_set():
            return None
        at = self._table.place(ids, running) if len(self.servers) > 1 else 0
        server = self.servers[at]
        server.num_running += 1
        return server

    def evict(self, server: SglangServer, reason: str) -> None:
        """Take no more requests there; those in flight move on. It may come back by itself."""
        server.reason = reason
        if server.alive:
            logger.warning("server %s is out: %s", server.url, reason)
            server.alive = False
            self.num_evicted += 1
            self._table.forget(self.servers.index(server))
        server.gone.set()

    async def suspect(self, server: SglangServer, reason: str) -> None:
        """A request fared badly there: see whether it is there at all, and still the same."""
        try:
            await self._check(server)
        except (ServerLost, ServerRefused) as error:
            self.evict(server, f"{reason}; then {error}")

    # changes

    async def pause(self) -> None:
        """Stop all servers between two tokens."""
        async with self.changing:
            if not self.paused:
                self.open.clear()
                self.paused = True
                await self._tell(self.alive, "/pause_generation", {"mode": "in_place"})

    async def resume(self) -> None:
        """Let all servers go on."""
        async with self.changing:
            if self.paused:
                self.paused = False
                await self._tell(self.alive, "/continue_generation", {"torch_empty_cache": False})
                self.open.set()

    async def publish(self, folder: Path, version: int) -> None:
        """Pause in place, load, go on: no request is cut, none is refused.

        Raises:
            EngineError: an older version, or no server took it.
        """
        async with self.changing:
            if version < self.version:
                raise EngineError(f"version {version} is older than {self.version} in use")
            async with self._stopped():
                servers = self.alive
                answers = await asyncio.gather(
                    *(self._update(server, folder, version) for server in servers),
                    return_exceptions=True,
                )
                self._settle(servers, answers, f"weights of version {version}", HALF_WRITTEN)
                self.version, self._folder = version, folder
                self.num_loads += 1

    async def load_adapter(self, handle: AdapterHandle) -> None:
        """Load an adapter everywhere.

        Raises:
            EngineError: no server took it.
        """
        async with self.changing:
            servers = self.alive
            answers = await asyncio.gather(
                *(self._load_adapter(server, handle) for server in servers), return_exceptions=True
            )
            self._settle(servers, answers, f"adapter {handle.lora}", None)
            self.adapters.append(handle)

    async def unload_adapter(self, handle: AdapterHandle) -> None:
        """Unload an adapter that no request names any more. Servers that fail keep it."""
        async with self.changing:
            if handle in self.adapters:
                self.adapters.remove(handle)
            body = {"lora_name": handle.lora}
            for server in self.alive:
                try:
                    await server.post("/unload_lora_adapter", body, self.limits.change_s)
                except (ServerLost, ServerRefused) as error:
                    logger.warning("adapter %s stays: %s", handle.lora, error)

    @asynccontextmanager
    async def _stopped(self) -> AsyncIterator[None]:
        """Servers stand still meanwhile, unless they did already."""
        if self.paused:
            yield
            return
        self.open.clear()
        try:
            await self._tell(self.alive, "/pause_generation", {"mode": "in_place"})
            yield
        finally:
            await self._tell(self.alive, "/continue_generation", {"torch_empty_cache": False})
            self.open.set()

    async def _tell(self, servers: list[SglangServer], path: str, body: dict[str, Any]) -> None:
        """Post to each; one that does not obey is evicted."""

        async def tell(server: SglangServer) -> None:
            try:
                await server.post(path, body)
            except (ServerLost, ServerRefused) as error:
                self.evict(server, str(error))

        await asyncio.gather(*(tell(server) for server in servers))

    async def _update(self, server: SglangServer, folder: Path, version: int) -> None:
        body = {
            "model_path": str(folder),
            "weight_version": str(version),
            # in a pause in place a flush fails after the weights have changed; instead the cache
            # key of later requests differs, so nothing computed before is found again
            "flush_cache": False,
            "abort_all_requests": False,
        }
        answer = await server.post("/update_weights_from_disk", body, self.limits.change_s)
        if not answer.get("success"):
            raise ServerRefused(f"{server.url}: {answer.get('message')}", 400)

    async def _load_adapter(self, server: SglangServer, handle: AdapterHandle) -> None:
        body = {"lora_name": handle.lora, "lora_path": handle.path}
        answer = await server.post("/load_lora_adapter", body, self.limits.change_s)
        if not answer.get("success"):
            raise ServerRefused(f"{server.url}: {answer.get('error_message')}", 400)

    def _settle(
        self,
        servers: list[SglangServer],
        answers: Sequence[BaseException | None],
        what: str,
        fatal: str | None,
    ) -> None:
        """All or nothing: those that did not follow leave, unless nobody followed.

        Args:
            fatal: in a refusal, says that the server may hold a mixture now.
        """
        errors = {server: answer for server, answer in zip(servers, answers, strict=True) if answer}
        for error in errors.values():
            if not isinstance(error, ServerLost | ServerRefused):
                raise error
        none_took = len(errors) == len(servers)
        for server, error in errors.items():
            refused = isinstance(error, ServerRefused)
            server.is_mixed |= not refused or (fatal is not None and fatal in str(error))
            if not none_took or server.is_mixed:
                self.evict(server, f"did not take {what}: {error}")
        if none_took:
            said = "; ".join(map(str, errors.values())) or f"none is alive: {self.reasons()}"
            raise EngineError(
                f"no server took {what} ({said}); what was loaded before stays. The servers must "
                "see the file under the same path"
            )

    # who is alive

    async def _meet(self, server: SglangServer) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            try:
                await self._read_info(server)
                return
            except ServerRefused as error:
                raise EngineError(f"{error}; is it an SGLang server, and the key right?") from error
            except ServerLost as error:
                server.reason = str(error)
            waited_s = loop.time() - begun
            enough = any(other.info for other in self.servers)
            if waited_s >= (
                min(OTHERS_S, self.limits.server_s) if enough else self.limits.server_s
            ):
                return  # the watch goes on asking
            await asyncio.sleep(min(0.5, self.limits.server_s / 10))

    async def _read_info(self, server: SglangServer) -> None:
        model = await server.get("/model_info")
        info = await server.get("/server_info")
        server.loads = await server.get("/v1/loads")
        server.info = {**info, "weight_version": model["weight_version"]}
        server.first_path = server.first_path or str(model["model_path"])

    def _join(self, server: SglangServer) -> None:
        server.gone = Signal()
        server.alive, server.reason = True, ""

    async def _watch(self, server: SglangServer) -> None:
        while True:
            await asyncio.sleep(self.limits.probe_every_s)
            try:
                if server.alive and not self.changing.locked():  # one that loads answers late
                    await self._probe(server)
                elif not server.alive:
                    await self._welcome(server)
            except (ServerLost, ServerRefused, EngineError) as error:
                server.reason = str(error)
            except Exception as error:  # the watch must live on, and say what it met
                logger.exception("the watch of %s failed", server.url)
                server.reason = f"{type(error).__name__}: {error}"

    async def _probe(self, server: SglangServer) -> None:
        heard_at = server.heard_at
        try:
            server.loads = await server.get("/v1/loads", PROBE_S)
            await self._check(server)
        except ServerLost as error:
            if isinstance(error.__cause__, TimeoutError):
                server.num_slow += 1 if server.heard_at == heard_at else 0
                if server.num_slow < SLOW_PROBES:
                    return
            self.evict(server, str(error))
        except ServerRefused as error:
            self.evict(server, str(error))

    async def _check(self, server: SglangServer) -> None:
        """See that it has what we gave it: a server may die and be back between two probes."""
        loads, adapters = self.num_loads, {handle.lora for handle in self.adapters}
        model = await server.get("/model_info", PROBE_S)
        cards = (await server.get("/v1/models", PROBE_S))["data"] if adapters else []
        if self.changing.locked() or loads != self.num_loads:
            return  # either answer may be of before or after
        version = as_version(model["weight_version"])
        path = server.first_path if self._folder is None else str(self._folder)
        if version != self.version or str(model["model_path"]) != path:
            raise ServerRefused(f"{server.url} has other weights: it was started again", 409)
        adapters &= {handle.lora for handle in self.adapters}
        if not adapters <= {card["id"] for card in cards}:
            raise ServerRefused(f"{server.url} lacks adapters: it was started again", 409)

    async def _welcome(self, server: SglangServer) -> None:
        """Bring a server that answers again to the state of the others, then let it in."""
        await self._read_info(server)
        async with self.changing:
            if self.paused:
                await server.post("/pause_generation", {"mode": "in_place"})
            else:
                await server.post("/continue_generation", {"torch_empty_cache": False})
            said = as_version(server.info["weight_version"])
            if self._folder is not None or server.is_mixed or said != self.version:
                # before any publication of ours: what it served when we met
                folder = self._folder or Path(server.first_path)
                await self._update(server, folder, self.version)
                server.is_mixed = False
            loaded = await server.get("/v1/models")
            names = {card["id"] for card in loaded["data"]}
            for handle in self.adapters:
                if handle.lora not in names:
                    await self._load_adapter(server, handle)
            self._join(server)
        logger.info("server %s is back at version %d", server.url, self.version)
