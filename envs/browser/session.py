"""One episode's tabs in a browser: a clean profile, opened, acted in, looked at, closed.

All methods run on the driver's loop (``Driver.run``). An action is over when no request is under
way and the page stays as it is for some frames, not after a fixed time.
"""

import asyncio
import base64
import io
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from envs.browser.browser import ANSWER_S, Browser, BrowserLost
from envs.browser.site import BLANK, Page, Site
from envs.browser.tab import Navigated, Tab
from envs.gui.actions import BadAction
from envs.gui.tree import Node

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from playwright.async_api import BrowserContext, Download, Request, Route
    from playwright.async_api import Page as PlaywrightPage

T = TypeVar("T")
SETTLE_S = 2.0
PATIENCE_S = 30.0  # then a page is held to compute without end
QUIET_FRAMES = 2
MOST_NODES, MOST_CHARS, MOST_VISITS, WALK_MS = 1200, 100_000, 20000, 8000
MOST_DOM = 60000
MOST_TABS = 8
MOST_NOTES = 8
DOWNLOADS = "/workspace/downloads"
CLEAR_CLIPBOARD = """(() => { const area = document.body.appendChild(
document.createElement("textarea")); area.value = " "; area.select();
document.execCommand("copy"); area.remove(); })()"""


@dataclass(frozen=True)
class View:
    """What is to be seen.

    Attributes:
        tree: elements in document order; those outside the page's picture say ``offscreen``.
        cut: there are more elements than are shown.
        dom: the page's markup, pruned; "" when not asked for.
        screenshot: height × width × 3, or None when not asked for.
        url, title: of the active tab.
        tabs: address of every tab.
        active: place of the active tab in ``tabs``.
        dialog: kind and words of the open dialog, or "".
        downloads: names of finished downloads, in order.
        settled: the page had come to rest.
        notes: what happened besides, in words: refused addresses, closed tabs, stopped scripts.
    """

    tree: tuple[Node, ...] = ()
    cut: bool = False
    dom: str = ""
    screenshot: "NDArray[np.uint8] | None" = None
    url: str = BLANK
    title: str = ""
    tabs: tuple[str, ...] = ()
    active: int = 0
    dialog: str = ""
    downloads: tuple[str, ...] = ()
    settled: bool = True
    notes: tuple[str, ...] = ()


