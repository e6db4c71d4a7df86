"""Routes over what is kept: a caller's sessions, their turns, and what was said of them."""

import asyncio
import json
from typing import Any

from aiohttp import web

from .access import OWNER
from .answers import json_answer
from .errors import RequestRefused
from .gateway import Gateway
from .protocol import FeedbackRequest
from .routes import Route, read
from .turns import Feedback, Turn


class Handlers:
    """Answers the routes of sessions and feedback."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def table(self) -> list[Route]:
        """Return these routes."""
        return [
            Route("POST", "/v1/feedback", self.feedback, "Rate or correct a reply",
                  FeedbackRequest, by_session=True),
            Route("GET", "/v1/sessions", self.sessions, "Your sessions, the last used first"),
            Route("GET", "/v1/sessions/{id}", self.session, "A session's turns as a tree"),
            Route("GET", "/v1/sessions/{id}/export", self.export,
                  "A session's turns with tokens, one JSON line each",
                  media="application/x-ndjson"),
            Route("DELETE", "/v1/sessions/{id}", self.forget, "Delete a session for good"),
        ]  # fmt: skip

    async def feedback(self, request: web.Request) -> web.Response:
        """Keep what a user says of a reply."""
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
        return json_answer({"id": turn_id, "object": "feedback", "session": turn.session})

    async def sessions(self, request: web.Request) -> web.Response:
        """List the caller's sessions."""
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
        return json_answer({"object": "list", "data": rows})

    async def session(self, request: web.Request) -> web.Response:
        """Show the turns of one."""
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
        return json_answer({"id": name, "object": "session", "turns": rows})

    async def export(self, request: web.Request) -> web.StreamResponse:
        """Send the turns of one with their tokens."""
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
        """Delete one."""
        name = request.match_info["id"]
        num = self._gateway.sessions.forget(request[OWNER], name)
        await self._gateway.settle()
        return json_answer({"id": name, "object": "session.deleted", "num_turns": num})

    def _turns(self, request: web.Request) -> list[tuple[Turn, list[dict[str, Any]]]]:
        name = request.match_info["id"]
        found = self._gateway.sessions.turns(request[OWNER], name)
        if not found:
            raise RequestRefused(f"no session {name!r} of yours is kept", status=404, field="id")
        return [(turn, [one.to_json() for one in feedback]) for turn, feedback in found]


def _exported(turn: Turn, feedback: list[dict[str, Any]]) -> bytes:
    row = {**turn.to_json(), "feedback": feedback}
    return (json.dumps(row, ensure_ascii=False) + "\n").encode(errors="surrogatepass")
