"""One tab: its page, the world beside it in which the eye sits, and what opened over it."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.browser.browser import BrowserLost

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Dialog, Page

EYE = (Path(__file__).parent / "eye.js").read_text("utf-8")
WORLD = "clawgym"
GONE = ("Cannot find context", "context was destroyed", "context with specified id",
        "Inspected target navigated", "No frame for given id", "uniqueContextId")  # fmt: skip


class Navigated(Exception):
    """The document went away under a question; ask the next one."""


class Tab:
    """A tab of a session. All methods run on the driver's loop."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.dialog: Dialog | None = None
        self.opened = asyncio.Event()  # a dialog is open
        self.crashed = False
        self.has_names = False
        self._protocol: CDPSession | None = None
        self._frame = ""
        self._world: int | None = None
        page.on("dialog", self._on_dialog)
        page.on("crash", self._on_crash)
        page.on("framenavigated", self._on_navigated)

    async def protocol(self) -> "CDPSession":
        """Return the page's own DevTools session."""
        if self._protocol is None:
            self._protocol = await self.page.context.new_cdp_session(self.page)
            tree = await self._protocol.send("Page.getFrameTree")
            self._frame = tree["frameTree"]["frame"]["id"]
        return self._protocol

    async def ask(self, call: str, *arguments: Any) -> Any:
        """Return what the eye answers, JSON values. Raises ``Navigated``, ``BrowserLost``."""
        protocol = await self.protocol()
        written = ", ".join(json.dumps(argument) for argument in arguments)
        answer = await self._evaluate(protocol, f"eye.{call}({written})")
        return answer.get("value")

    async def handle(self, call: str, *arguments: Any) -> str:
        """Return the id of the object that the eye answers."""
        protocol = await self.protocol()
        written = ", ".join(json.dumps(argument) for argument in arguments)
        answer = await self._evaluate(protocol, f"eye.{call}({written})", by_value=False)
        return str(answer["objectId"])

    async def main(self, expression: str) -> Any:
        """Return a value of the page's own world: the page's scripts decide what it is."""
        protocol = await self.protocol()
        answer = await self._send(
            protocol, "Runtime.evaluate", expression=expression, returnByValue=True,
            awaitPromise=True,
        )  # fmt: skip
        if "exceptionDetails" in answer:
            raise BrowserLost(f"the page's script failed: {_said(answer)}")
        return answer["result"].get("value")

    async def keep_names(self, on: bool) -> None:
        """Have the engine keep the tree of names and roles: else each that the eye asks for builds
        the whole one, but a document of 10 MB had better have none."""
        if on != self.has_names:
            await (await self.protocol()).send(f"Accessibility.{'enable' if on else 'disable'}")
            self.has_names = on

    async def stop_scripts(self) -> None:
        """End what the page is computing."""
        await (await self.protocol()).send("Runtime.terminateExecution")

    async def _evaluate(
        self, protocol: "CDPSession", expression: str, *, by_value: bool = True
    ) -> dict[str, Any]:
        for _ in range(2):
            if self._world is None:
                made = await self._send(
                    protocol, "Page.createIsolatedWorld", frameId=self._frame, worldName=WORLD
                )
                self._world = made["executionContextId"]
                await self._send(
                    protocol, "Runtime.evaluate", expression=EYE, contextId=self._world
                )
            try:
                answer = await self._send(
                    protocol, "Runtime.evaluate", expression=expression, contextId=self._world,
                    returnByValue=by_value, awaitPromise=True,
                )  # fmt: skip
            except Navigated:
                self._world = None
                continue
            if "exceptionDetails" in answer:
                raise BrowserLost(f"the page cannot be read: {_said(answer)}")
            result: dict[str, Any] = answer["result"]
            return result
        raise Navigated

    async def _send(self, protocol: "CDPSession", method: str, **values: Any) -> dict[str, Any]:
        from playwright.async_api import Error

        try:
            answer: dict[str, Any] = await protocol.send(method, values)
        except Error as error:
            if any(word in str(error) for word in GONE):
                raise Navigated from None
            raise
        return answer

    def _on_dialog(self, dialog: "Dialog") -> None:
        if dialog.type == "beforeunload":
            asyncio.get_running_loop().create_task(_quietly(dialog.accept()))
            return
        self.dialog = dialog
        self.opened.set()

    def _on_crash(self, _: "Page") -> None:
        self.crashed = True
        self.opened.set()  # whoever waits need not wait on

    def _on_navigated(self, frame: Any) -> None:
        if frame == self.page.main_frame:
            self._world = None


async def _quietly(work: Any) -> None:
    from playwright.async_api import Error

    try:
        await work
    except Error:
        return  # the page went away


def _said(answer: dict[str, Any]) -> str:
    details = answer["exceptionDetails"]
    return str(details.get("exception", {}).get("description") or details.get("text"))[:300]
