"""The referee of tasks with checks of their own:

    {"kind": "address", "is": …}                       of the active tab
    {"kind": "text" | "value" | "checked", "at": CSS selector, "is": …}
    {"kind": "download", "name": …, "text": …}         a file that was saved, and its text

It judges from a world that the page's scripts do not reach.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envs.browser.referee import Ruling
from envs.browser.session import DOWNLOADS, Session
from envs.browser.site import BLANK, Site
from envs.browser.tab import Navigated
from envs.errors import SandboxFileError, SandboxLimitError, TaskError
from envs.sandbox.protocol import Sandbox
from envs.types import Task, Verdict

KEYS = {"address": {"is"}, "text": {"at", "is"}, "value": {"at", "is"}, "checked": {"at", "is"},
        "download": {"name", "text"}}  # fmt: skip
MOST_BYTES = 1 << 20


class Checks:
    """Judges by the task's ``checks``. Raises ``TaskError`` for data that is no browser task."""

    hide = ""

    def __init__(self, task: Task) -> None:
        data = task.data
        self.task = task
        self.start = str(data.get("start", BLANK))
        folder = data.get("folder")
        self.site = Site(data.get("pages"), Path(folder) if folder else None,
                         str(data.get("base", "")), data.get("allow", ()))  # fmt: skip
        if self.site.answer(self.start) is None:
            raise TaskError(f"{task.id}: its start {self.start!r} is not among its addresses")
        self.checks: Sequence[Mapping[str, Any]] = data.get("checks", ())
        if not self.checks:
            raise TaskError(f"{task.id}: data.checks must be a list of at least one check")
        for check in self.checks:
            kind = check.get("kind") if isinstance(check, Mapping) else None
            if kind not in KEYS or set(check) != {"kind", *KEYS[kind]}:
                raise TaskError(f"{task.id}: {check!r} is no check: see envs.browser.checks")

    async def begin(self, session: Session) -> str:
        """See ``Referee.begin``."""
        return self.task.instruction

    async def rule(self, session: Session) -> Ruling:
        """See ``Referee.rule``."""
        reasons = {_name(check): await self._why_not(session, check) for check in self.checks}
        return Ruling(False, _verdict(reasons), {})

    def confirm(self, ruling: Ruling, sandbox: Sandbox) -> Ruling:
        """See ``Referee.confirm``."""
        saved = [check for check in self.checks if check["kind"] == "download"]
        if not saved:
            return ruling
        failed = set(ruling.verdict.failed)
        reasons = dict.fromkeys(ruling.verdict.passed, "")
        reasons |= dict.fromkeys(failed, ruling.verdict.detail)
        for check in saved:
            reasons[_name(check)] = _saved(sandbox, check)
        return Ruling(ruling.over, _verdict(reasons), ruling.info)

    async def _why_not(self, session: Session, check: Mapping[str, Any]) -> str:
        if check["kind"] == "address":
            url = session.front().page.url
            return "" if url == check["is"] else f"is {url[:100]}"
        if check["kind"] == "download":
            return "" if check["name"] in session.downloads else "nothing of that name was saved"
        try:
            found = await session.ask("check", check["at"], check["kind"])
        except Navigated:
            found = None
        if found is None:
            return "no such element"
        return "" if found == str(check["is"]) else f"is {found[:100]!r}"


def _saved(sandbox: Sandbox, check: Mapping[str, Any]) -> str:
    try:
        data = sandbox.read_file(f"{DOWNLOADS}/{check['name']}", max_bytes=MOST_BYTES)
    except (SandboxFileError, SandboxLimitError) as error:
        return str(error)
    return "" if data.decode("utf-8", "replace") == check["text"] else "holds another text"


def _name(check: Mapping[str, Any]) -> str:
    return f"{check['kind']} {check.get('at') or check.get('name') or ''}".strip()


def _verdict(reasons: Mapping[str, str]) -> Verdict:
    wrong = [(name, why) for name, why in reasons.items() if why]
    return Verdict(
        reward=0.0 if wrong else 1.0,
        passed=tuple(name for name, why in reasons.items() if not why),
        failed=tuple(name for name, _ in wrong),
        detail="; ".join(f"{name}: {why}" for name, why in wrong),
    )
