"""Conducts a run: tasks, versions, model, players, journal; every part knows only its own."""

import asyncio
import json
import logging
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.run import versions
from benchmarks.run.crew import Crew, crew_of
from benchmarks.run.folder import FORMAT, journal_path, owned, read_facts, read_run, write_whole
from benchmarks.run.play import Attempt, Rules, seed_of
from benchmarks.run.policy import Endpoint, reach, served
from benchmarks.run.progress import Progress, clock
from benchmarks.run.records import Journal, Record
from benchmarks.run.schedule import EverythingFails, Patience, Schedule
from benchmarks.run.settings import Settings, new, resumed
from envs.errors import EnvError, TaskError
from envs.terminal.formats.playable import is_public, require_playable
from envs.types import Task
from envs.words import UsageError

log = logging.getLogger(__name__)

Settle = Callable[[Record], None]


def run(given: dict[str, Any]) -> int:
    """Run what the words ask for; return 0, 1 or 130.

    Raises:
        UsageError, TaskError: wrong use.
        MissingDependency, ModelError, NoModel: something is not here.
        CrewError: Ray could not start.
    """
    kept = read_facts(Path(given["resume"])) if "resume" in given else None
    settings = new(given) if kept is None else resumed(Settings.from_json(kept["settings"]), given)
    folder = Path(settings.folder).resolve()
    if kept is None and not settings.suite.endswith(".jsonl") and "/" not in settings.suite:
        complete(settings.suite)
    tasks = select(settings)
    with owned(folder, fresh=kept is None):
        tasks = prepare(tasks)
        with model_of(settings) as (endpoint, model):
            facts = describe(settings, tasks, model, kept)
            write_whole(folder / "run.json", json.dumps(facts, indent=1) + "\n")
            rules = Rules(f"{folder.name}-{os.getpid()}", endpoint, settings)
            return _conduct(folder, rules, tasks)


def complete(suite: str) -> None:
    """Make what an environment's task set still lacks (swe: bugs of real packages).

    Raises:
        TaskError: no such environment.
        MissingDependency: no Docker, or no image can be had.
    """
    from envs import images, registry

    entry = registry.find(suite)
    if entry.prepare:
        images.ensure(entry.image)
        registry.prepare(suite, log.info)


def select(settings: Settings) -> list[Task]:
    """Return the tasks of a run, drawn by its seed. Raises ``TaskError``."""
    from envs.tasks.loading import load

    tasks = load(
        settings.suite,
        split=settings.split,
        levels=settings.levels or None,
        families=settings.families or None,
        limit=settings.n or None,
        seed=settings.seed,
        base=settings.base,
    )
    if settings.temperature == 0 and settings.k > 1:
        log.warning("temperature=0: the %d samples of a task are likely the same", settings.k)
    return tasks


def prepare(tasks: Sequence[Task]) -> list[Task]:
    """Have images ready before anything is started; returns the tasks that can be played. Public
    tasks that need what is not offered, or whose image cannot be built, are refused by name.

    Raises:
        MissingDependency: no Docker, or no image can be had.
        TaskError: no task is left.
    """
    names = sorted({task.image for task in tasks if task.image and not is_public(task)})
    if not any(task.image for task in tasks):
        return list(tasks)
    from envs import images
    from envs.sandbox.reaper import reap

    if left := reap().removed:
        log.info("removed %d sandboxes that an earlier run left", len(left))
    for name in names:
        if name in images.families():
            images.ensure(name)
        else:
            images.resolve(name)
    playable = [task for task in tasks if not is_public(task) or _is_ready(task)]
    if not playable:
        raise TaskError(f"none of the {len(tasks)} tasks can be played here; reasons are above")
    return playable


def _is_ready(task: Task) -> bool:
    """Have a public task's image; say why it cannot be played."""
    from envs.terminal.formats.tasks import have_image

    try:
        require_playable(task)
        have_image(task)
    except EnvError as error:
        log.warning("refused %s: %s", task.id, error)
        return False
    return True


@contextmanager
def model_of(settings: Settings) -> Iterator[tuple[Endpoint, dict[str, str]]]:
    """Give the model's endpoint and its version; one named or in a folder is served meanwhile.

    Raises:
        UsageError: its key is not set, or it could not be reached from a cluster.
        ModelError, NoModel: there is none.
    """
    if settings.is_url:
        key = os.environ.get(settings.key_env)
        if key is None and settings.key_env != Settings.key_env:
            raise UsageError(f"key_env={settings.key_env}: that variable is not set")
        endpoint = asyncio.run(reach(settings.model, key or ""))
        host = settings.model.rpartition("@")[2].removeprefix("http://").removeprefix("https://")
        yield endpoint, {"name": settings.name or endpoint.model, "url": host}
        return
    from serving.models import resolve

    if settings.ray_address and not any(word.startswith("host=") for word in settings.serving):
        raise UsageError(
            "ray.address= with a model served here: other nodes cannot reach loopback; give "
            "serving.host=ADDRESS, or serve it yourself and give its URL"
        )
    model = resolve(settings.model).resolve()
    log.info("serving %s", model)
    with served(str(model), settings.serving) as endpoint:
        name = settings.name or Path(settings.model).name
        yield endpoint, {"name": name, "digest": versions.folder_digest(model)}


