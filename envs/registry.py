"""The table of environments: short names, Gymnasium ids, where tasks and classes are found.

Adding an environment is one row here. Nothing is imported before a row is used.

Example:
    >>> from envs import registry
    >>> env = registry.make("terminal", finish="solved")    # its own sandboxes  # doctest: +SKIP
    >>> registry.register(); env = gymnasium.make("clawgym/Terminal-v0")         # doctest: +SKIP
"""

import difflib
import importlib
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import gymnasium

from envs.core import ShellEnv, TaskEnv
from envs.errors import TaskError
from envs.sandbox.protocol import SandboxProvider
from envs.types import Task


@dataclass(frozen=True)
class Entry:
    """One environment.

    Attributes:
        name: short name, as in ``env=terminal``.
        gym_id: Gymnasium's id.
        env: ``module:class``.
        tasks: ``module:function`` that returns the default task set.
        image: image family its tasks use; "" for an environment without sandboxes.
        prepare: ``module:function`` that makes what the task set needs at set-up time, told where
            to report; "" when there is nothing.
    """

    name: str
    gym_id: str
    env: str
    tasks: str
    image: str
    prepare: str = ""


ENTRIES: tuple[Entry, ...] = (
    Entry(
        "terminal",
        "clawgym/Terminal-v0",
        "envs.terminal.env:TerminalEnv",
        "envs.terminal.tasks:load_tasks",
        "terminal",
    ),
    Entry(
        "swe",
        "clawgym/SWE-v0",
        "envs.swe.env:SWEEnv",
        "envs.swe.tasks:load_tasks",
        "swe",
        "envs.swe.releases:build_missing",
    ),
    Entry("chat", "clawgym/Chat-v0", "envs.chat.env:ChatEnv", "envs.chat.tasks:load_tasks", ""),
    Entry(
        "toolcall",
        "clawgym/ToolCall-v0",
        "envs.toolcall.env:ToolCallEnv",
        "envs.toolcall.tasks:load_tasks",
        "",
    ),
    Entry(
        "code",
        "clawgym/Code-v0",
        "envs.toolcall.code.env:CodeEnv",
        "envs.toolcall.code.tasks:load_tasks",
        "python",
    ),
    Entry(
        "gui",
        "clawgym/Desktop-v0",
        "envs.gui.env:DesktopEnv",
        "envs.gui.tasks:load_tasks",
        "gui",
    ),
    Entry(
        "browser",
        "clawgym/Browser-v0",
        "envs.browser.env:BrowserEnv",
        "envs.browser.miniwob.tasks:load_tasks",
        "gui",
    ),
)


def names() -> list[str]:
    """Return the short names."""
    return [entry.name for entry in ENTRIES]


def find(name: str) -> Entry:
    """Return the row of a short name or Gymnasium id. Raises ``TaskError`` with the nearest."""
    for entry in ENTRIES:
        if name in (entry.name, entry.gym_id):
            return entry
    raise TaskError(f"no environment {name!r}: {nearest(name, names())}")


def nearest(value: str, legal: Iterable[str]) -> str:
    """Return advice for a wrong name: the nearest legal one and the legal set."""
    known = sorted(legal)
    close = difflib.get_close_matches(value, known, 1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}choose one of {', '.join(known)}"


def load_tasks(name: str) -> list[Task]:
    """Return an environment's default task set."""
    return cast("Callable[[], list[Task]]", _import(find(name).tasks))()


def prepare(name: str, say: Callable[[str], None]) -> None:
    """Make what an environment's task set needs; quick when it is there.

    Args:
        say: gets a line for people now and then.

    Raises:
        MissingDependency: this machine lacks something; names the remedy.
    """
    entry = find(name)
    if entry.prepare:
        cast("Callable[[Callable[[str], None]], None]", _import(entry.prepare))(say)


def make(
    name: str,
    tasks: Sequence[Task] | None = None,
    sandboxes: SandboxProvider | None = None,
    **options: Any,
) -> TaskEnv[Any]:
    """Build an environment by its short name.

    Args:
        name: short name or Gymnasium id.
        tasks: what it plays; its default task set if missing.
        sandboxes: a provider shared with others, closed by its owner. Without one the environment
            gets a pool of its own, closed by ``env.close()``. One that has no use for sandboxes
            leaves the provider alone.
        options: of the class: ``finish``, ``render_mode``.

    Raises:
        TaskError: an unknown name; names the nearest.
        TypeError: an option that the class does not know.
    """
    entry = find(name)
    chosen = load_tasks(entry.name) if tasks is None else tasks
    if not entry.image:
        return cast("Callable[..., TaskEnv[Any]]", _import(entry.env))(chosen, **options)
    make_env = cast("Callable[..., ShellEnv]", _import(entry.env))
    if sandboxes is not None:
        return make_env(chosen, sandboxes, **options)
    from envs.sandbox.pool import SandboxPool

    pool = SandboxPool(run_id=f"adhoc-{uuid.uuid4().hex[:8]}", worker=str(os.getpid()))
    try:
        env = make_env(chosen, pool, **options)
    except BaseException:
        pool.close()
        raise
    env.own_sandboxes()
    return env


def register() -> None:
    """Register every environment with Gymnasium. Doing so again changes nothing."""
    for entry in ENTRIES:
        if entry.gym_id not in gymnasium.registry:
            gymnasium.register(entry.gym_id, "envs.registry:make", kwargs={"name": entry.name})


def _import(path: str) -> object:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)
