"""The environment of browser tasks."""

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, cast

import gymnasium
import numpy as np
from gymnasium import spaces

from envs.browser import shelf
from envs.browser.actions import Action, Own, parse, to_text
from envs.browser.browser import Browser, BrowserLost
from envs.browser.hands import UPLOADS, Hands
from envs.browser.referee import Referee, Ruling
from envs.browser.referees import referee
from envs.browser.session import SETTLE_S, Session, View
from envs.core import Finish, TaskEnv
from envs.errors import EnvError, MissingDependency, SetupError
from envs.gui.actions import Action as GuiAction
from envs.gui.actions import BadAction, Done, Fail
from envs.gui.drawing import with_marks
from envs.gui.recording import Recording
from envs.gui.tree import Node, render
from envs.sandbox.protocol import SandboxProvider, SandboxSpec
from envs.spaces import Unicode
from envs.types import Task, Verdict

Observe = Literal["tree", "dom", "screenshot", "both", "all"]
SEES: dict[str, frozenset[str]] = {
    "tree": frozenset({"tree"}),
    "dom": frozenset({"dom"}),
    "screenshot": frozenset({"screenshot"}),
    "both": frozenset({"tree", "screenshot"}),
    "all": frozenset({"tree", "dom", "screenshot"}),
}
STEP_S = 120.0
CLOSE_S = 40.0
T = TypeVar("T")


class BrowserObservation(TypedDict, total=False):
    """What the agent sees.

    ``tree`` is the text of ``envs.gui.tree``, ``dom`` the pruned markup, ``screenshot`` height ×
    width × 3; each where asked for. ``tabs`` has a line a tab, the active one marked ``*``;
    ``dialog`` is kind and words of the open one; ``downloads`` names, one a line; ``error`` what
    was wrong with the last action; ``notes`` what happened besides, one a line.
    """

    instruction: str
    tree: str
    dom: str
    screenshot: Any
    url: str
    title: str
    tabs: str
    dialog: str
    downloads: str
    error: str
    notes: str


class Actions(Unicode):
    """The action space: text of ``envs.browser.actions``, or one of its records."""

    def contains(self, x: Any) -> bool:
        """True for text within the length and for actions."""
        return isinstance(x, GuiAction | Own) or super().contains(x)


