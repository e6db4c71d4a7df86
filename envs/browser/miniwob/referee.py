"""Starts and judges a MiniWoB++ episode by the page's own ``core.js``; nothing is imitated.

Seed and start are upstream's (``Math.seedrandom(seed)``, ``core.startEpisodeReal()``). Two things
differ, so that a verdict does not depend on the machine: the page's clock is set far ahead unless
the task asks for a time limit, and a finished episode stays finished (upstream covers the page and
starts anew on a click).
"""

import importlib.util
import json
from pathlib import Path
from typing import Any

from envs.browser.browser import BrowserLost
from envs.browser.driver import REMEDY
from envs.browser.referee import Ruling
from envs.browser.session import Session
from envs.browser.site import Site
from envs.errors import MissingDependency, SetupError, TaskError
from envs.sandbox.protocol import Sandbox
from envs.types import Task, Verdict

BASE = "http://miniwob.test/"
NO_LIMIT_S = 1_000_000.0
RULES = ("raw", "positive", "binary", "threshold")
BEGIN = """(() => {
Math.seedrandom(%s);
core.EPISODE_MAX_TIME = %d;
core.startEpisodeReal();
core.startEpisode = () => {};
document.getElementById("reward-display").style.display = "none";
document.documentElement.dataset.episode = %s;
})()"""
READY = "typeof WOB_TASK_READY === 'undefined' || WOB_TASK_READY"
GOAL = "(u => typeof u === 'string' ? u : u.utterance)(core.getUtterance())"
STATE = """(typeof core === "undefined" || document.documentElement.dataset.episode !== %s) ? null :
[WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL, WOB_REWARD_GLOBAL, String(WOB_REWARD_REASON)]"""
LOADED = "document.readyState === 'complete' && typeof core !== 'undefined' && !!core.cover_div"
READY_TRIES = 400


def pages() -> Path:
    """Return the folder of the installed package's pages. Raises ``MissingDependency``."""
    found = importlib.util.find_spec("miniwob")
    if found is None or not found.origin:
        raise MissingDependency("the package miniwob is not installed", REMEDY)
    return Path(found.origin).parent / "html"


class MiniWob:
    """A ``Referee``. Raises ``TaskError``, ``MissingDependency``."""

    hide = "#query, #reward-display, #sync-task-cover, #click-canvas"

    def __init__(self, task: Task) -> None:
        self.name, self.seed = str(task.data["miniwob"]), int(task.data.get("seed", 0))
        self.rule_name = str(task.data.get("reward", "raw"))
        self.threshold = float(task.data.get("threshold", 1.0))
        self.limit_s = float(task.data.get("time_s") or NO_LIMIT_S)
        folder = pages()
        if not (folder / "miniwob" / f"{self.name}.html").is_file():
            raise TaskError(f"{task.id}: no MiniWoB++ page {self.name!r}")
        if self.rule_name not in RULES:
            raise TaskError(f"{task.id}: reward={self.rule_name!r}: choose of {', '.join(RULES)}")
        self.site = Site(folder=folder, base=BASE)
        self.start = f"{BASE}miniwob/{self.name}.html"
        self._mark = json.dumps(f"{self.name}/{self.seed}")

    async def begin(self, session: Session) -> str:
        """See ``Referee.begin``. Raises ``SetupError``."""
        tab = session.front()
        await _until(session, LOADED, "load")
        await tab.main(BEGIN % (self.seed, round(self.limit_s * 1000), self._mark))
        await _until(session, READY, "become ready")
        return str(await tab.main(GOAL))

    async def rule(self, session: Session) -> Ruling:
        """See ``Referee.rule``: the reward rules are upstream's, cut to [0, 1]."""
        tab = session.front()
        state: list[Any] | None = None
        try:
            if not tab.opened.is_set():
                state = await session.racing(tab, tab.main(STATE % self._mark))
        except TimeoutError:
            raise BrowserLost("the page does not tell its reward") from None
        if tab.opened.is_set():
            return Ruling(False, Verdict(0.0, detail="a dialog is open"), {})
        if state is None:
            return Ruling(False, Verdict(0.0, detail="the task's page is not shown any more"), {})
        done, raw, timed, reason = state
        told = {"raw_reward": float(raw), "timed_reward": float(timed), "reason": reason}
        if not done:
            return Ruling(False, Verdict(0.0, detail="not done yet"), told)
        reward = scored(float(raw), self.rule_name, self.threshold)
        verdict = Verdict(reward, detail=f"raw {raw:g}: {reason}")
        return Ruling(True, verdict, told)

    def confirm(self, ruling: Ruling, sandbox: Sandbox) -> Ruling:
        """See ``Referee.confirm``."""
        return ruling


def scored(raw: float, rule: str, threshold: float = 1.0) -> float:
    """Return a reward in [0, 1]: the raw one, whether it is positive (BrowserGym's rule), whether
    it is 1 (upstream's ``binary``), or whether it reaches the threshold (upstream's too)."""
    if rule == "raw":
        return min(max(raw, 0.0), 1.0)
    if rule == "positive":
        return float(raw > 0)
    return float(raw >= threshold if rule == "threshold" else raw == 1.0)


async def _until(session: Session, condition: str, what: str) -> None:
    import asyncio

    for _ in range(READY_TRIES):
        if await session.front().main(condition):
            return
        await asyncio.sleep(0.02)
    raise SetupError(f"the page {session.front().page.url} does not {what}")
