"""Train: ``python -m rl.train env=terminal|swe|chat [recipe=FILE|NAME] [run=FOLDER] [key=value…]``.

Only this file parses arguments, opens the run folder and turns errors into exit codes: 0 done,
1 the run failed, 2 a user's mistake, 3 the environment is missing something, 130 interrupted.
"""

import asyncio
import fcntl
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl.errors import ConfigError, RlError, RunError

if TYPE_CHECKING:
    from rl.settings import RunConfig
    from rl.tasksets import TaskSets

log = logging.getLogger("rl.train")

HELP = """usage: python -m rl.train env=NAME [key=value…]

  env=terminal|swe         play and learn tasks
  env=chat                 serve the model to people and programs, and learn from what they say
  recipe=FILE|NAME         settings on top of the environment's own (recipes/*.yaml); recipe=smoke
                           plays the whole loop in minutes
  algorithm=NAME           grpo, dr_grpo, rloo, gspo, cispo, stepwise, binary, opd, opd_topk,
                           hybrid, sft
  run=FOLDER               where the run is kept; default runs/<env>-<time>
  resume=FOLDER            go on with a run that was interrupted
  key=value                any setting, for example optim.lr=1e-6 rollout.group_size=4

Every key with its default and meaning: docs/configuration.md.
Exit codes: 0 done, 1 failed, 2 wrong use, 3 something is missing here, 130 interrupted and saved.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or any(a in ("-h", "--help", "help") for a in arguments):
        sys.stdout.write(HELP)
        return 0 if arguments else 2
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    from envs.errors import EnvError, MissingDependency
    from serving.errors import ModelError, PolicyError

    try:
        return _train(arguments)
    except ConfigError as error:
        return _end(2, error)
    except (MissingDependency, ModelError) as error:
        return _end(3, error)
    except (RlError, EnvError, PolicyError, OSError) as error:
        return _end(1, error)
    except KeyboardInterrupt:
        return _end(130, "interrupted")


def _end(code: int, error: object) -> int:
    log.error("error: %s" if code != 130 else "%s", error)
    return code


def _train(arguments: Sequence[str]) -> int:
    from rl import plan, report
    from rl.config import resolve
    from rl.console import clock
    from rl.tasksets import select

    config = resolve(arguments)
    folder = _run_folder(config)
    if is_live(config):
        return _serve_and_learn(config, folder)
    select(config)  # a user's mistake is said before anything is built
    with owned(folder, fresh=config.resume is None):
        _prepare(config)
        tasks = select(config)
        log.info("%s\n%s", folder, plan.describe(config, tasks.train, tasks.heldout))
        _write_whole(folder / "config.json", json.dumps(config.model_dump(), indent=2) + "\n")
        started = time.monotonic()
        code = asyncio.run(_interruptible(_play_and_learn(config, folder, tasks)))
        path = report.write(folder)
    word = "done" if code == 0 else "stopped and saved"
    log.info("%s after %s; report: %s", word, clock(time.monotonic() - started), path)
    if code == 130:
        log.info("go on with: python -m rl.train resume=%s", folder)
    return code


def is_live(config: "RunConfig") -> bool:
    """Whether a run learns from real conversations instead of tasks."""
    return config.env == "chat" and config.chat.users == "live"


def _serve_and_learn(config: "RunConfig", folder: Path) -> int:
    """Run live chat until it is interrupted."""
    from rl import report
    from rl.console import clock
    from rl.live import service
    from serving.models import resolve as resolve_model

    keys, plan = service.keys(config), service.describe(config)
    resolve_model(config.model)
    os.umask(0o077)  # what people say is theirs: files and actors of this run
    with owned(folder, fresh=config.resume is None):
        folder.chmod(0o700)  # it holds what people say
        log.info("%s\n%s", folder, plan)
        _write_whole(folder / "config.json", json.dumps(config.model_dump(), indent=2) + "\n")
        started = time.monotonic()
        code = asyncio.run(_interruptible(service.run(config, folder, keys)))
        path = report.write(folder)
    log.info("stopped after %s; report: %s", clock(time.monotonic() - started), path)
    if code == 130:
        log.info("go on with: python -m rl.train resume=%s", folder)
    return code


async def _interruptible(call: Coroutine[Any, Any, None]) -> int:
    """Await; the first interrupt saves and stops, the second stops at once."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _interrupt, task, loop)
    try:
        await call
    except asyncio.CancelledError:
        return 130
    except BaseExceptionGroup as group:
        raise _first(group) from group
    return 0


def _run_folder(config: "RunConfig") -> Path:
    if config.resume is not None:
        return Path(config.resume).resolve()
    named = config.run or f"runs/{config.env}-{time.strftime('%Y%m%d-%H%M%S')}"
    return Path(named).resolve()


def _write_whole(path: Path, text: str) -> None:
    """Replace a file in one step, so that a kill leaves the old or the new one."""
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


@contextmanager
def owned(folder: Path, fresh: bool) -> Iterator[None]:
    """Hold the run folder for this process.

    Raises:
        ConfigError: another process is on it, or a new run would overwrite an old one.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"run={folder} cannot be a run folder: {error.strerror}") from None
    if fresh and (folder / "store.db").exists():
        raise ConfigError(
            f"run={folder} exists; continue it with resume={folder} or choose another"
        )
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{folder} is in use by another process") from None
        yield


def _prepare(config: "RunConfig") -> None:
    """Have the engine, images and model ready before anything is started.

    Raises:
        MissingDependency, ModelError: with the remedy.
    """
    from envs import images, registry
    from envs.sandbox.reaper import reap
    from serving.models import resolve as resolve_model

    if image := registry.find(config.env).image:
        if left := reap().removed:
            log.info("removed %d sandboxes that an earlier run left", len(left))
        images.ensure(image)
    if config.evaluation.releases:
        registry.prepare(config.env, log.info)
    resolve_model(config.model)


async def _play_and_learn(config: "RunConfig", folder: Path, tasks: "TaskSets") -> None:
    """Run the controller."""
    from envs import registry
    from envs.sandbox.reaper import Reaper
    from rl.controller import Controller
    from rl.fleet import RayFleet
    from rl.metrics import Metrics
    from rl.store import Store

    run_id = f"{folder.name}-{os.getpid()}"
    reaper = Reaper(run_id=run_id) if registry.find(config.env).image else nullcontext()
    with closing(Metrics(folder)) as metrics, Store(folder) as store, reaper:
        async with RayFleet(config, run_id, folder) as fleet:
            log.info("policy at %s (key %s)", fleet.address.base_url, fleet.address.api_key)
            controller = Controller(config, folder, fleet, tasks, store, metrics)
            await controller.run()
            log.info("model: %s", await fleet.export(str(folder / "model")))


def _interrupt(task: "asyncio.Task[object]", loop: asyncio.AbstractEventLoop) -> None:
    log.info("interrupted: saving; again to stop at once")
    task.cancel()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(number)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first leaf: the first cause."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else RunError(repr(error))


if __name__ == "__main__":
    sys.exit(main())
