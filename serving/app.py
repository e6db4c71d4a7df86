"""The gateway over HTTP (aiohttp): OpenAI's routes, Anthropic's, ours, and the learner's.

A request names its session by its path (``/s/<session>/v1/…``), its key (``KEY:SESSION``), a
header (``keys.SESSION_HEADERS``), its metadata or ``user``; else the session is inferred from the
messages. ``X-Turn-Kind: main|side`` overrules the content rules of ``fitness``. While weights load,
requests wait; none is refused for it.

Left out in this version: images.
"""

import json
from dataclasses import asdict, replace
from typing import Any

from aiohttp import web

from . import admin, anthropic, chat_bodies, chat_page, responses_api, session_routes
from .access import OWNER, authentication, caller
from .answers import faults, json_answer, stream
from .errors import RequestRefused
from .gateway import Gateway
from .keys import SESSION_HEADERS, Keys, RateLimit
from .protocol import ChatRequest, CompletionRequest
from .routes import Access, Route, openapi, paths, read
from .telemetry import Telemetry

MAX_BODY_BYTES = 32 << 20
RECORDED_HEADER = "X-Recorded"  # of a reply: "no" while the disk takes no turns
ID_HEADER = "X-Response-Id"


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
            faults,
            authentication(keys, access, rate_limit or RateLimit(0)),
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
        self._sessions = session_routes.Handlers(gateway)
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
            Route("GET", "/v1/quality", self.quality, "How replies were judged, by policy version"),
            Route("GET", "/health", self.health, "Live and ready; 503 if not ready", access="open"),
            Route("GET", "/health/live", self.live, "The process answers", access="open"),
            Route("GET", "/health/ready", self.health, "The engine samples", access="open"),
            Route("GET", "/metrics", self._telemetry.metrics, "Prometheus", media="text/plain"),
            Route("GET", "/openapi.json", self.openapi, "This document", access="open"),
            *self._sessions.table(),
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
        return json_answer(
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
        return json_answer(chat_bodies.text_completion(self._gateway, body, jobs, answers))

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
        return json_answer(anthropic.message(body, job, answer), headers=self._headers(job))

    async def count_tokens(self, request: web.Request) -> web.Response:
        body = await read(request, anthropic.CountRequest)
        num = await self._gateway.count(body.chat(), caller(request, {}))
        return json_answer({"input_tokens": num})

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
        return json_answer(responses_api.response(body, job, answer), headers=self._headers(job))

    async def models(self, request: web.Request) -> web.Response:
        name = self._gateway.model_name
        mine = self._gateway.adapters(request[OWNER])
        rows = [_model(name), *(_model(f"{name}:{adapter}") for adapter in mine)]
        page = {"has_more": False, "first_id": rows[0]["id"], "last_id": rows[-1]["id"]}
        return json_answer({"object": "list", "data": rows, **page})

    async def model(self, request: web.Request) -> web.Response:
        asked, name = request.match_info["name"], self._gateway.model_name
        mine = self._gateway.adapters(request[OWNER])
        if asked not in (name, *(f"{name}:{adapter}" for adapter in mine)):
            raise RequestRefused(f"no model {asked!r} here", status=404, field="model")
        return json_answer(_model(asked))

    async def quality(self, request: web.Request) -> web.Response:
        rows = [asdict(point) for point in self._gateway.quality.points]
        return json_answer({"object": "list", "data": rows})

    async def health(self, request: web.Request) -> web.Response:
        stats = self._gateway.engine.stats()
        ready = not stats.get("closed", False)
        version = self._gateway.engine.version
        body: dict[str, Any] = {"live": True, "ready": ready, "version": version}
        if refusal := self._gateway.refusal():
            body["warning"] = f"replies are not recorded: {refusal}; free some space"
        return json_answer(body, status=200 if ready else 503)

    async def live(self, request: web.Request) -> web.Response:
        return json_answer({"live": True})

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


def _model(name: str) -> dict[str, Any]:
    """Return a model as OpenAI's clients read it, and as Anthropic's do."""
    openai = {"object": "model", "created": 0, "owned_by": "clawgym"}
    claude = {"type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
    return {"id": name, **openai, **claude}


def reply_headers(job: Any) -> dict[str, str]:
    """Return the headers that tell a client its session and what to give feedback on."""
    return {SESSION_HEADERS[0]: job.place.session, ID_HEADER: job.id}
