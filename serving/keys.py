"""Who may ask, and how often: API keys, the session a request names, rate limits.

A key file is made at the first start, readable for its owner alone. Further keys, one ``NAME KEY``
per line, give each person sessions of their own; the admin key alone moves weights.
"""

import contextlib
import hmac
import logging
import math
import os
import secrets
import time
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path

from .errors import RequestRefused, TooManyRequests

logger = logging.getLogger(__name__)

LONGEST_SESSION = 256  # characters
SESSION_HEADERS = (
    "X-Session-Id",
    "X-Session-Affinity",
    "X-Conversation-Id",
    "X-Thread-Id",
    "Session-Id",
    "session_id",
    "X-Claude-Code-Session-Id",
)


def check_api_key(api_key: str) -> None:
    """Refuse a key that no ``Authorization: Bearer KEY[:SESSION]`` can carry.

    Raises:
        ValueError: empty, with a colon, control characters or white space around.
    """
    if not api_key or ":" in api_key or api_key != api_key.strip() or not is_plain(api_key):
        raise ValueError(
            "an API key must not be empty nor hold ':' (it parts key and session), control "
            "characters or white space around it"
        )


def stored_key(path: Path) -> str:
    """Return the key in a file, made with mode 0600 if there is none.

    Raises:
        OSError: the file cannot be read or written.
        ValueError: what it holds is no key.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        made = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(24) + "\n")
        with contextlib.suppress(FileExistsError):  # another server was faster: its key counts
            os.link(made, path)
        made.unlink()
    if path.stat().st_mode & 0o077:
        logger.warning("%s can be read by others: chmod 600 it", path)
    key = path.read_text().strip()
    check_api_key(key)
    return key


def read_keys(path: Path) -> dict[str, str]:
    """Return key → name of a file with one ``NAME KEY`` per line; ``#`` begins a comment.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is no name and key; names the line.
    """
    keys: dict[str, str] = {}
    for number, text in enumerate(path.read_text().splitlines(), 1):
        words = text.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or words[1] in keys or ":" in words[0]:
            raise ValueError(f"{path}, line {number}: write NAME KEY, each key once, no ':'")
        check_api_key(words[1])
        keys[words[1]] = words[0]
    return keys


class Keys:
    """Who holds which key.

    Args:
        api_key: of the owner called "".
        admin_key: opens the admin routes, and all others; by default ``api_key`` does.
        others: further keys and their owners' names.

    Raises:
        ValueError: a key that no client could send.
    """

    def __init__(
        self, api_key: str, admin_key: str | None = None, others: Mapping[str, str] | None = None
    ) -> None:
        self._owners = {**(others or {}), api_key: ""}
        self._admin = admin_key or api_key
        for key in (*self._owners, self._admin):
            check_api_key(key)

    def owner(self, given: str) -> str | None:
        """Return the name of a key's owner, or None for a wrong key."""
        found = None
        for key, name in (*self._owners.items(), (self._admin, "")):
            if hmac.compare_digest(_bytes(given), _bytes(key)):
                found = name
        return found

    def is_admin(self, given: str) -> bool:
        """Whether a key opens the admin routes."""
        return hmac.compare_digest(_bytes(given), _bytes(self._admin))


class RateLimit:
    """A bucket of requests per key, refilled evenly.

    Args:
        per_minute: requests a minute, also the most at once; 0 is without limit.
        clock: seconds, for tests.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # owner → (requests left, when)

    def take(self, owner: str) -> None:
        """Take one request.

        Raises:
            TooManyRequests: none is left; says when one is.
        """
        if not self._per_minute:
            return
        now = self._clock()
        left, then = self._buckets.get(owner, (float(self._per_minute), now))
        left = min(float(self._per_minute), left + (now - then) * self._per_minute / 60)
        if left < 1:
            self._buckets[owner] = (left, now)
            wait_s = (1 - left) * 60 / self._per_minute
            raise TooManyRequests(
                f"more than {self._per_minute} requests a minute with this key", math.ceil(wait_s)
            )
        self._buckets[owner] = (left - 1, now)


def session_name(candidates: Mapping[str, str | None]) -> str | None:
    """Return the first session's name given, fit for a response header, or None.

    Args:
        candidates: where it was given → the name.

    Raises:
        RequestRefused: too long, or control characters.
    """
    for where, name in candidates.items():
        if name:
            if len(name) > LONGEST_SESSION or not is_plain(name):
                raise RequestRefused(
                    f"{where}: a session's name has at most {LONGEST_SESSION} characters "
                    "and no control characters",
                    field=where,
                )
            return name
    return None


def is_plain(text: str) -> bool:
    """Whether a text holds no control character, line separator or broken UTF-8."""
    # what can be printed holds none, and is told at once
    return text.isprintable() or not any(
        unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in text
    )


def _bytes(text: str) -> bytes:
    """Return a header's text as it was sent, be it UTF-8 or not."""
    return text.encode(errors="surrogateescape")
