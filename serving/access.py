"""Who asks: the key of a request, the session and the wishes it names."""

from collections.abc import Mapping

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from .answers import refuse
from .errors import RequestRefused
from .jobs import Caller
from .keys import SESSION_HEADERS, Keys, RateLimit, session_name
from .protocol import error_body
from .routes import Access

KIND_HEADER = "X-Turn-Kind"
TRAIN_HEADER = "X-Train"
OWNER = web.RequestKey("owner", str)  # name of the key a request came with


def authentication(keys: Keys, access: Mapping[str, Access], rate: RateLimit) -> Middleware:
    """Return what lets in only those who may use a route.

    Args:
        access: of each path; those not named are the users'.
        rate: of their requests.
    """

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
            return refuse(request, body, 401)
        if needed == "admin" and not keys.is_admin(given):
            body = error_body("this route wants the admin key", "permission_error")
            return refuse(request, body, 403)
        request[OWNER] = owner
        if needed == "user" and request.method == "POST":
            rate.take(owner)
        return await handler(request)

    return check


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


def _key(request: web.Request) -> str:
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return request.headers.get("x-api-key", "").strip()