class BrowserEnv(TaskEnv[BrowserObservation]):
    """A browser with tabs, a mouse and a keyboard.

    Action space: ``Actions``: a line such as ``click 3`` or ``fill 3 hello``, or a record of
    ``envs.browser.actions``. What cannot be done costs a step and is told in ``error``.
    Observation space: ``Dict``, see ``BrowserObservation``.
    Reward: 0 until the end, then the referee's, in [0, 1]; after ``fail`` it is 0.
    Endings: ``terminated`` on ``done`` and ``fail``, when the page itself ends the episode
    (MiniWoB++), and under ``finish="solved"`` as soon as every check holds; ``truncated`` at the
    task's ``max_steps``.

    Task data: ``miniwob``, ``seed``, ``reward`` and ``time_s`` (``envs.browser.miniwob``); or
    ``start`` (address), ``pages`` (address → text), ``folder`` and ``base``, ``allow`` (hosts),
    ``uploads`` (name → text), ``checks`` and ``oracle`` (actions as text).

    Args:
        tasks, finish, render_mode: see ``TaskEnv``.
        sandboxes: where sandboxes come from; not closed, unless ``own_sandboxes`` was called.
        observe: ``tree``, ``dom``, ``screenshot``, ``both`` (tree and screenshot) or ``all``.
        width, height: of the page's picture, in pixels.
        marks: draw each element's id onto the screenshot (set-of-marks).
        record: folder for an animated picture of every episode; ``record_kind`` webp or gif.

    Version history: v0.
    """

    idle = "done"

    def __init__(
        self,
        tasks: Sequence[Task],
        sandboxes: SandboxProvider,
        finish: Finish = "submit",
        render_mode: str | None = None,
        observe: Observe = "tree",
        width: int = 640,
        height: int = 480,
        marks: bool = False,
        record: str | None = None,
        record_kind: str = "webp",
    ) -> None:
        super().__init__(tasks, finish, render_mode)
        if observe not in SEES:
            raise ValueError(f"observe={observe!r}: choose of {', '.join(SEES)}")
        if not (100 <= width <= 4096 and 100 <= height <= 4096):
            raise ValueError(f"a page of {width}x{height}: give 100 to 4096 pixels each way")
        self.see, self.width, self.height = SEES[observe], width, height
        if marks and "screenshot" not in self.see:
            raise ValueError("marks=True draws onto the screenshot: observe=screenshot or both")
        self.marks = marks
        self.recording = Recording(Path(record), record_kind) if record else None
        self._looks = self.see | {"screenshot"} if record else self.see
        self.action_space = Actions(samples=("click 1", "click 50 60", "type a", "wait 0", "back"))
        self.observation_space = cast(
            "spaces.Space[BrowserObservation]", spaces.Dict(self._parts())
        )
        self._sandboxes = sandboxes
        self._owned: SandboxProvider | None = None
        self._browser: Browser | None = None
        self._session: Session | None = None
        self._referee: Referee | None = None
        self._hands: Hands | None = None
        self._spec: SandboxSpec | None = None
        self._oracles: dict[str, tuple[str, ...]] = {}
        self._instruction = ""

    def _parts(self) -> dict[str, spaces.Space[Any]]:
        words = ("instruction", "url", "title", "tabs", "dialog", "downloads", "error", "notes")
        parts: dict[str, spaces.Space[Any]] = {name: Unicode() for name in words}
        parts |= {name: Unicode() for name in ("tree", "dom") if name in self.see}
        if "screenshot" in self.see:
            parts["screenshot"] = spaces.Box(0, 255, (self.height, self.width, 3), np.uint8)
        return parts

    def sandbox_spec(self, task: Task) -> SandboxSpec:
        """Return the sandbox of a task."""
        limits = task.limits
        return SandboxSpec(
            image=task.image,
            memory_bytes=limits.memory_bytes,
            pids=limits.pids,
            disk_bytes=limits.disk_bytes,
            cpus=limits.cpus,
            network=bool(task.data.get("allow")),
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[BrowserObservation, dict[str, Any]]:
        """Start a task: ``options={"task": Task | id}``, else one drawn with ``seed``.

        Raises:
            TaskError: an unknown id, or data that is no browser task.
            EnvError: sandbox, browser or set-up failed.
            MissingDependency: a package is not installed; names the remedy.
        """
        super().reset(seed=seed)
        task = self._choose(options)
        self._referee = referee(task)
        self._end_session()
        try:
            session = self._open(task, self._referee)
            self._session = session
            self._instruction = self._run(self._begin(session, self._referee))
            view = session.view
        except BaseException:
            self._release(well=False)
            raise
        self._task, self._steps, self._verdict = task, 0, None
        if self.recording is not None:
            self.recording.begin(task.id)
        self._transcript = [f"# {self._instruction}"]
        return self._observe(view), {"task": task.id}

    def _open(self, task: Task, rules: Referee) -> Session:
        """Make a session in a warm browser, this environment's own if it has one."""
        spec = self.sandbox_spec(task)
        if self._browser is not None and self._spec != spec:
            self._release(well=True)
        if self._browser is None:
            self._browser = shelf.take(self._sandboxes, spec)
            self._spec = spec
        elif not self._browser.is_well():
            self._release(well=False)
            return self._open(task, rules)
        for name, text in task.data.get("uploads", {}).items():
            self._browser.sandbox.write_file(f"{UPLOADS}/{name}", str(text).encode())
        session = Session(
            self._browser, rules.site, self.width, self.height, self._looks, rules.hide
        )
        self._hands = Hands(session, frozenset(task.data.get("uploads", {})))
        self._run(session.open(rules.start))
        return session

    async def _begin(self, session: Session, rules: Referee) -> str:
        instruction = await rules.begin(session)
        await session.look(SETTLE_S)
        return instruction

    def step(
        self, action: str | Action
    ) -> tuple[BrowserObservation, float, bool, bool, dict[str, Any]]:
        """Do one action.

        Raises:
            gymnasium.error.ResetNeeded: before ``reset`` or after the end.
            EnvError: the world failed; the episode has no reward.
        """
        session, rules, task = self._session, self._referee, self._task
        if session is None or rules is None or task is None or self._verdict is not None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        assert self._browser is not None
        self._steps += 1
        self._browser.sandbox.heartbeat()
        said: Action | None = None
        error = ""
        try:
            said = parse(action) if isinstance(action, str) else action
        except BadAction as bad:
            error = str(bad)
        before = session.view
        error, ruling = self._run(self._act(session, rules, said, error))
        out_of_steps = self._steps >= task.limits.max_steps
        gave_up, says_done = isinstance(said, Fail), isinstance(said, Done)
        solved = self.finish == "solved" and ruling.verdict.solved
        if says_done or solved or out_of_steps or ruling.over:
            ruling = rules.confirm(ruling, self._browser.sandbox)
            solved = solved and ruling.verdict.solved
        terminated = says_done or gave_up or ruling.over or solved
        truncated = out_of_steps and not terminated
        info: dict[str, Any] = {"settled": session.view.settled, **ruling.info}
        reward = 0.0
        if terminated or truncated:
            self._verdict = _final(ruling, gave_up)
            reward, info["verdict"] = self._verdict.reward, self._verdict
        written = action if isinstance(action, str) else _written(action)
        self._record(before, said, f"{written}  [{error}]" if error else written)
        self._transcript.append(f"> {written}" + (f"\n! {error}" if error else ""))
        return self._observe(session.view, error), reward, terminated, truncated, info

    async def _act(
        self, session: Session, rules: Referee, said: Action | None, error: str
    ) -> tuple[str, Ruling]:
        if said is not None and not isinstance(said, Done | Fail):
            assert self._hands is not None
            try:
                await self._hands.do(said)
            except BadAction as bad:
                error = str(bad)
            await session.look(SETTLE_S)
        return error, await rules.rule(session)

    def grade(self) -> Verdict:
        """See ``TaskEnv.grade``."""
        if self._session is None or self._referee is None or self._browser is None:
            raise gymnasium.error.ResetNeeded("call reset() before grade()")
        if self._verdict is None:
            ruling = self._run(self._referee.rule(self._session))
            self._verdict = self._referee.confirm(ruling, self._browser.sandbox).verdict
        return self._verdict

    def oracle(self, task: Task) -> Sequence[str]:
        """Return actions that solve the task: those it carries, or, for MiniWoB++, what the
        scripted solver does on the page, played once in a session of its own.

        Raises:
            EnvError: the world failed.
        """
        if "miniwob" not in task.data:
            return tuple(task.data.get("oracle", ()))
        from envs.browser.miniwob.oracle import solve

        if task.id not in self._oracles:
            env = BrowserEnv([task], self._sandboxes, width=self.width, height=self.height)
            try:
                self._oracles[task.id] = solve(env, task).actions
            finally:
                env.close()
        return self._oracles[task.id]

    @property
    def tree(self) -> tuple[Node, ...]:
        """The elements of the last look, for oracles. Raises ``ResetNeeded`` before ``reset``."""
        if self._session is None:
            raise gymnasium.error.ResetNeeded("call reset() before looking")
        return self._session.view.tree

    def own_sandboxes(self) -> None:
        """Close the provider with the environment: for one that has it to itself."""
        self._owned = self._sandboxes

    def close(self) -> None:
        """Give the browser back. Idempotent."""
        self._release(well=True)
        if self.recording is not None:
            self.recording.end()
        if self._owned is not None:
            shelf.clear(self._owned)
            self._owned.close()

    # ------------------------------------------------------------- inside

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run on the driver's loop; whatever goes wrong there is the world's failure."""
        from playwright.async_api import Error

        assert self._browser is not None
        try:
            return self._browser.driver.run(work, STEP_S)
        except (EnvError, MissingDependency):
            raise
        except TimeoutError:
            raise BrowserLost(f"no answer from the browser within {STEP_S:.0f} s") from None
        except BadAction as error:
            raise SetupError(str(error)) from None
        except (Error, asyncio.CancelledError, OSError) as error:
            raise BrowserLost(f"the browser is gone: {error}") from error

    def _record(self, before: View, said: Action | None, words: str) -> None:
        if self.recording is None or self._session is None:
            return
        self.recording.add(before.screenshot, said, before.tree, f"{self._steps}  {words}")
        if self._verdict is not None:
            end = f"end, reward {self._verdict.reward:g}"
            self.recording.add(self._session.view.screenshot, None, (), end)
            self.recording.end()

    def _observe(self, view: View, error: str = "") -> BrowserObservation:
        tabs = [f"{'*' if place == view.active else ' '} {place + 1} {url[:200]}"
                for place, url in enumerate(view.tabs)]  # fmt: skip
        seen = BrowserObservation(
            instruction=self._instruction,
            url=view.url,
            title=view.title,
            tabs="\n".join(tabs),
            dialog=view.dialog,
            downloads="\n".join(view.downloads),
            error=error,
            notes="\n".join(view.notes),
        )
        if "tree" in self.see:
            more = "\n[there is more than is shown]" if view.cut else ""
            seen["tree"] = render(view.tree) + more
        if "dom" in self.see:
            seen["dom"] = view.dom
        if "screenshot" in self.see:
            shot = view.screenshot
            blank = np.full((self.height, self.width, 3), 255, np.uint8)
            shot = blank if shot is None else shot
            seen["screenshot"] = with_marks(shot, view.tree) if self.marks else shot.copy()
        return seen

    def _end_session(self) -> None:
        """Close the profile; a browser in which that fails is not used again."""
        session, self._session, self._task = self._session, None, None
        if session is None or self._browser is None:
            return
        try:
            self._browser.driver.run(session.close(), CLOSE_S)
            self._browser.clean()
        except Exception:  # whatever it is: the browser is not what it was
            self._release(well=False)

    def _release(self, *, well: bool) -> None:
        if well:
            self._end_session()
        browser, self._browser = self._browser, None
        self._session = self._task = None
        if browser is None:
            return
        if well and self._spec is not None:
            shelf.give(self._sandboxes, self._spec, browser)
        else:
            shelf.drop(self._sandboxes, browser)


def _final(ruling: Ruling, gave_up: bool) -> Verdict:
    """Giving up earns nothing, also where the goal was reached."""
    if gave_up and not ruling.over:
        return Verdict(0.0, detail="fail was the wrong ending")
    return ruling.verdict


def _written(action: Action) -> str:
    try:
        return to_text(action)
    except ValueError:
        return repr(action)
