"""Desktops and browsers: a step, a reset, a start, memory; BrowserGym's step on the same pages.

A step is click → settled → screenshot and tree, as an agent waits for it. The peer runs in its own
environment in a Chromium of the same image, with its fixed pauses (as it comes) and without them.
"""

import io
import tarfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks.perf.peers import BROWSERGYM
from benchmarks.perf.process import BenchError, Process
from benchmarks.perf.rows import Row
from envs.browser.browser import Browser
from envs.browser.env import BrowserEnv
from envs.browser.miniwob.referee import pages
from envs.browser.miniwob.tasks import task as miniwob
from envs.browser.tunnel import Tunnel
from envs.gui.env import DesktopEnv
from envs.gui.tasks import load_tasks
from envs.images import resolve
from envs.sandbox.engine import connect
from envs.sandbox.pool import SandboxPool

PAGES = ("click-checkboxes", "enter-text", "read-table")
CLICK = "click 150 200"
WAIT_S = 300.0
INSIDE = "/workspace/html"


def run(quick: bool) -> list[Row]:
    """Measure all cases.

    Raises:
        MissingDependency: no engine, no image, or a package missing; names the remedy.
    """
    resolve("gui")
    pages()
    steps, resets = (6, 2) if quick else (30, 5)
    with ExitStack() as stack:
        pool = stack.enter_context(SandboxPool(run_id="perf-gui", max_idle=2))
        desktop = _desktop(pool, steps, resets)
        browser = _browser(pool, steps, resets)
        return [*desktop, *browser, *_peer(pool, steps, quick)]


def _desktop(pool: SandboxPool, steps: int, resets: int) -> list[Row]:
    tasks = [task for task in load_tasks() if task.family == "fill_form"]
    env = DesktopEnv(tasks, pool, observe="both")
    cold, warm, memory = _resets(env, tasks[0], resets)
    step = median(_steps(env, tasks[0], steps, "click 2"))
    env.close()
    return [
        Row("gui", "desktop, step", "ms", step, goal="<= 150 ms"),
        Row("gui", "desktop, reset from the pool", "ms", warm, goal="<= 1000 ms"),
        Row("gui", "desktop, cold start", "ms", cold),
        Row("gui", "desktop, memory", "MiB", memory),
    ]


def _browser(pool: SandboxPool, steps: int, resets: int) -> list[Row]:
    tasks = [miniwob(name, 1) for name in PAGES]
    env = BrowserEnv(tasks, pool, observe="both", width=332, height=214)
    cold, warm, memory = _resets(env, tasks[0], resets)
    _OURS[:] = [ms for task in tasks for ms in _steps(env, task, steps, CLICK)]
    env.close()
    return [
        Row("gui", "browser, step", "ms", median(_OURS), goal="<= 100 ms"),
        Row("gui", "browser, reset from the pool", "ms", warm, goal="<= 1000 ms"),
        Row("gui", "browser, cold start", "ms", cold),
        Row("gui", "browser, memory", "MiB", memory),
    ]


_OURS: list[float] = []


def _resets(env: Any, task: Any, count: int) -> tuple[float, float, float]:
    """Return the first reset and the median of later ones in ms, and memory in MiB after."""
    cold = _ms(lambda: env.reset(options={"task": task}))
    warm = median(_ms(lambda: env.reset(options={"task": task})) for _ in range(count))
    box: Any = env._sandbox if isinstance(env, DesktopEnv) else env._browser.sandbox
    return cold, warm, _memory_mib(box.id)


def _steps(env: Any, task: Any, count: int, action: str) -> list[float]:
    """Return the ms of each step; the episode begins anew before its limit ends it."""
    times: list[float] = []
    left = 0
    while len(times) < count:
        if left < 2:
            env.reset(options={"task": task})
            left = task.limits.max_steps
        times.append(_ms(lambda: env.step(action)))
        left -= 1
    return times


def _memory_mib(container: str) -> float:
    """Return what the container holds, reclaimable file pages aside."""
    api = connect()
    try:
        facts = api.stats(container, stream=False)["memory_stats"]
    finally:
        api.close()
    held = facts["usage"] - facts.get("stats", {}).get("inactive_file", 0)
    return float(held / (1 << 20))


def _peer(pool: SandboxPool, steps: int, quick: bool) -> list[Row]:
    """Ours beside BrowserGym's step, with and without its pauses."""
    goal = "ratio >= 2"
    ours = median(_OURS)
    if not BROWSERGYM.is_installed:
        return [Row("gui", "browser, step", "ms", ours, None, BROWSERGYM.remedy, goal)]
    rows = []
    with ExitStack() as stack:
        sandbox = pool.acquire(BrowserEnv([miniwob(PAGES[0], 1)], pool).sandbox_spec(
            miniwob(PAGES[0], 1)))  # fmt: skip
        stack.callback(pool.release, sandbox)
        sandbox.exec(["mkdir", "-p", INSIDE])
        made = sandbox.exec(["tar", "-x", "-C", INSIDE], stdin=_archive(), timeout_s=WAIT_S)
        if made.exit_code != 0:
            raise BenchError(f"the pages did not arrive: {made.output}")
        endpoint = stack.enter_context(_Endpoint(sandbox.id, Browser(sandbox)))
        for waits, name in ((True, "as it comes"), (False, "without its pauses")):
            count = min(steps, 5 if quick else 10) if waits else steps
            times = _ask(endpoint.url, waits, count)
            label = f"{BROWSERGYM.label}, {name}"
            rows.append(Row("gui", "browser, step", "ms", ours, median(times), label, goal))
    return rows


class _Endpoint:
    """A way for another program to the Chromium of a sandbox; a new one for each connection."""

    def __init__(self, container: str, browser: Browser) -> None:
        self.browser = browser
        where = browser.sandbox.exec(["cat", "/tmp/.browser/profile/DevToolsActivePort"], cwd="/")
        port, self.path = where.output.split()
        self.container, self.inside = container, int(port)
        self.tunnels: list[Tunnel] = []

    @property
    def url(self) -> str:
        """An address good for one connection."""
        self.tunnels.append(Tunnel(self.container, self.inside))
        return f"ws://127.0.0.1:{self.tunnels[-1].port}{self.path}"

    def __enter__(self) -> "_Endpoint":
        return self

    def __exit__(self, *_: object) -> None:
        for tunnel in self.tunnels:
            tunnel.close()
        self.browser.close()


def _ask(url: str, waits: bool, steps: int) -> list[float]:
    python = str(BROWSERGYM.folder / "bin" / "python")
    command = [python, "-m", "benchmarks.perf.browsergym_side", url, f"file://{INSIDE}/miniwob/"]
    with Process(command, env={"PYTHONDONTWRITEBYTECODE": "1"}) as process:
        process.line(WAIT_S)
        asked = {"page": PAGES[0], "waits": waits, "steps": steps}
        return [float(ms) for ms in process.ask(asked, WAIT_S)["steps_ms"]]


def _archive() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for folder in ("core", "common", "miniwob"):
            tar.add(pages() / folder, arcname=folder)
    return data.getvalue()


def _ms(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1e3
