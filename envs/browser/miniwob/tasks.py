"""The pages of MiniWoB++ as tasks: which there are, which are broken, which make the default set.

A task is a page and a seed: ``browser/<page>/<seed>``. The default set holds the pages that the
scripted oracle solves; ``task`` makes one of any page.
"""

from envs.browser.miniwob.referee import pages
from envs.browser.miniwob.solvers import SOLVERS
from envs.errors import TaskError
from envs.types import Split, Task, TaskLimits

NUM_TRAIN, NUM_HELDOUT = 20, 4
FIRST_SEED: dict[Split, int] = {"train": 0, "heldout": 5000}
LIMITS = {"memory_bytes": 1 << 30, "pids": 256, "disk_bytes": 128 << 20, "cpus": 2.0}
DEFAULT_STEPS = 10
HELDOUT = frozenset({"click-test-2", "click-option", "enter-text-2", "login-user-popup",
                     "choose-list", "read-table-2"})  # fmt: skip
# Pages that cannot be trusted, and why. They load and can be played; no default set holds them.
BROKEN = {
    "chase-circle": "moves with the clock: equal seeds and actions give other rewards",
    "moving-items": "moves with the clock: equal seeds and actions give other rewards",
    "stock-market": "prices follow the clock: equal seeds and actions give other rewards",
    "click-pie": "the pie is built by an animation; its labels differ between equal seeds",
    "click-pie-nodelay": "the pie's labels differ between equal seeds",
    "simon-says": "shows its sequence by time; not registered upstream",
    "button-delay": "asks for a wait by the clock; not registered upstream",
    "hover-shape": "asks to follow by the clock; not registered upstream",
    "find-greatest": "a wrong card earns 0.1, which BrowserGym's rule takes for success",
    "drag-cube": "turns by a timer that is not reset; its state depends on the clock",
    "terminal": "shows today's date and a blinking cursor",
    "book-flight": "the calendar marks today",
    "book-flight-nodelay": "the calendar marks today",
}


# Pages that reward how near a place is: no whole pixel may earn 1, so upstream advises a threshold.
NEAR = {"bisect-angle": 0.75, "circle-center": 0.75, "find-midpoint": 0.75, "draw-circle": 0.75,
        "right-angle": 0.75}  # fmt: skip


def names() -> list[str]:
    """Return the names of all pages. Raises ``MissingDependency``."""
    return sorted(path.stem for path in (pages() / "miniwob").glob("*.html"))


def task(name: str, seed: int, *, split: Split = "train", reward: str = "") -> Task:
    """Return a page's task of a seed.

    Args:
        reward: ``raw``, ``positive`` or ``binary`` (``envs.browser.miniwob.referee.scored``); by
            default ``raw``, and a threshold for pages that reward how near a place is.

    Raises:
        TaskError: no such page.
        MissingDependency: a page without a solver, and the package is not installed.
    """
    if name not in SOLVERS and name not in names():
        raise TaskError(f"no MiniWoB++ page {name!r}: see python -m envs.browser.miniwob list")
    solver = SOLVERS.get(name)
    tags = ["source:miniwob", f"level:{solver.level if solver else 'any'}"]
    if name in BROKEN:
        tags.append("broken")
    if split == "heldout":
        tags.append("heldout:template" if name in HELDOUT else "heldout:parameters")
    return Task(
        id=f"browser/{name}/{seed:04d}",
        env="browser",
        family=name,
        split=split,
        instruction=f"Do what the page {name} asks.",
        image="gui",
        limits=TaskLimits(
            max_steps=solver.steps if solver else DEFAULT_STEPS,
            **LIMITS,  # type: ignore[arg-type]
        ),
        data={"miniwob": name, "seed": seed, **_rule(name, reward)},
        tags=tuple(tags),
    )


def _rule(name: str, reward: str) -> dict[str, object]:
    if not reward and name in NEAR:
        return {"reward": "threshold", "threshold": NEAR[name]}
    return {"reward": reward or "raw"}


def load_tasks() -> list[Task]:
    """Return the default set; the package is needed only when one is played."""
    found = []
    for name in sorted(SOLVERS):
        if name in BROKEN:
            continue
        splits: list[tuple[Split, int]] = [("heldout", NUM_HELDOUT)]
        if name not in HELDOUT:
            splits.insert(0, ("train", NUM_TRAIN))
        for split, count in splits:
            start = FIRST_SEED[split]
            found += [task(name, seed, split=split) for seed in range(start, start + count)]
    return found
