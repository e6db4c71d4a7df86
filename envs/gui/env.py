"""The environment of desktop tasks."""

import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

import gymnasium
import numpy as np
from gymnasium import spaces

from envs.core import Finish, TaskEnv
from envs.errors import SetupError
from envs.gui import checks
from envs.gui.actions import Action, BadAction, Clipboard, Done, Fail, parse, to_text
from envs.gui.desktop import FOLDER, SETTLE_S, Desktop, View
from envs.gui.drawing import with_marks
from envs.gui.events import events_of
from envs.gui.recording import Recording
from envs.gui.tree import render
from envs.sandbox.protocol import Sandbox, SandboxProvider, SandboxSpec
from envs.spaces import Unicode
from envs.types import Task, Verdict

Observe = Literal["tree", "screenshot", "both"]


class DesktopObservation(TypedDict, total=False):
    """What the agent sees.

    ``tree`` is the text of ``envs.gui.tree``, ``window`` the active window's title, ``pointer``
    x and y in pixels, ``clipboard`` its text after the action ``clipboard``, ``error`` what was
    wrong with the last action, ``screenshot`` height × width × 3 where asked for.
    """

    instruction: str
    tree: str
    window: str
    pointer: str
    clipboard: str
    error: str
    screenshot: Any


class Actions(Unicode):
    """The action space: text of ``envs.gui.actions``, or one of its records."""

    def contains(self, x: Any) -> bool:
        """True for text within the length and for actions."""
        return isinstance(x, Action) or super().contains(x)