def describe(
    settings: Settings, tasks: Sequence[Task], model: dict[str, str], kept: dict[str, Any] | None
) -> dict[str, Any]:
    """Return ``run.json``.

    Raises:
        UsageError: a run that goes on with other tasks or another model than it began with.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    present = {
        "tasks": versions.taskset_digest(versions.task_digest(task) for task in tasks),
        "model": model,
        "code": versions.code(),
        "images": versions.images(tasks),
    }
    if kept is None:
        return {
            "format": FORMAT,
            "id": str(uuid.uuid4()),
            "started": now,
            "settings": replace(settings, out="", resume="").to_json(),
            "tasks": len(tasks),
            "versions": present,
            "resumed": [],
        }
    before = kept["versions"]
    if present["tasks"] != before["tasks"]:
        raise UsageError("the task set is no longer the one this run began with: start a new run")
    for part in ("digest", "name"):
        if part in model and before["model"].get(part, model[part]) != model[part]:
            was = before["model"][part]
            raise UsageError(f"the model's {part} is {model[part]} and was {was}: start a new run")
    changed = {part: present[part] for part in ("code", "images") if present[part] != before[part]}
    for part in changed:
        log.warning("%s changed since this run began; the report names both", part)
    return {**kept, "resumed": [*kept["resumed"], {"at": now, **changed}]}


def attempts(settings: Settings, tasks: Sequence[Task], tried: dict[Any, int]) -> list[Attempt]:
    """Return what is to be played: samples in rounds, so that a run cut short has all tasks.

    Args:
        tried: tries so far of samples that were lost.
    """
    found = []
    digests = {task.id: versions.task_digest(task) for task in tasks}
    for sample in range(settings.k):
        for task in tasks:
            played = _limited(task, settings.max_steps)
            seed = seed_of(settings.seed, task.id, sample)
            number = 1 + tried.get((task.id, sample), 0)
            found.append(Attempt(played, digests[task.id], sample, seed, number))
    return found


async def play_all(
    crew: Crew,
    settings: Settings,
    todo: Sequence[Attempt],
    journal: Journal,
    settle: Settle,
) -> None:
    """Play attempts on a crew, each on disk before it counts. Raises ``EverythingFails``."""
    patience = Patience(settings.retries, settings.retry_wait_s, max(32, 2 * crew.slots))
    await Schedule(crew, journal.append, settle, patience).play(todo)


def _conduct(folder: Path, rules: Rules, tasks: Sequence[Task]) -> int:
    """Play what is not yet scored and write the report, however it ends."""
    from benchmarks.run import report

    before, settings = read_run(folder), rules.settings
    scored = {key for key, record in before.episodes.items() if not record.lost}
    tried = {key: record.attempt for key, record in before.episodes.items()}
    todo = [a for a in attempts(settings, tasks, tried) if a.key not in scored]
    log.info("%s: %d tasks, %d of %d samples to play", folder, len(tasks), len(todo),
             before.planned)  # fmt: skip
    started, code = time.monotonic(), 0
    progress = Progress(before.planned, before.planned - len(todo))
    if todo:
        code = asyncio.run(_interruptible(_play(folder, rules, todo, progress.advance)))
    path = report.write(folder)
    after = read_run(folder)
    if code == 0 and all(record.lost for record in after.episodes.values()):
        code = 1
    word = {0: "done", 1: "failed", 130: "stopped and saved"}[code]
    log.info("%s after %s; report: %s", word, clock(time.monotonic() - started), path)
    if code:
        log.info("go on with: python -m benchmarks.run resume=%s", folder)
    return code


async def _play(folder: Path, rules: Rules, todo: Sequence[Attempt], settle: Settle) -> None:
    has_sandboxes = any(attempt.task.image for attempt in todo)
    with Journal(journal_path(folder)) as journal, _reaper(rules.run_id, has_sandboxes):
        async with crew_of(rules, has_sandboxes) as crew:
            await play_all(crew, rules.settings, todo, journal, settle)


def _reaper(run_id: str, has_sandboxes: bool) -> Any:
    if not has_sandboxes:
        return nullcontext()
    from envs.sandbox.reaper import Reaper

    return Reaper(run_id=run_id)


async def _interruptible(call: Any) -> int:
    """Await; the first interrupt saves and stops, the second stops at once."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        log.info("interrupted: saving; again to stop at once")
        task.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        await call
    except asyncio.CancelledError:
        return 130
    except EverythingFails as error:
        log.error("%s", error)
        return 1
    return 0


def _limited(task: Task, max_steps: int) -> Task:
    if not max_steps:
        return task
    return replace(task, limits=replace(task.limits, max_steps=max_steps))
