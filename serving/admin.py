"""The learner's routes: weights, adapters, pause and resume, scores, counters."""

import asyncio
import logging
from dataclasses import asdict
from pathlib import Path

from aiohttp import web

from .answers import json_answer
from .errors import EngineError, RequestRefused
from .gateway import Gateway
from .protocol import AdapterRequest, QualityRequest, ScoreRequest, WeightsRequest
from .quality import QualityPoint
from .routes import Route, read

logger = logging.getLogger(__name__)

PAUSE_LEASE_S = 300.0


class Handlers:
    """Answers the admin routes."""

    def __init__(self, gateway: Gateway) -> None:
        self._engine = gateway.engine
        self._gateway = gateway
        self._lease: asyncio.Task[None] | None = None

    def table(self) -> list[Route]:
        """Return the admin routes."""
        return [
            Route("POST", "/admin/weights", self.weights, "Load weights in place",
                  WeightsRequest, "admin"),
            Route("POST", "/admin/adapters", self.load_adapter, "Load or replace an adapter",
                  AdapterRequest, "admin"),
            Route("DELETE", "/admin/adapters/{name}", self.unload_adapter, "Forget an adapter",
                  access="admin"),
            Route("POST", "/admin/pause", self.pause, "Stop between two tokens", access="admin"),
            Route("POST", "/admin/resume", self.resume, "Go on", access="admin"),
            Route("POST", "/admin/score", self.score, "Log-probs of given tokens",
                  ScoreRequest, "admin"),
            Route("POST", "/admin/quality", self.quality, "Tell how replies were judged",
                  QualityRequest, "admin"),
            Route("GET", "/admin/stats", self.stats, "Counters", access="admin"),
        ]  # fmt: skip

    async def weights(self, request: web.Request) -> web.Response:
        """Load a publication."""
        body = await read(request, WeightsRequest)
        try:
            await asyncio.to_thread(self._engine.load, Path(body.path), body.version)
        except EngineError as error:
            raise RequestRefused(str(error), field="path") from error
        return json_answer({"version": self._engine.version})

    async def load_adapter(self, request: web.Request) -> web.Response:
        """Load an adapter."""
        body = await read(request, AdapterRequest)
        if "adapters" not in self._engine.can:
            raise RequestRefused("this engine has no adapters", field="name")
        path = Path(body.path)
        try:
            await asyncio.to_thread(self._engine.load_adapter, body.name, path, body.version)
        except EngineError as error:
            raise RequestRefused(str(error), field="path") from error
        return json_answer({"adapters": dict(self._engine.adapters())})

    async def unload_adapter(self, request: web.Request) -> web.Response:
        """Forget an adapter."""
        await asyncio.to_thread(self._engine.unload_adapter, request.match_info["name"])
        return json_answer({"adapters": dict(self._engine.adapters())})

    async def pause(self, request: web.Request) -> web.Response:
        """Stop between two tokens."""
        await asyncio.to_thread(self._engine.pause)
        self._end_lease()
        self._lease = asyncio.create_task(self._resume_later())
        return json_answer({"paused": True, "resumes_in_s": PAUSE_LEASE_S})

    async def resume(self, request: web.Request) -> web.Response:
        """Go on."""
        self._end_lease()
        await asyncio.to_thread(self._engine.resume)
        return json_answer({"paused": False})

    async def _resume_later(self) -> None:
        """A learner that dies between pause and resume must not hold everybody for ever."""
        await asyncio.sleep(PAUSE_LEASE_S)
        logger.warning("nobody resumed the engine in %g s; it goes on by itself", PAUSE_LEASE_S)
        await asyncio.to_thread(self._engine.resume)

    def _end_lease(self) -> None:
        if self._lease is not None:
            self._lease.cancel()
            self._lease = None

    async def score(self, request: web.Request) -> web.Response:
        """Score token ids."""
        body = await read(request, ScoreRequest)
        future = self._engine.score(body.token_ids, body.temperature, body.adapter)
        logprobs = await asyncio.wrap_future(future)
        return json_answer({"logprobs": logprobs})

    async def quality(self, request: web.Request) -> web.Response:
        """Keep a point of judged quality."""
        body = await read(request, QualityRequest)
        point = QualityPoint(**body.model_dump(exclude_none=True))
        await asyncio.to_thread(self._gateway.quality.add, point)
        return json_answer({"object": "quality", **asdict(point)})

    async def stats(self, request: web.Request) -> web.Response:
        """Return counters."""
        return json_answer(dict(self._gateway.stats()))
