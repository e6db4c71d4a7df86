"""The table of routes, from which both the router and the OpenAPI document are made."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from aiohttp import web
from pydantic import ValidationError

from .protocol import Wire, refusal

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Access = Literal["open", "user", "admin"]


@dataclass(frozen=True)
class Route:
    """One route.

    Attributes:
        method, path: path parameters in braces.
        handler: answers it.
        summary: what it does, in one line.
        body: the model its JSON body must fit, or None.
        access: ``open`` to all, to every key's owner, or to the admin.
        by_session: also served under ``/s/{session}``.
        media: type of its answer.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    body: type[Wire] | None = None
    access: Access = "user"
    by_session: bool = False
    media: str = "application/json"


Body = TypeVar("Body", bound=Wire)

SESSION_PREFIX = "/s/{session}"


def paths(route: Route) -> list[str]:
    """Return every path a route is served at."""
    return [route.path, *([SESSION_PREFIX + route.path] if route.by_session else [])]


async def read(request: web.Request, model: type[Body]) -> Body:
    """Return the body of a request as its wire model.

    Raises:
        RequestRefused: it does not fit; names the first field at fault.
    """
    raw = await request.read()
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise refusal(error) from error


def openapi(routes: "list[Route]", version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the routes."""
    documented: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Any] = {}
    for route in routes:
        operation = _operation(route, schemas)
        for path in (re.sub(r":[^}]*", "", path) for path in paths(route)):
            names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
            parameters = [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in names
            ]
            entry = {**operation, **({"parameters": parameters} if parameters else {})}
            documented.setdefault(path, {})[route.method.lower()] = entry
    return {
        "openapi": "3.1.0",
        "info": {"title": "clawgym policy server", "version": version},
        "paths": documented,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    error = {"description": "refused; the body says why", "content": {"application/json": {}}}
    media: dict[str, Any] = {route.media: {}}
    codes = ["400", "404", "413", "415", "429", "500", "503"]
    if route.access != "open":
        codes += ["401", "403"]
    operation: dict[str, Any] = {
        "summary": route.summary,
        "responses": {
            "200": {"description": "done", "content": media},
            **dict.fromkeys(sorted(codes), error),
        },
    }
    if route.access == "open":
        operation["security"] = []
    if route.body is not None:
        schema = route.body.model_json_schema(
            ref_template="#/components/schemas/{model}", by_alias=True
        )
        schemas.update(schema.pop("$defs", {}))
        schemas[route.body.__name__] = schema
        reference = {"$ref": f"#/components/schemas/{route.body.__name__}"}
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": reference}},
        }
    return operation