class Session:
    """See the module.

    Args:
        browser: stays its owner's.
        site: which addresses exist.
        width, height: of the page's picture, in pixels.
        see: what a look holds: ``tree``, ``dom``, ``screenshot``.
        hide: CSS selector of elements that a look leaves out, or "".
        patience_s: how long a page may not answer before its scripts are stopped.
    """

    def __init__(
        self,
        browser: Browser,
        site: Site,
        width: int,
        height: int,
        see: frozenset[str],
        hide: str = "",
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.browser, self.site = browser, site
        self.width, self.height, self.see = width, height, see
        self.hide, self.patience_s = hide, patience_s
        self.tabs: list[Tab] = []
        self.active: Tab | None = None
        self.view = View()
        self.downloads: list[str] = []
        self._notes: list[str] = []
        self._requests = 0
        self._next_id = 1
        self._context: BrowserContext | None = None
        self._pending: set[asyncio.Task[Any]] = set()

    async def open(self, url: str) -> None:
        """Make the profile and load the first page. Raises ``BrowserLost``."""
        self.browser.num_sessions += 1
        self._context = context = await self.browser.playwright.new_context(
            viewport={"width": self.width, "height": self.height}, service_workers="block",
            accept_downloads=True, locale="en-US", timezone_id="UTC", reduced_motion="reduce",
        )  # fmt: skip
        context.on("page", self._on_page)
        context.on("request", lambda _: self._count(1))
        context.on("requestfinished", lambda _: self._count(-1))
        context.on("requestfailed", lambda _: self._count(-1))
        await context.route("**/*", self._on_route)
        page = await context.new_page()
        tab = self._tab(page)
        protocol = await tab.protocol()
        target = (await protocol.send("Target.getTargetInfo"))["targetInfo"]
        await self.browser.protocol.send(
            "Browser.setDownloadBehavior",
            {"behavior": "allow", "browserContextId": target["browserContextId"],
             "downloadPath": DOWNLOADS, "eventsEnabled": True},
        )  # fmt: skip
        await protocol.send(
            "Runtime.evaluate", {"expression": CLEAR_CLIPBOARD, "userGesture": True}
        )
        if url != BLANK:
            await self.load(url)

    async def load(self, url: str) -> None:
        """Load an address in the active tab. Raises ``BadAction``: refused, or not to be had."""
        from playwright.async_api import Error

        if self.site.answer(url) is None:
            raise BadAction(f"{url[:100]} is not among the addresses that exist here")
        tab = self.front()
        try:
            await self.racing(tab, tab.keep_names(False))
            await self.racing(tab, tab.page.goto(url, wait_until="commit", timeout=0))
        except TimeoutError:
            self.note(f"{url[:100]} takes long to load")
        except Error as error:
            if tab.crashed or "Target" in str(error):
                raise BrowserLost(f"the page ended: {error}") from error
            if "is starting" not in str(error):  # its download or a reply without content
                raise BadAction(f"{url[:100]} does not load: {_first_line(error)}") from None

    def front(self) -> Tab:
        """Return the active tab. Raises ``BrowserLost``."""
        if self.active is None:
            raise BrowserLost("the browser shows no tab")
        return self.active

    async def show(self, tab: Tab) -> None:
        """Bring a tab to the front."""
        self.active = tab
        if tab.dialog is None:
            await tab.page.bring_to_front()

    async def new_tab(self) -> None:
        """Open an empty tab. Raises ``BadAction``: there are too many."""
        assert self._context is not None
        if len(self.tabs) >= MOST_TABS:
            raise BadAction(f"there are {MOST_TABS} tabs already: close one")
        await self._context.new_page()

    async def racing(self, tab: Tab, work: Coroutine[Any, Any, T]) -> T | None:
        """Return what work on a page returns; None when a dialog opened first: most work on a page
        waits until that is answered. Raises ``TimeoutError``: the page does not answer."""
        task = asyncio.ensure_future(work)
        waiter = asyncio.ensure_future(tab.opened.wait())
        try:
            await asyncio.wait({task, waiter}, timeout=self.patience_s,
                               return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
            if task.done():
                return task.result()
            if tab.crashed:
                raise BrowserLost("the page crashed")
            if not waiter.done():
                raise TimeoutError
            return None
        finally:
            waiter.cancel()
            if not task.done():
                self._pending.add(task)
                task.add_done_callback(self._forget)

    async def ask(self, call: str, *arguments: Any) -> Any:
        """Return what the eye answers about the active page; None when a dialog is open.

        A page that computes without end is stopped once and named in the notes.

        Raises:
            Navigated, BrowserLost.
        """
        tab = self.front()
        for stopped in (False, True):
            try:
                return await self.racing(tab, tab.ask(call, *arguments))
            except TimeoutError:
                if stopped:
                    raise BrowserLost("the page does not answer") from None
                await asyncio.wait_for(tab.stop_scripts(), ANSWER_S)
                self.note("the page's script ran without end and was stopped")
        raise AssertionError("not reached")

    async def look(self, settle_s: float = SETTLE_S) -> View:
        """Wait until nothing moves and return what is to be seen. Raises ``BrowserLost``."""
        await self._keep_a_tab()
        seen, settled = await self._read(settle_s)
        tab = self.front()
        old = self.view
        picture, tree, dom, cut, title = old.screenshot, old.tree, old.dom, old.cut, old.title
        if seen is not None:
            tree = _nodes(seen["rows"])
            dom, cut, title = seen.get("dom", ""), seen["cut"], seen["title"]
            self._next_id = seen["next"]
            if "screenshot" in self.see:
                fresh = await self._picture(tab)
                picture = picture if fresh is None else fresh
        dialog = ""
        if tab.dialog is not None:
            dialog = f'{tab.dialog.type} "{tab.dialog.message[:400]}"'
            tree, dom = (), ""
        notes, self._notes = self._notes, []
        self.view = View(
            tree=tree, cut=cut, dom=dom, title=title, url=tab.page.url, dialog=dialog,
            screenshot=picture if "screenshot" in self.see else None,
            tabs=tuple(each.page.url for each in self.tabs), active=self.tabs.index(tab),
            downloads=tuple(self.downloads), settled=settled and not dialog,
            notes=tuple(notes[:MOST_NOTES]),
        )  # fmt: skip
        return self.view

    async def answer_dialog(self, accept: bool, text: str | None) -> None:
        """Answer the open dialog. Raises ``BadAction``: there is none."""
        tab = self.front()
        dialog = tab.dialog
        if dialog is None:
            raise BadAction("no dialog is open")
        tab.dialog = None
        tab.opened.clear()
        # What the dialog had interrupted goes on and may open the next one.
        await self.racing(tab, dialog.accept(text or "") if accept else dialog.dismiss())

    def note(self, text: str) -> None:
        """Remember something for the next look."""
        if text not in self._notes:
            self._notes.append(text)

    async def close(self) -> None:
        """End the profile and everything in it. Raises what Playwright raises."""
        if self._context is None:
            return
        for tab in self.tabs:
            if tab.dialog is not None:
                dialog, tab.dialog = tab.dialog, None
                await asyncio.wait_for(dialog.dismiss(), ANSWER_S)
        context, self._context = self._context, None
        await asyncio.wait_for(context.close(), ANSWER_S)
        for task in list(self._pending):
            task.cancel()

    # ------------------------------------------------------------- inside

    async def _read(self, settle_s: float) -> tuple[dict[str, Any] | None, bool]:
        """Read the page once it rests; None when a dialog is open. True: it came to rest."""
        loop = asyncio.get_running_loop()
        end = loop.time() + settle_s
        limits = {"frames": QUIET_FRAMES, "first": self._next_id, "most": MOST_NODES,
                  "chars": MOST_CHARS, "visits": MOST_VISITS, "ms": WALK_MS, "hide": self.hide,
                  "dom": MOST_DOM if "dom" in self.see else 0}  # fmt: skip
        tries = 0
        while self.front().dialog is None:
            left = max(end - loop.time(), 0.0)
            try:
                limits["settle"] = left * 1000
                if not self.front().has_names:
                    await self._name_things(limits)
                seen = await self.ask("rest", limits)
            except Navigated:
                tries += 1
                if tries > 50 and not left:
                    raise BrowserLost("the page is replaced without end") from None
                await asyncio.sleep(0.01)
                continue
            if seen is None:
                break
            settled = bool(seen["settled"]) and self._requests <= 0
            if settled or not left:
                return seen, settled
            if self._requests > 0:
                await asyncio.sleep(0.01)
        return None, False

    async def _name_things(self, limits: dict[str, Any]) -> None:
        """Before the first look at a document of a size that can be named."""
        first = await self.ask("still", limits)
        if first is not None and not first["big"]:
            tab = self.front()
            await self.racing(tab, tab.keep_names(True))

    async def _picture(self, tab: Tab) -> "NDArray[np.uint8] | None":
        protocol = await tab.protocol()
        wanted = {"format": "png", "optimizeForSpeed": True}
        try:
            shot = await self.racing(tab, protocol.send("Page.captureScreenshot", wanted))
        except TimeoutError:
            raise BrowserLost("the page gives no picture") from None
        return None if shot is None else _pixels(shot["data"], self.width, self.height)

    async def _keep_a_tab(self) -> None:
        for tab in list(self.tabs):
            if tab.crashed:
                raise BrowserLost(f"the page {tab.page.url[:100]} crashed")
        if not self.tabs:
            assert self._context is not None
            self.note("the last tab was closed; an empty one is open")
            await self._context.new_page()
        if self.active is None or self.active not in self.tabs:
            await self.show(self.tabs[-1])

    def _tab(self, page: "PlaywrightPage") -> Tab:
        for tab in self.tabs:
            if tab.page is page:
                return tab
        tab = Tab(page)
        self.tabs.append(tab)
        self.active = tab
        page.on("close", self._on_close)
        page.on("download", self._on_download)
        page.on("websocket", lambda socket: self._refuse(socket.url))
        return tab

    def _on_page(self, page: "PlaywrightPage") -> None:
        if len(self.tabs) >= MOST_TABS:
            self.note(f"a popup was closed: there are {MOST_TABS} tabs already")
            self._later(page.close())
            return
        self._tab(page)

    def _on_close(self, page: "PlaywrightPage") -> None:
        gone = [tab for tab in self.tabs if tab.page is page]
        self.tabs = [tab for tab in self.tabs if tab.page is not page]
        for tab in gone:
            tab.opened.set()
        if self.active in gone:
            self.active = self.tabs[-1] if self.tabs else None

    def _on_download(self, download: "Download") -> None:
        self._count(1)
        self._later(self._downloaded(download))

    async def _downloaded(self, download: "Download") -> None:
        try:
            failure = await asyncio.wait_for(download.failure(), ANSWER_S)
        except TimeoutError:
            failure = "it does not end"
        finally:
            self._count(-1)
        name = download.suggested_filename[:100]
        if failure:
            self.note(f"the download of {name} failed: {failure}")
        else:
            self.downloads.append(name)

    def _count(self, more: int) -> None:
        self._requests += more

    def _refuse(self, url: str) -> None:
        self.note(f"refused: {url[:100]}")

    async def _on_route(self, route: "Route", request: "Request") -> None:
        from playwright.async_api import Error

        found = self.site.answer(request.url)
        try:
            if isinstance(found, Page):
                headers = {"content-type": found.type, "cache-control": "no-store"}
                if found.attachment:
                    headers["content-disposition"] = "attachment"
                await route.fulfill(status=found.status, headers=headers, body=found.body)
            elif found == "network":
                await route.continue_()
            else:
                self._refuse(request.url)
                await route.abort("blockedbyclient")
        except Error:
            return  # the page that asked is gone

    def _later(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._pending.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._pending.discard(task)
        if not task.cancelled():
            task.exception()  # looked at: what it was part of is over


def _nodes(rows: Sequence[Sequence[Any]]) -> tuple[Node, ...]:
    """Turn the eye's rows into records, without labels that repeat what a control is called."""
    said = {row[3] for row in rows if row[2] not in ("label", "generic", "box")}
    return tuple(
        Node(number, depth, role, name, value, (box[0], box[1], box[2], box[3]), tuple(states))
        for number, depth, role, name, value, box, states in rows
        if role != "label" or name not in said
    )


def _pixels(data: str, width: int, height: int) -> "NDArray[np.uint8]":
    """Return a picture of exactly this size: a page may be asked while it changes its own."""
    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode(data))) as image:
        picture = image.convert("RGB")
        if picture.size != (width, height):
            picture = picture.resize((width, height))
        return np.asarray(picture, dtype=np.uint8)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200]
