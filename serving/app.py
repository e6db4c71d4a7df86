"""The OpenAI-compatible gateway over HTTP (aiohttp).

Routes: ``/v1/chat/completions`` and ``/v1/models``, the same under ``/s/<session>/v1/…``;
``/health`` without a key; ``/admin/{weights,pause,resume,score,stats}`` for the learner.
A session is named by the path, a key written ``KEY:SESSION``, the header ``X-Session-Id`` or
``user``; else it is inferred from the messages. While weights load, requests wait.

Left out in this version: tool calls, images, other vendors' routes.
"""

import asyncio
import hmac
import json
import logging
import unicodedata
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from pydantic import ValidationError

from . import responses, streaming
from .errors import EngineError, RequestRefused
from .gateway import Gateway
from .protocol import ChatRequest, ScoreRequest, WeightsRequest, Wire, error_body, refusal

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 32 << 20
SESSION_HEADER = "X-Session-Id"
LONGEST_SESSION = 256  # characters
ANY_MODEL = "default"

Body = TypeVar("Body", bound=Wire)


def build_app(gateway: Gateway, api_key: str, model_name: str) -> web.Application:
    """Return the application; every route but ``/health`` wants ``Authorization: Bearer KEY``.

    Raises:
        ValueError: no client could authenticate with this key.
    """
    check_api_key(api_key)
    routes = _Routes(gateway, model_name)
    app = web.Application(
        client_max_size=MAX_BODY_BYTES, middlewares=[_errors, _authentication(api_key)]
    )
    for prefix in ("", "/s/{session}"):
        app.router.add_post(f"{prefix}/v1/chat/completions", routes.chat)
        app.router.add_get(f"{prefix}/v1/models", routes.models)
    app.router.add_get("/health", routes.health)
    app.router.add_post("/admin/weights", routes.weights)
    app.router.add_post("/admin/pause", routes.pause)
    app.router.add_post("/admin/resume", routes.resume)
    app.router.add_post("/admin/score", routes.score)
    app.router.add_get("/admin/stats", routes.stats)
    return app


class _Routes:
    def __init__(self, gateway: Gateway, model_name: str) -> None:
        self._gateway = gateway
        self._model_name = model_name

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await _read(request, ChatRequest)
        if body.model not in (self._model_name, ANY_MODEL):
            raise RequestRefused(
                f"no model {body.model!r} here; use {self._model_name!r} or {ANY_MODEL!r}",
                status=404,
                field="model",
            )
        job = await self._gateway.prepare(body, _session(request, body.user))
        headers = {SESSION_HEADER: job.session}
        if body.stream:
            return await self._stream(request, streaming.events(self._gateway, job), headers)
        generations = await self._gateway.complete(job)
        return web.json_response(
            responses.completion(self._gateway, job, generations), headers=headers
        )

    async def _stream(
        self, request: web.Request, events: AsyncGenerator[bytes, None], headers: dict[str, str]
    ) -> web.StreamResponse:
        first = await anext(events)  # a refusal is still a plain 4xx here
        response = web.StreamResponse(
            headers={
                **headers,
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
            }
        )
        await response.prepare(request)
        try:
            await response.write(first)
            async for event in events:
                await response.write(event)
        except ConnectionResetError:  # the client has left
            return response
        except Exception as error:  # the status is sent: the fault is the last event
            body = json.dumps(_server_error(error))
            await response.write(f"data: {body}\n\n".encode())
        finally:
            await events.aclose()
        await response.write_eof()
        return response

    async def models(self, request: web.Request) -> web.Response:
        row = {"id": self._model_name, "object": "model", "created": 0, "owned_by": "clawgym"}
        return web.json_response({"object": "list", "data": [row]})

    async def health(self, request: web.Request) -> web.Response:
        stats = self._gateway.engine.stats()
        ready = not stats.get("closed", False)
        body = {"live": True, "ready": ready, "version": self._gateway.engine.version}
        return web.json_response(body, status=200 if ready else 503)

    async def weights(self, request: web.Request) -> web.Response:
        body = await _read(request, WeightsRequest)
        try:
            await asyncio.to_thread(self._gateway.engine.load, Path(body.path), body.version)
        except EngineError as error:
            raise RequestRefused(str(error), field="path") from error
        return web.json_response({"version": self._gateway.engine.version})

    async def pause(self, request: web.Request) -> web.Response:
        await asyncio.to_thread(self._gateway.engine.pause)
        return web.json_response({"paused": True})

    async def resume(self, request: web.Request) -> web.Response:
        await asyncio.to_thread(self._gateway.engine.resume)
        return web.json_response({"paused": False})

    async def score(self, request: web.Request) -> web.Response:
        body = await _read(request, ScoreRequest)
        future = self._gateway.engine.score(body.token_ids, body.temperature)
        logprobs = await asyncio.wrap_future(future)
        return web.json_response({"logprobs": logprobs})

    async def stats(self, request: web.Request) -> web.Response:
        return web.json_response(dict(self._gateway.stats()))


async def _read(request: web.Request, model: type[Body]) -> Body:
    raw = await request.read()
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise refusal(error) from error


def _session(request: web.Request, user: str | None) -> str | None:
    """Return the session's name, fit for a response header, or None."""
    named = {
        "session": request.match_info.get("session"),
        "Authorization": _bearer(request).partition(":")[2],
        SESSION_HEADER: request.headers.get(SESSION_HEADER),
        "user": user,
    }
    for field, name in named.items():
        if name:
            if len(name) > LONGEST_SESSION or not _is_plain(name):
                raise RequestRefused(
                    f"{field}: a session's name has at most {LONGEST_SESSION} characters "
                    "and no control characters",
                    field=field,
                )
            return name
    return None


def _is_plain(text: str) -> bool:
    """Whether a text holds no control character, line separator or broken UTF-8."""
    return not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in text)


def check_api_key(api_key: str) -> None:
    """Refuse a key that no ``Authorization: Bearer KEY[:SESSION]`` can carry.

    Raises:
        ValueError: empty, with a colon, control characters or white space around.
    """
    if not api_key or ":" in api_key or api_key != api_key.strip() or not _is_plain(api_key):
        raise ValueError(
            "an API key must not be empty nor hold ':' (it parts key and session), control "
            "characters or white space around it"
        )


def _bearer(request: web.Request) -> str:
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def _authentication(api_key: str) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = _bearer(request).partition(":")[0]
        if request.path != "/health" and not hmac.compare_digest(_bytes(given), _bytes(api_key)):
            return web.json_response(
                error_body(
                    "missing or wrong API key; send Authorization: Bearer KEY",
                    "authentication_error",
                    code="invalid_api_key",
                ),
                status=401,
            )
        return await handler(request)

    return check


def _bytes(text: str) -> bytes:
    """Return a header's text as it was sent, be it UTF-8 or not."""
    return text.encode(errors="surrogateescape")


def _server_error(error: Exception) -> dict[str, Any]:
    if isinstance(error, EngineError):
        return error_body(str(error), "server_error")
    logger.error("a request failed", exc_info=error)
    return error_body(f"{type(error).__name__}: {error}", "server_error")


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except RequestRefused as error:
        code = "context_length_exceeded" if type(error).__name__ == "ContextOverflow" else ""
        body = error_body(str(error), field=error.field, code=code)
        return web.json_response(body, status=error.status)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        message = f"{error.reason}: {request.method} {request.path}"
        return web.json_response(error_body(message), status=error.status)
    except ConnectionResetError:  # the client has left
        raise
    except Exception as error:  # a fault of ours must reach the client in the shape it reads
        return web.json_response(_server_error(error), status=500)
