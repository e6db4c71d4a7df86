"""The gateway over HTTP (aiohttp): OpenAI's routes, Anthropic's, ours, and the learner's.

A request names its session by its path (``/s/<session>/v1/…``), its key (``KEY:SESSION``), a
header (``keys.SESSION_HEADERS``), its metadata or ``user``; else the session is inferred from the
messages. ``X-Turn-Kind: main|side`` overrules the content rules of ``fitness``. While weights load,
requests wait; none is refused for it.

Left out in this version: images.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict, replace
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from pydantic import ValidationError

from . import admin, anthropic, chat_bodies, chat_page, responses_api
from .errors import ContextOverflow, EngineError, RequestRefused, TooManyRequests
from .gateway import Gateway
from .jobs import Caller
from .keys import SESSION_HEADERS, Keys, RateLimit, session_name
from .protocol import ChatRequest, CompletionRequest, FeedbackRequest, error_body, refusal
from .routes import SESSION_PREFIX, Access, Route, openapi, paths, read
from .telemetry import Telemetry
from .turns import Feedback, Turn

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 32 << 20
KIND_HEADER = "X-Turn-Kind"
TRAIN_HEADER = "X-Train"
RECORDED_HEADER = "X-Recorded"  # of a reply: "no" while the disk takes no turns
ID_HEADER = "X-Response-Id"
OWNER = web.RequestKey("owner", str)  # name of the key a request came with


def build_app(
    gateway: Gateway,
    keys: Keys,
    *,
    rate_limit: RateLimit | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> web.Application:
    """Return the application; every route but ``/health`` wants a key."""
    telemetry = Telemetry(gateway)
    handlers = Handlers(gateway, telemetry)
    table = handlers.table()
    access: dict[str, Access] = {path: route.access for route in table for path in paths(route)}
    app = web.Application(
        client_max_size=max_body_bytes,
        middlewares=[
            telemetry.middleware(),
            _errors,
            _authentication(keys, access, rate_limit or RateLimit(0)),
        ],
    )
    for route in table:
        for path in paths(route):
            app.router.add_route(route.method, path, route.handler)
    return app


class Handlers:
    """Answers each route."""

    def __init__(self, gateway: Gateway, telemetry: Telemetry) -> None:
        self._gateway = gateway
        self._telemetry = telemetry
        self._admin = admin.Handlers(gateway)
        self._page = chat_page.Handlers()
        self._document: str | None = None

    def table(self) -> list[Route]:
        """Return all routes."""
        return [
            Route("POST", "/v1/chat/completions", self.chat, "Reply to a conversation",
                  ChatRequest, by_session=True),
            Route("POST", "/v1/completions", self.text, "Go on from a text",
                  CompletionRequest, by_session=True),
            Route("POST", "/v1/messages", self.messages, "Anthropic's Messages",
                  anthropic.MessagesRequest, by_session=True),
            Route("POST", "/v1/messages/count_tokens", self.count_tokens,
                  "Anthropic's token count", anthropic.CountRequest, by_session=True),
            Route("POST", "/v1/responses", self.responses, "OpenAI's Responses, as agents use it",
                  responses_api.ResponsesRequest, by_session=True),
            Route("GET", "/v1/models", self.models, "The model and its adapters", by_session=True),
            Route("GET", "/v1/models/{name:.+}", self.model, "One of them", by_session=True),
            Route("POST", "/v1/feedback", self.feedback, "Rate or correct a reply",
                  FeedbackRequest, by_session=True),
            Route("GET", "/v1/sessions", self.sessions, "Your sessions, the last used first"),
            Route("GET", "/v1/sessions/{id}", self.session, "A session's turns as a tree"),
            Route("GET", "/v1/sessions/{id}/export", self.export,
                  "A session's turns with tokens, one JSON line each",
                  media="application/x-ndjson"),
            Route("DELETE", "/v1/sessions/{id}", self.forget, "Delete a session for good"),
            Route("GET", "/v1/quality", self.quality, "How replies were judged, by policy version"),
            Route("GET", "/health", self.health, "Live and ready; 503 if not ready", access="open"),
            Route("GET", "/health/live", self.live, "The process answers", access="open"),
            Route("GET", "/health/ready", self.health, "The engine samples", access="open"),
            Route("GET", "/metrics", self._telemetry.metrics, "Prometheus", media="text/plain"),
            Route("GET", "/openapi.json", self.openapi, "This document", access="open"),
            *self._page.table(),
            *self._admin.table(),
        ]  # fmt: skip

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await read(request, ChatRequest)
        hints = {"metadata.session_id": body.session_hint, "user": body.user}
        with self._gateway.room(body.n):
            job = await self._gateway.prepare(body, caller(request, hints, body.user or ""))
            headers = self._headers(job)
            if body.stream:
                events = chat_bodies.chat_events(self._gateway, body, job)
                return await stream(request, events, headers)
            answers = await self._gateway.complete(job)
        return web.json_response(
            chat_bodies.completion(self._gateway, body, job, answers), headers=self._headers(job)
        )

    async def text(self, request: web.Request) -> web.StreamResponse:
        body = await read(request, CompletionRequest)
        with self._gateway.room(body.n * len(body.prompts)):
            jobs = await self._gateway.prepare_text(body, caller(request, {}, body.user or ""))
            if body.stream:
                if len(jobs) > 1:
                    raise RequestRefused("a stream takes one prompt", field="prompt")
                events = chat_bodies.text_events(self._gateway, body, jobs[0])
                return await stream(request, events, {})
            answers = await self._gateway.complete_all(jobs)
        return web.json_response(chat_bodies.text_completion(self._gateway, body, jobs, answers))

    async def messages(self, request: web.Request) -> web.StreamResponse:
        body = await read(request, anthropic.MessagesRequest)
        chat = body.chat()
        who = caller(request, {"metadata.user_id": body.session_hint}, body.user)
        with self._gateway.room(1):
            job = await self._gateway.prepare(chat, who, "msg_")
            headers = self._headers(job)
            if body.stream:
                events = anthropic.events(self._gateway, body, job)
                return await stream(request, events, headers, anthropic.error_event)
            (answer,) = await self._gateway.complete(job)
        return web.json_response(anthropic.message(body, job, answer), headers=self._headers(job))

    async def count_tokens(self, request: web.Request) -> web.Response:
        body = await read(request, anthropic.CountRequest)
        num = await self._gateway.count(body.chat(), caller(request, {}))
        return web.json_response({"input_tokens": num})

    async def responses(self, request: web.Request) -> web.StreamResponse:
        body = await read(request, responses_api.ResponsesRequest)
        hints = {"metadata.session_id": body.session_hint, "user": body.user}
        who = replace(caller(request, hints, body.user or ""), stores=body.keeps)
        chat = responses_api.chat(self._gateway.sessions, who.owner, body)
        before = self._gateway.sessions.get(who.owner, body.previous_response_id or "")
        if who.session is None and before is not None and before.is_named:
            who = replace(who, session=before.session)
        with self._gateway.room(1):
            job = await self._gateway.prepare(chat, who, "resp_")
            headers = self._headers(job)
            if body.stream:
                events = responses_api.events(self._gateway, body, job)
                return await stream(request, events, headers, responses_api.error_event)
            (answer,) = await self._gateway.complete(job)
        return web.json_response(
            responses_api.response(body, job, answer), headers=self._headers(job)
        )

    async def models(self, request: web.Request) -> web.Response:
        name = self._gateway.model_name
        mine = self._gateway.adapters(request[OWNER])
        rows = [_model(name), *(_model(f"{name}:{adapter}") for adapter in mine)]
        return web.json_response({"object": "list", "data": rows})

    async def model(self, request: web.Request) -> web.Response:
        asked, name = request.match_info["name"], self._gateway.model_name
        mine = self._gateway.adapters(request[OWNER])
        if asked not in (name, *(f"{name}:{adapter}" for adapter in mine)):
            raise RequestRefused(f"no model {asked!r} here", status=404, field="model")
        return web.json_response(_model(asked))

    async def feedback(self, request: web.Request) -> web.Response:
        body = await read(request, FeedbackRequest)
        turn_id = f"{body.id}#{body.choice}" if body.choice else body.id
        said = Feedback(turn_id, body.score, body.correction, body.edit, body.comment)
        turn = self._gateway.recorder.feedback(request[OWNER], said)
        if turn is None:
            raise RequestRefused(
                f"no reply {turn_id!r} of yours is kept; give the id of a response",
                status=404,
                field="id",
            )
        await self._gateway.settle()
        return web.json_response({"id": turn_id, "object": "feedback", "session": turn.session})

    async def sessions(self, request: web.Request) -> web.Response:
        rows = [
            {
                "id": row.id,
                "object": "session",
                "title": row.title,
                "num_turns": row.num_turns,
                "created": row.created,
                "updated": row.updated,
            }
            for row in self._gateway.sessions.summaries(request[OWNER])
        ]
        return web.json_response({"object": "list", "data": rows})

    async def session(self, request: web.Request) -> web.Response:
        rows = [
            {
                "id": turn.id,
                "parent": turn.parent,
                "created": turn.created,
                "messages": list(turn.messages),
                "reply": turn.reply,
                "reasoning": turn.reasoning,
                "kind": turn.kind,
                "drift": turn.drift,
                "finish_reason": turn.finish_reason,
                "unfit": list(turn.unfit),
                "num_tokens": len(turn.token_ids_T),
                "versions": sorted(set(turn.versions_T)),
                "feedback": feedback,
            }
            for turn, feedback in self._turns(request)
        ]
        name = request.match_info["id"]
        return web.json_response({"id": name, "object": "session", "turns": rows})

    async def export(self, request: web.Request) -> web.StreamResponse:
        turns = self._turns(request)
        response = web.StreamResponse(
            headers={"Content-Type": "application/x-ndjson; charset=utf-8"}
        )
        await response.prepare(request)
        for turn, feedback in turns:  # written down in a thread: a long session is megabytes
            line = await asyncio.to_thread(_exported, turn, feedback)
            await response.write(line)
        await response.write_eof()
        return response

    async def forget(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        num = self._gateway.sessions.forget(request[OWNER], name)
        await self._gateway.settle()
        return web.json_response({"id": name, "object": "session.deleted", "num_turns": num})

    async def quality(self, request: web.Request) -> web.Response:
        rows = [asdict(point) for point in self._gateway.quality.points]
        return web.json_response({"object": "list", "data": rows})

    async def health(self, request: web.Request) -> web.Response:
        stats = self._gateway.engine.stats()
        ready = not stats.get("closed", False)
        version = self._gateway.engine.version
        body: dict[str, Any] = {"live": True, "ready": ready, "version": version}
        if refusal := self._gateway.refusal():
            body["warning"] = f"replies are not recorded: {refusal}; free some space"
        return web.json_response(body, status=200 if ready else 503)

    async def live(self, request: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def openapi(self, request: web.Request) -> web.Response:
        if self._document is None:
            self._document = json.dumps(openapi(self.table(), "1"))
        return web.Response(text=self._document, content_type="application/json")

    def _headers(self, job: Any) -> dict[str, str]:
        """Return a reply's headers; asked again when it is there, as its turn may be lost by then.

        A stream's are sent before its turn is: they tell how the turns before it went.
        """
        lost = {RECORDED_HEADER: "no"} if self._gateway.refusal() else {}
        return {**reply_headers(job), **lost}

    def _turns(self, request: web.Request) -> list[tuple[Turn, list[dict[str, Any]]]]:
        name = request.match_info["id"]
        found = self._gateway.sessions.turns(request[OWNER], name)
        if not found:
            raise RequestRefused(f"no session {name!r} of yours is kept", status=404, field="id")
        return [(turn, [one.to_json() for one in feedback]) for turn, feedback in found]


def caller(request: web.Request, hints: Mapping[str, str | None], user: str = "") -> Caller:
    """Return who asks.

    Args:
        hints: where in the body a session may be named → the name.
        user: whom the body names.
    """
    candidates = {
        "session": request.match_info.get("session"),
        "Authorization": _key(request).partition(":")[2],
        **{header: request.headers.get(header) for header in SESSION_HEADERS},
        **hints,
    }
    kind = request.headers.get(KIND_HEADER)
    if kind not in (None, "main", "side"):
        raise RequestRefused(f"{KIND_HEADER} is main or side, not {kind!r}", field=KIND_HEADER)
    train = request.headers.get(TRAIN_HEADER, "yes")
    if train not in ("yes", "no"):
        raise RequestRefused(f"{TRAIN_HEADER} is yes or no, not {train!r}", field=TRAIN_HEADER)
    named = session_name(candidates)
    return Caller(request[OWNER], named, kind, user, train == "no")  # type: ignore[arg-type]


def reply_headers(job: Any) -> dict[str, str]:
    """Return the headers that tell a client its session and what to give feedback on."""
    return {SESSION_HEADERS[0]: job.place.session, ID_HEADER: job.id}


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "clawgym"}


def _exported(turn: Turn, feedback: list[dict[str, Any]]) -> bytes:
    row = {**turn.to_json(), "feedback": feedback}
    return (json.dumps(row, ensure_ascii=False) + "\n").encode(errors="surrogatepass")


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


def _key(request: web.Request) -> str:
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return request.headers.get("x-api-key", "").strip()


def _authentication(keys: Keys, access: Mapping[str, Access], rate: RateLimit) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        needed = access.get(resource.canonical if resource else "", "user")
        if needed == "open":
            return await handler(request)
        given = _key(request).partition(":")[0]
        owner = keys.owner(given)
        if owner is None:
            message = "missing or wrong API key; send Authorization: Bearer KEY"
            body = error_body(message, "authentication_error", code="invalid_api_key")
            return _error_response(request, body, 401)
        if needed == "admin" and not keys.is_admin(given):
            body = error_body("this route wants the admin key", "permission_error")
            return _error_response(request, body, 403)
        request[OWNER] = owner
        if needed == "user" and request.method == "POST":
            rate.take(owner)
        return await handler(request)

    return check


def _server_error(error: Exception) -> dict[str, Any]:
    if isinstance(error, EngineError):
        return error_body(str(error), "server_error")
    logger.error("a request failed", exc_info=error)
    return error_body(f"{type(error).__name__}: {error}", "server_error")


def _error_response(
    request: web.Request,
    body: dict[str, Any],
    status: int,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """Return an error in the shape the route's vendor uses."""
    if request.path.removeprefix(_session_prefix(request)).startswith("/v1/messages"):
        body = anthropic.error_body(body, status)
    return web.json_response(body, status=status, headers=headers)


def _session_prefix(request: web.Request) -> str:
    session = request.match_info.get("session")
    return "" if session is None else SESSION_PREFIX.replace("{session}", session)


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except TooManyRequests as error:
        body = error_body(str(error), "rate_limit_error", code="rate_limit_exceeded")
        after = {"Retry-After": f"{error.retry_after_s:.0f}"}
        return _error_response(request, body, error.status, after)
    except ValidationError as error:  # a body that fits its route's model, but not the chat's
        refused = refusal(error)
        return _error_response(request, error_body(str(refused), field=refused.field), 400)
    except RequestRefused as error:
        code = "context_length_exceeded" if isinstance(error, ContextOverflow) else ""
        kind = "not_found_error" if error.status == 404 else "invalid_request_error"
        body = error_body(str(error), kind, field=error.field, code=code)
        return _error_response(request, body, error.status)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        message = f"{error.reason}: {request.method} {request.path}"
        allowed = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
        return _error_response(request, error_body(message), error.status, allowed)
    except ConnectionResetError:  # the client has left
        raise
    except Exception as error:  # a fault of ours must reach the client in the shape it reads
        return _error_response(request, _server_error(error), 500)
