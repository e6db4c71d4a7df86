"""Does an agent's actions in a session. What cannot be done is ``BadAction``, with the reason."""

import asyncio
from typing import Any

from envs.browser.actions import (
    Action,
    Dialog,
    Goto,
    History,
    Press,
    Select,
    Tab,
    Upload,
)
from envs.browser.browser import ANSWER_S, BrowserLost
from envs.browser.session import Session
from envs.browser.site import BLANK
from envs.browser.tab import Navigated
from envs.gui.actions import (
    BadAction,
    Click,
    Drag,
    Element,
    Keys,
    Move,
    Named,
    Point,
    Scroll,
    Target,
    Type,
    Wait,
)
from envs.gui.tree import PASSIVE

UPLOADS = "/workspace/uploads"
NOTCH = 100
MOST_KEYED = 200  # longer texts come in at once, as pasted ones do
DRAG_STEPS = 8
KEYS = {
    "ctrl": "Control", "alt": "Alt", "shift": "Shift", "super": "Meta", "Return": "Enter",
    "KP_Enter": "Enter", "BackSpace": "Backspace", "Page_Up": "PageUp", "Page_Down": "PageDown",
    "Up": "ArrowUp", "Down": "ArrowDown", "Left": "ArrowLeft", "Right": "ArrowRight",
    "space": "Space", "Menu": "ContextMenu", "Caps_Lock": "CapsLock", "plus": "+", "minus": "-",
}  # fmt: skip


