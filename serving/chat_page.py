"""The chat page: fixed files under a strict policy; everything it knows comes from the routes.

The page asks for the API key, so the files themselves are open to all. Nothing is loaded from
elsewhere, no script or style stands in the markup, and no text can become markup in a browser that
knows trusted types.
"""

from pathlib import Path

from aiohttp import web

from .errors import RequestRefused
from .routes import Route

FOLDER = Path(__file__).parent / "page"
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class Handlers:
    """Answers with the page's files."""

    def __init__(self) -> None:
        self._files = {
            path.name: path.read_text() for path in FOLDER.iterdir() if path.suffix in TYPES
        }

    def table(self) -> list[Route]:
        """Return the page's routes."""
        return [
            Route("GET", "/", self.index, "The chat page", access="open", media="text/html"),
            Route("GET", "/page/{name}", self.file, "A part of the chat page", access="open",
                  media="*/*"),
        ]  # fmt: skip

    async def index(self, request: web.Request) -> web.Response:
        """Return the page."""
        return self._answer("index.html")

    async def file(self, request: web.Request) -> web.Response:
        """Return what it loads."""
        return self._answer(request.match_info["name"])

    def _answer(self, name: str) -> web.Response:
        if name not in self._files:
            raise RequestRefused(f"the page has no file {name!r}", status=404)
        kind = TYPES[Path(name).suffix]
        return web.Response(text=self._files[name], content_type=kind, headers=HEADERS)
