"""What is sent back: JSON, server-sent events, and faults in the shape the route's vendor uses."""

import json
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import ValidationError
from pydantic_core import to_json

from . import anthropic, chat_bodies
from .errors import ContextOverflow, EngineError, RequestRefused, TooManyRequests
from .protocol import error_body, refusal
from .routes import SESSION_PREFIX

logger = logging.getLogger(__name__)


def json_answer(
    body: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return a JSON answer, written down once."""
    return web.Response(
        body=_json(body),
        status=status,
        headers={**(headers or {}), "Content-Type": "application/json; charset=utf-8"},
    )


def _json(body: Any) -> bytes:
    try:
        return to_json(body, inf_nan_mode="constants")
    except ValueError:  # half of a character, which a client sent and reads here again
        return json.dumps(body).encode()


async def stream(
    request: web.Request,
    events: AsyncGenerator[bytes, None],
    headers: Mapping[str, str],
    error_event: Any = None,
) -> web.StreamResponse:
    """Send server-sent events; a fault before the first is a plain error, a later one an event."""
    first = await anext(events)
    response = web.StreamResponse(
        headers={
            **headers,
            "Content-Type": "text/event-stream; charset=utf-8",
            "Cache-Control": "no-cache",
            "X-Accel-Buffering": "no",
        }
    )
    try:
        await response.prepare(request)
        await response.write(first)
        async for event in events:
            await response.write(event)
    except ConnectionResetError:  # the client has left
        return response
    except Exception as error:  # the status is sent: the fault is the last event
        body = _server_error(error)
        make = error_event or chat_bodies.line
        await response.write(make(body))
    finally:
        await events.aclose()
    await response.write_eof()
    return response


def _server_error(error: Exception) -> dict[str, Any]:
    if isinstance(error, EngineError):
        return error_body(str(error), "server_error")
    logger.error("a request failed", exc_info=error)
    return error_body(f"{type(error).__name__}: {error}", "server_error")


def refuse(
    request: web.Request,
    body: dict[str, Any],
    status: int,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """Return an error in the shape the route's vendor uses."""
    if request.path.removeprefix(_session_prefix(request)).startswith("/v1/messages"):
        body = anthropic.error_body(body, status)
    return json_answer(body, status, headers)


def _session_prefix(request: web.Request) -> str:
    session = request.match_info.get("session")
    return "" if session is None else SESSION_PREFIX.replace("{session}", session)


@web.middleware
async def faults(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn what a handler raises into an answer."""
    try:
        return await handler(request)
    except TooManyRequests as error:
        body = error_body(str(error), "rate_limit_error", code="rate_limit_exceeded")
        after = {"Retry-After": f"{error.retry_after_s:.0f}"}
        return refuse(request, body, error.status, after)
    except ValidationError as error:  # a body that fits its route's model, but not the chat's
        refused = refusal(error)
        return refuse(request, error_body(str(refused), field=refused.field), 400)
    except RequestRefused as error:
        code = "context_length_exceeded" if isinstance(error, ContextOverflow) else ""
        kind = "not_found_error" if error.status == 404 else "invalid_request_error"
        body = error_body(str(error), kind, field=error.field, code=code)
        return refuse(request, body, error.status)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        message = f"{error.reason}: {request.method} {request.path}"
        allowed = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
        return refuse(request, error_body(message), error.status, allowed)
    except ConnectionResetError:  # the client has left
        raise
    except Exception as error:  # a fault of ours must reach the client in the shape it reads
        return refuse(request, _server_error(error), 500)