class Hands:
    """See the module. ``uploads`` are the names of the files that the task grants."""

    def __init__(self, session: Session, uploads: frozenset[str] = frozenset()) -> None:
        self.session, self.uploads = session, uploads

    async def do(self, action: Action) -> None:
        """Do one action. Raises ``BadAction``, ``BrowserLost``."""
        from playwright.async_api import Error

        session = self.session
        tab = session.front()
        if isinstance(action, Dialog):
            return await session.answer_dialog(action.accept, action.text)
        if isinstance(action, Tab):
            return await self._tab(action.what)
        if tab.dialog is not None and not isinstance(action, Wait):
            raise BadAction("a dialog is open: answer it with dialog accept or dialog dismiss")
        try:
            await session.racing(tab, self._do(action))
        except TimeoutError:
            await asyncio.wait_for(tab.stop_scripts(), ANSWER_S)
            session.note("the page's script ran without end and was stopped")
        except Navigated:
            session.note("the page went away meanwhile")
        except Error as error:
            if tab.page.is_closed() and not tab.crashed:
                session.note("the page closed itself")
                return None
            if tab.crashed or not session.browser.playwright.is_connected():
                raise BrowserLost(f"the page ended: {error}") from error
            raise BadAction(f"that could not be done: {str(error).splitlines()[0][:200]}") from None
        return None

    async def _do(self, action: Action) -> None:
        session = self.session
        mouse, keyboard = session.front().page.mouse, session.front().page.keyboard
        match action:
            case Click(target, button, count, hold):
                await self._click(target, button, count, hold)
            case Move(target):
                await mouse.move(*await self.at(target))
            case Drag(path):
                await self._drag(path)
            case Scroll(target, right, down):
                middle = Point(session.width // 2, session.height // 2)
                await mouse.move(*await self.at(target or middle))
                await mouse.wheel(right * NOTCH, down * NOTCH)
            case Type(text, target):
                await (self._type(text) if target is None else self._fill(target, text))
            case Keys(keys):
                await keyboard.press(_chord(keys))
            case Press(keys, target):
                self._require(await session.ask("focus", self.number(target), False), target)
                await keyboard.press(_chord(keys))
            case Select(target, labels):
                why = await session.ask("select", self.number(target), list(labels))
                self._require(why, target)
            case Upload(target, name):
                await self._upload(target, name)
            case Goto(url):
                await session.load(url)
            case History(way):
                await self._history(way)
            case Wait(seconds):
                await asyncio.sleep(seconds)

    def number(self, target: Target) -> int:
        """Return the id of an element. Raises ``BadAction``: a point, unknown, or not unique."""
        tree = self.session.view.tree
        match target:
            case Element(id=number):
                if not any(node.id == number for node in tree):
                    ids = ", ".join(str(node.id) for node in tree[:40])
                    raise BadAction(f"no element {number} is visible; visible: {ids or 'none'}")
                return number
            case Named(name):
                found = [n for n in tree if n.name == name and n.role not in PASSIVE]
                found = found or [n for n in tree if n.name == name]
                if len(found) != 1:
                    raise BadAction(f"{len(found)} elements are called {name[:40]!r}; give an id")
                return found[0].id
        raise BadAction("this needs an element, not a point")

    async def at(self, target: Target) -> tuple[float, float]:
        """Return a place in the page's picture. Raises ``BadAction``."""
        session = self.session
        if isinstance(target, Point):
            if not (0 <= target.x < session.width and 0 <= target.y < session.height):
                raise BadAction(
                    f"point {target.x} {target.y} is outside the page's picture of "
                    f"{session.width}x{session.height}"
                )
            return target.x, target.y
        number = self.number(target)
        place: dict[str, Any] | None = await session.ask("where", number)
        if place is None or "x" not in place:
            raise BadAction(f"element {number} cannot be seen any more")
        return place["x"], place["y"]

    async def _click(
        self, target: Target | None, button: Any, count: int, hold: tuple[str, ...]
    ) -> None:
        session = self.session
        page = session.front().page
        if target is None:
            for turn in range(count):
                await page.mouse.down(button=button, click_count=turn + 1)
                await page.mouse.up(button=button, click_count=turn + 1)
            return
        if not isinstance(target, Point) and button == "left" and self._is_option(target):
            self._require(await session.ask("select", self.number(target), []), target)
            return
        x, y = await self.at(target)
        for key in hold:
            await page.keyboard.down(KEYS.get(key, key))
        await page.mouse.click(x, y, button=button, click_count=count)
        for key in reversed(hold):
            await page.keyboard.up(KEYS.get(key, key))

    def _is_option(self, target: Target) -> bool:
        number = self.number(target)
        return any(n.id == number and n.role == "option" for n in self.session.view.tree)

    async def _drag(self, path: tuple[Target, ...]) -> None:
        mouse = self.session.front().page.mouse
        x, y = await self.at(path[0])
        await mouse.move(x, y)
        await mouse.down()
        for place in path[1:]:
            x, y = await self.at(place)
            await mouse.move(x, y, steps=DRAG_STEPS)
        await mouse.up()

    async def _type(self, text: str) -> None:
        keyboard = self.session.front().page.keyboard
        if len(text) <= MOST_KEYED:
            await keyboard.type(text)
        else:
            await keyboard.insert_text(text)

    async def _fill(self, target: Target, text: str) -> None:
        keyboard = self.session.front().page.keyboard
        if isinstance(target, Point):
            x, y = await self.at(target)
            await self.session.front().page.mouse.click(x, y)
            await keyboard.press("Control+a")
        else:
            why = await self.session.ask("fill", self.number(target), text)
            if why == "set":
                return
            self._require(why, target)
        if text:
            await self._type(text)
        else:
            await keyboard.press("Delete")

    async def _upload(self, target: Target, name: str) -> None:
        number, tab = self.number(target), self.session.front()
        if name not in self.uploads:
            files = ", ".join(sorted(self.uploads)) or "none"
            raise BadAction(f"no file {name[:40]!r} is granted: {files}")
        self._require(await self.session.ask("file", number), target)
        handle = await tab.handle("node", number)
        protocol = await tab.protocol()
        await protocol.send(
            "DOM.setFileInputFiles", {"files": [f"{UPLOADS}/{name}"], "objectId": handle}
        )

    async def _history(self, way: str) -> None:
        tab = self.session.front()
        if way == "reload":
            await tab.page.reload(wait_until="commit")
            return
        history = await (await tab.protocol()).send("Page.getNavigationHistory")
        place = int(history["currentIndex"]) + (1 if way == "forward" else -1)
        first = place == 0 and history["entries"][0]["url"] == BLANK  # the tab before its start
        if first or not 0 <= place < len(history["entries"]):
            raise BadAction(f"there is nothing to go {way} to")
        move = tab.page.go_forward if way == "forward" else tab.page.go_back
        await move(wait_until="commit")

    async def _tab(self, what: str) -> None:
        session = self.session
        if what == "new":
            await session.new_tab()
        elif what == "close":
            await session.front().page.close()
        elif 1 <= int(what) <= len(session.tabs):
            await session.show(session.tabs[int(what) - 1])
        else:
            raise BadAction(f"no tab {what}: there are {len(session.tabs)}")

    def _require(self, why: object, target: Target) -> None:
        if why:
            raise BadAction(f"element {self.number(target)}: {why}")


def _chord(keys: tuple[str, ...]) -> str:
    names = [KEYS.get(key, key) for key in keys]
    if len(names) > 1 and len(names[-1]) == 1:
        names[-1] = names[-1].lower() if "Shift" not in names else names[-1]
    return "+".join(names)
