"""Warm browsers: a session that ended well leaves its browser to the next.

A browser that starts costs two seconds, a session tens of milliseconds. Browsers stand on the shelf
of the provider that lent their sandbox, which closes them with everything else it lent.
"""

import threading
import weakref

from envs.browser.browser import Browser
from envs.sandbox.protocol import SandboxProvider, SandboxSpec

MOST_SESSIONS = 200  # then a fresh one: what a browser leaks ends with it
MOST_IDLE = 8

_lock = threading.Lock()
_idle: "weakref.WeakKeyDictionary[SandboxProvider, list[tuple[SandboxSpec, Browser]]]" = (
    weakref.WeakKeyDictionary()
)


def take(provider: SandboxProvider, spec: SandboxSpec) -> Browser:
    """Return a browser of the caller's own: a warm one, else a new one.

    Raises:
        SandboxError, MissingDependency: see ``Browser`` and ``SandboxProvider.acquire``.
    """
    while (browser := _pop(provider, spec)) is not None:
        if browser.is_well():
            return browser
        drop(provider, browser)
    sandbox = provider.acquire(spec)
    try:
        return Browser(sandbox)
    except BaseException:
        provider.release(sandbox)
        raise


def give(provider: SandboxProvider, spec: SandboxSpec, browser: Browser) -> None:
    """Take a browser back whose sessions have ended well. Never raises."""
    surplus: Browser | None = browser
    if browser.num_sessions < MOST_SESSIONS and browser.playwright.is_connected():
        with _lock:
            shelf = _idle.setdefault(provider, [])
            shelf.append((spec, browser))
            surplus = shelf.pop(0)[1] if len(shelf) > MOST_IDLE else None
    if surplus is not None:
        drop(provider, surplus)


def drop(provider: SandboxProvider, browser: Browser) -> None:
    """End a browser; its sandbox goes back to the provider. Never raises."""
    browser.close()
    provider.release(browser.sandbox)


def clear(provider: SandboxProvider) -> None:
    """End every browser that stands there. Never raises."""
    with _lock:
        shelf = _idle.pop(provider, [])
    for _, browser in shelf:
        drop(provider, browser)


def _pop(provider: SandboxProvider, spec: SandboxSpec) -> Browser | None:
    with _lock:
        shelf = _idle.get(provider, [])
        for place in range(len(shelf) - 1, -1, -1):  # the last one used is the warmest
            if shelf[place][0] == spec:
                return shelf.pop(place)[1]
    return None