class DesktopEnv(TaskEnv[DesktopObservation]):
    """A desktop with windows, a mouse and a keyboard.

    Action space: ``Actions``: a line such as ``click 3`` or ``type hello``, or a record of
    ``envs.gui.actions``. What cannot be done costs a step and is told in ``error``.
    Observation space: ``Dict``, see ``DesktopObservation``; ``tree`` and ``screenshot`` as asked.
    Reward: 0 until the end, then 1 when every check of the task holds, else 0; after ``fail`` it is
    0, and 1 for a task marked ``infeasible``.
    Endings: ``terminated`` on ``done`` and ``fail``, and under ``finish="solved"`` as soon as the
    goal state is reached; ``truncated`` at the task's ``max_steps``.

    Task data: ``files`` (path → text), ``form`` (a window, ``envs.gui.inside.form``) or null,
    ``apps`` (argv lists, started in order), ``checks``, ``oracle`` (actions as text).

    Args:
        tasks, finish, render_mode: see ``TaskEnv``.
        sandboxes: where sandboxes come from; not closed, unless ``own_sandboxes`` was called.
        observe: ``tree``, ``screenshot`` or ``both``.
        width, height: of the screen, in pixels.
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
        width: int = 1024,
        height: int = 768,
        marks: bool = False,
        record: str | None = None,
        record_kind: str = "webp",
    ) -> None:
        super().__init__(tasks, finish, render_mode)
        if observe not in ("tree", "screenshot", "both"):
            raise ValueError(f"observe={observe!r}: choose tree, screenshot or both")
        if not (200 <= width <= 4096 and 200 <= height <= 4096):
            raise ValueError(f"a screen of {width}x{height}: give 200 to 4096 pixels each way")
        self.see = {"tree": ("tree",), "screenshot": ("screenshot",)}.get(
            observe, ("tree", "screenshot")
        )
        if marks and "screenshot" not in self.see:
            raise ValueError("marks=True draws onto the screenshot: observe=screenshot or both")
        self.width, self.height = width, height
        self.marks = marks
        self.recording = Recording(Path(record), record_kind) if record else None
        self._looks = ("tree", "screenshot") if record or marks else self.see
        self.action_space = Actions(samples=("click 1", "click 100 100", "type a", "wait 0"))
        self.observation_space = cast(
            "spaces.Space[DesktopObservation]", spaces.Dict(self._parts())
        )
        self._sandboxes = sandboxes
        self._owned: SandboxProvider | None = None
        self._sandbox: Sandbox | None = None
        self._desktop: Desktop | None = None
        self._view: View | None = None
        self._key = ""  # with which the form signs its state

    def _parts(self) -> dict[str, spaces.Space[Any]]:
        parts: dict[str, spaces.Space[Any]] = {
            name: Unicode() for name in ("instruction", "window", "pointer", "clipboard", "error")
        }
        if "tree" in self.see:
            parts["tree"] = Unicode()
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
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[DesktopObservation, dict[str, Any]]:
        """Start a task: ``options={"task": Task | id}``, else one drawn with ``seed``.

        Raises:
            TaskError: an unknown id, or data that is no desktop task.
            EnvError: sandbox or set-up failed.
        """
        super().reset(seed=seed)
        task = self._choose(options)
        checks.require(task.id, task.data.get("checks"))
        self._release()
        self._sandbox = sandbox = self._sandboxes.acquire(self.sandbox_spec(task))
        try:
            self._desktop = self._set_up(sandbox, task)
            view = self._desktop.step((), self._looks)
        except BaseException:
            self._release()
            raise
        self._task, self._steps, self._verdict = task, 0, None
        if self.recording is not None:
            self.recording.begin(task.id)
        self._transcript = [f"# {task.instruction}"]
        return self._observe(view), {"task": task.id}

    def _set_up(self, sandbox: Sandbox, task: Task) -> Desktop:
        for path, text in task.data.get("files", {}).items():
            sandbox.write_file(path, text.encode())
        desktop = Desktop(sandbox, self.width, self.height)
        form = task.data.get("form")
        for argv in task.data.get("apps", ()):
            desktop.launch(argv)
        if form:  # last, so that nothing covers it
            program = f"{FOLDER}/inside/form.py"
            argv = ["python3", program, json.dumps(form), checks.FORM_STATE]
            self._key = secrets.token_hex(16)
            desktop.launch(argv, said=f"{self._key}\n")
        if not form and not task.data.get("apps"):
            raise SetupError(f"{task.id} starts no application")
        return desktop

    def step(
        self, action: str | Action
    ) -> tuple[DesktopObservation, float, bool, bool, dict[str, Any]]:
        """Do one action.

        Raises:
            gymnasium.error.ResetNeeded: before ``reset`` or after the end.
            EnvError: the world failed; the episode has no reward.
        """
        if self._desktop is None or self._task is None or self._verdict is not None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        assert self._view is not None and self._sandbox is not None
        self._steps += 1
        self._sandbox.heartbeat()
        said: Action | None = None
        error, events = "", []
        try:
            said = parse(action) if isinstance(action, str) else action
            events = events_of(said, self._view.tree, self.width, self.height)
        except BadAction as bad:
            error = str(bad)
        ends = isinstance(said, Done | Fail)
        view = self._view if ends or error else self._desktop.step(events, self._looks, SETTLE_S)
        clip = self._desktop.clipboard() if isinstance(said, Clipboard) else ""
        if view is not self._view and view.ended:
            error = f"an application ended with exit code {view.ended[0]}"
        out_of_steps = self._steps >= self._task.limits.max_steps
        verdict = None
        if ends or out_of_steps or self.finish == "solved":
            verdict = self._judge(last=ends or out_of_steps, failed=isinstance(said, Fail))
        solved = verdict is not None and verdict.solved and self.finish == "solved"
        terminated = ends or solved
        truncated = out_of_steps and not terminated
        info: dict[str, Any] = {"settled": view.settled}
        reward = 0.0
        if verdict is not None and (terminated or truncated):
            self._verdict, reward, info["verdict"] = verdict, verdict.reward, verdict
        written = action if isinstance(action, str) else _written(action)
        self._record(said, written, error, view, ended=terminated or truncated)
        self._transcript.append(f"> {written}" + (f"\n! {error}" if error else ""))
        return self._observe(view, error, clip), reward, terminated, truncated, info

    def grade(self) -> Verdict:
        """See ``TaskEnv.grade``."""
        if self._desktop is None:
            raise gymnasium.error.ResetNeeded("call reset() before grade()")
        if self._verdict is None:
            self._verdict = self._judge(last=True, failed=False)
        return self._verdict

    def oracle(self, task: Task) -> Sequence[str]:
        """Return the actions the task carries."""
        return tuple(task.data.get("oracle", ()))

    def own_sandboxes(self) -> None:
        """Close the provider with the environment: for one that has it to itself."""
        self._owned = self._sandboxes

    def close(self) -> None:
        """Give the sandbox back. Idempotent."""
        self._release()
        if self.recording is not None:
            self.recording.end()
        if self._owned is not None:
            self._owned.close()

    # ------------------------------------------------------------- inside

    def _judge(self, *, last: bool, failed: bool) -> Verdict:
        """Judge every check; a verdict that counts is given with nothing alive beside it."""
        assert self._task is not None and self._sandbox is not None
        infeasible = bool(self._task.data.get("infeasible"))
        if failed or infeasible:
            right = failed and infeasible
            return Verdict(float(right), detail="" if right else "fail was the wrong ending")
        specs: Sequence[Mapping[str, Any]] = self._task.data["checks"]
        if not last and any(checks.judge(self._sandbox, spec, self._key) for spec in specs):
            return Verdict(0.0, detail="not solved yet")
        self._sandbox.kill_processes()
        reasons = [checks.judge(self._sandbox, spec, self._key) for spec in specs]
        names = [checks.name(spec) for spec in specs]
        wrong = [(n, why) for n, why in zip(names, reasons, strict=True) if why]
        return Verdict(
            reward=0.0 if wrong else 1.0,
            passed=tuple(n for n, why in zip(names, reasons, strict=True) if not why),
            failed=tuple(n for n, _ in wrong),
            detail="; ".join(f"{n}: {why}" for n, why in wrong),
        )

    def _record(self, said: Action | None, what: str, error: str, view: View, ended: bool) -> None:
        if self.recording is None or self._view is None:
            return
        words = f"{what}  [{error}]" if error else what
        self.recording.add(self._view.screenshot, said, self._view.tree, f"{self._steps}  {words}")
        if ended:
            result = f"end, reward {self._verdict.reward:g}" if self._verdict else "end"
            self.recording.add(view.screenshot, None, (), result)
            self.recording.end()

    def _observe(self, view: View, error: str = "", clip: str = "") -> DesktopObservation:
        assert self._task is not None
        self._view = view
        seen = DesktopObservation(
            instruction=self._task.instruction,
            window=view.window,
            pointer="{} {}".format(*view.pointer),
            clipboard=clip,
            error=error,
        )
        if "tree" in self.see:
            seen["tree"] = render(view.tree)
        if view.screenshot is not None and "screenshot" in self.see:
            marked = with_marks(view.screenshot, view.tree) if self.marks else view.screenshot
            seen["screenshot"] = marked.copy()
        return seen

    def _release(self) -> None:
        if self._sandbox is not None:
            self._sandboxes.release(self._sandbox)
        self._sandbox = self._desktop = self._task = self._view = None


def _written(action: Action) -> str:
    try:
        return to_text(action)
    except ValueError:
        return repr(action)
