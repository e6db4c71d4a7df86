"""Which addresses exist for a session, and what is there.

A task brings its pages: texts by address, or a folder of this machine served read-only under an
address. Both are answered by this process, without any network. Hosts on the allow-list are fetched
by the browser itself, which then needs a network. Everything else is refused, and named.

Example:
    >>> site = Site({"http://shop.test/": "<h1>Shop</h1>"})
    >>> site.answer("http://shop.test/").type
    'text/html; charset=utf-8'
    >>> site.answer("http://evil.test/x") is None, site.answer("file:///etc/passwd") is None
    (True, True)
"""

import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from envs.errors import TaskError

MOST_BYTES = 32 << 20
BLANK = "about:blank"


@dataclass(frozen=True)
class Page:
    """An answer: status, content type, bytes, and whether it is saved rather than shown."""

    body: bytes
    type: str = "text/html; charset=utf-8"
    status: int = 200
    attachment: bool = False


class Site:
    """See the module.

    Args:
        pages: address → text; an address that ends in ``?download`` is saved, not shown.
        folder: directory of this machine, or None.
        base: address of the folder, with a slash at its end.
        allow: hosts that the browser may fetch from a network.

    Raises:
        TaskError: an address that is none, or a folder that is not there.
    """

    def __init__(
        self,
        pages: Mapping[str, str] | None = None,
        folder: Path | None = None,
        base: str = "",
        allow: Sequence[str] = (),
    ) -> None:
        self.pages = dict(pages or {})
        self.folder, self.base = folder, base
        self.allow = tuple(host.lower() for host in allow)
        for address in (*self.pages, *([base] if folder else [])):
            parts = urlsplit(address)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise TaskError(f"{address!r} is no address: http://name.test/page.html")
        if folder is not None and not folder.is_dir():
            raise TaskError(f"{folder} is no directory")
        own = [urlsplit(address).hostname for address in (*self.pages, base)]
        self.hosts = {host.lower() for host in own if host}

    def answer(self, url: str) -> Page | Literal["network"] | None:
        """Return what is there, ``network`` for an allowed host, None for what is refused."""
        if url == BLANK:
            return Page(b"")
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower()
        except ValueError:
            return None
        if parts.scheme not in ("http", "https"):
            return None
        if (found := self._page(url)) is not None:
            return found
        if host in self.allow:
            return "network"
        return Page(b"not found", "text/plain", 404) if host in self.hosts else None

    def _page(self, url: str) -> Page | None:
        plain = url.partition("#")[0]
        for address in (plain, plain.partition("?")[0]):
            for saved, name in ((False, address), (True, f"{address}?download")):
                if name in self.pages:
                    kind = mimetypes.guess_type(urlsplit(address).path)[0] or "text/html"
                    text = kind.startswith("text/") or kind.endswith(("javascript", "json", "xml"))
                    kind += "; charset=utf-8" if text else ""
                    return Page(self.pages[name].encode(), kind, attachment=saved)
        return self._file(plain.partition("?")[0])

    def _file(self, address: str) -> Page | None:
        if self.folder is None or not address.startswith(self.base):
            return None
        folder = self.folder.resolve()
        try:
            path = (folder / unquote(address.removeprefix(self.base))).resolve()
            inside = path.is_relative_to(folder) and path.is_file()
            if not inside or path.stat().st_size > MOST_BYTES:
                return None
            return Page(path.read_bytes(), mimetypes.guess_type(path.name)[0] or "text/plain")
        except (OSError, ValueError):
            return None
