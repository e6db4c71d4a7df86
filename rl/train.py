"""Train: ``python -m rl.train env=NAME [recipe=FILE|NAME] [run=FOLDER] [key=value…]``.

Only this file parses arguments, opens the run folder and turns errors into exit codes: 0 done,
1 the run failed, 2 a user's mistake, 3 the environment is missing something, 130 interrupted.
"""

import asyncio
import fcntl
import json
import logging
import os
import sys
import textwrap
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl.errors import ConfigError, NoSpaceError, RlError, RunError
from rl.interrupts import INTERRUPTED, Interrupts
from rl.space import no_space

if TYPE_CHECKING:
    from rl.settings import RunConfig
    from rl.tasksets import TaskSets

log = logging.getLogger("rl.train")
Call = Callable[[], Coroutine[Any, Any, None]]

HELP = """usage: python -m rl.train env=NAME [key=value…]

{environments}
  env=chat                 serves the model to people and programs, and learns from what they say;
                           needs no Docker
  recipe=FILE|NAME         settings on top of the environment's own (recipes/*.yaml); recipe=smoke
                           plays the whole loop in minutes
  algorithm=NAME           {methods}
  run=FOLDER               where the run is kept; default runs/<env>-<time>
  resume=FOLDER            go on with a run that was interrupted
  key=value                any setting, for example optim.lr=1e-6 rollout.group_size=4

Every key with its default and meaning: docs/configuration.md.
Exit codes: 0 done, 1 failed, 2 wrong use, 3 something is missing here, 130 interrupted and saved.
"""


def help_text() -> str:
    """Return the help, with the environments and methods there are."""
    from envs import registry
    from rl.config import method_names

    played = [entry for entry in registry.ENTRIES if entry.name != "chat"]
    kinds = (
        ([e.name for e in played if e.image], "play and learn tasks, in Docker sandboxes"),
        ([e.name for e in played if not e.image], "play and learn tasks; needs no Docker"),
    )
    lines = [f"  {'env=' + '|'.join(names):<24} {what}" for names, what in kinds if names]
    methods = textwrap.fill(", ".join(method_names()), 72, subsequent_indent=" " * 27)
    return HELP.format(environments="\n".join(lines), methods=methods)


def main(arguments: Sequence[str] | None = None, interrupts: Interrupts | None = None) -> int:
    """Run the command line; return the exit code.

    Args:
        arguments: those of the process by default.
        interrupts: its signals, if they are heard.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    interrupts = interrupts or Interrupts()
    if not arguments or any(a in ("-h", "--help", "help") for a in arguments):
        sys.stdout.write(help_text())
        return 0 if arguments else 2
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("torch").setLevel(logging.WARNING)  # counts its caches on the way out
    try:
        return _guarded(arguments, interrupts)
    except KeyboardInterrupt:
        log.info("%s", interrupts.last_words("stopped"))
        return INTERRUPTED


def _guarded(arguments: Sequence[str], interrupts: Interrupts) -> int:
    """Train; turn what people can mend into one line and an exit code."""
    from envs.errors import EnvError, MissingDependency
    from serving.errors import ModelError, PolicyError

    try:
        return _train(arguments, interrupts)
    except ConfigError as error:
        code, said = 2, str(error)
    except (MissingDependency, ModelError) as error:
        code, said = 3, str(error)
    except (RlError, EnvError, PolicyError, OSError) as error:
        code, said = 1, str(error)
        if isinstance(error, NoSpaceError):
            way_on = interrupts.way_on.removeprefix("go on with: ") or "the same command again"
            said = f"{error}; free some, then: {way_on}"
    log.error("error: %s", said)
    return code


def _train(arguments: Sequence[str], interrupts: Interrupts) -> int:
    from rl.config import resolve

    config = resolve(arguments)
    folder = _run_folder(config)
    try:
        return _run(config, folder, interrupts)
    except OSError as error:
        raise no_space(error, folder) or error from None


def _run(config: "RunConfig", folder: Path, interrupts: Interrupts) -> int:
    from rl import plan
    from rl.tasksets import select

    if is_live(config):
        return _serve_and_learn(config, folder, interrupts)
    select(config)  # a user's mistake is said before anything is built
    with owned(folder, fresh=config.resume is None):
        _prepare(config)
        tasks = select(config)
        log.info("%s\n%s", folder, plan.describe(config, tasks.train, tasks.heldout))
        _begin(config, folder, interrupts)
        return _through(lambda: _play_and_learn(config, folder, tasks), folder, interrupts)


def _begin(config: "RunConfig", folder: Path, interrupts: Interrupts) -> None:
    """Write down what the run is: from here on it can be resumed."""
    interrupts.way_on = _way_on(folder) if (folder / "config.json").exists() else ""
    _write_whole(folder / "config.json", json.dumps(config.model_dump(), indent=2) + "\n")
    interrupts.way_on = _way_on(folder)


def _way_on(folder: Path) -> str:
    return f"go on with: python -m rl.train resume={folder}"


def _through(call: Call, folder: Path, interrupts: Interrupts) -> int:
    """Run to the end, or to the first interrupt; report either way, and return the exit code."""
    from rl import report
    from rl.checkpoint import whole
    from rl.console import clock

    started = time.monotonic()
    code = asyncio.run(_interruptible(call, interrupts))
    path = report.write(folder)
    word = "done"
    if code == INTERRUPTED:
        saved = whole(folder / "checkpoints")
        word = "stopped and saved" if saved else "stopped before there were weights to save"
    log.info("%s after %s; report: %s", word, clock(time.monotonic() - started), path)
    if code == INTERRUPTED:
        log.info("%s", interrupts.way_on)
    return code


def is_live(config: "RunConfig") -> bool:
    """Whether a run learns from real conversations instead of tasks."""
    return config.env == "chat" and config.chat.users == "live"


def _serve_and_learn(config: "RunConfig", folder: Path, interrupts: Interrupts) -> int:
    """Run live chat until it is interrupted."""
    from rl import plan
    from rl.live import service

    keys, described = service.keys(config), service.describe(config)
    _model(config)
    needs = plan.require_memory(config)
    os.umask(0o077)  # what people say is theirs: files and actors of this run
    with owned(folder, fresh=config.resume is None):
        folder.chmod(0o700)  # it holds what people say
        log.info("%s\n%s", folder, "\n".join([described, *needs]))
        _begin(config, folder, interrupts)
        return _through(lambda: service.run(config, folder, keys), folder, interrupts)


async def _interruptible(call: Call, interrupts: Interrupts) -> int:
    """Await; the first interrupt saves and stops, the second stops at once."""
    with interrupts.cancels():
        try:
            await call()
        except asyncio.CancelledError:
            return INTERRUPTED
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
    try:
        part.write_text(text)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def owned(folder: Path, fresh: bool) -> Iterator[None]:
    """Hold the run folder for this process.

    Raises:
        ConfigError: another process is on it, or a new run would overwrite an old one.
    """
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error) from None
    if fresh and (folder / "store.db").exists():
        raise ConfigError(
            f"run={folder} exists; continue it with resume={folder} or choose another"
        )
    try:
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise _unusable(folder, error) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{folder} is in use by another process") from None
        try:
            yield
        finally:
            if made:
                _remove_unused(folder)


def _unusable(folder: Path, error: OSError) -> RlError:
    return no_space(error, folder) or ConfigError(
        f"run={folder} cannot be a run folder: {error.strerror}; choose another with run=FOLDER"
    )


def _remove_unused(folder: Path) -> None:
    """Remove a folder that was made for a run that never began."""
    if [path.name for path in folder.iterdir()] == ["lock"]:
        (folder / "lock").unlink()
        folder.rmdir()


def _prepare(config: "RunConfig") -> None:
    """Have the engine, images and model ready before anything is started.

    Raises:
        MissingDependency, ModelError: with the remedy.
    """
    from envs import images, registry
    from envs.sandbox.reaper import reap

    if image := registry.find(config.env).image:
        if left := reap().removed:
            log.info("removed %d sandboxes that an earlier run left", len(left))
        images.ensure(image)
    if config.evaluation.releases:
        registry.prepare(config.env, log.info)
    _model(config)


def _model(config: "RunConfig") -> None:
    """Have the model here, and look whether it can be one: before a run says that it starts.

    Raises:
        ModelError: it cannot be had, or is not whole.
        MissingDependency: the optimiser cannot be had.
    """
    from rl import optimiser
    from serving.errors import ModelError
    from serving.models import resolve

    optimiser.require(config.optim)
    folder = resolve(config.model)
    try:
        json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise ModelError(f"model={config.model}: its config.json is damaged: {error}") from None
    if not any(folder.glob("*.safetensors")):
        raise ModelError(f"model={config.model}: {folder} holds no weights (*.safetensors)")


async def _play_and_learn(config: "RunConfig", folder: Path, tasks: "TaskSets") -> None:
    """Run the controller."""
    from envs import registry
    from envs.sandbox.reaper import Reaper
    from rl.assembly import hindsight
    from rl.controller import Controller
    from rl.fleet import RayFleet
    from rl.metrics import Metrics
    from rl.store import Store

    run_id = f"{folder.name}-{os.getpid()}"
    reaper = Reaper(run_id=run_id) if registry.find(config.env).image else nullcontext()
    with closing(Metrics(folder)) as metrics, Store(folder) as store, reaper:
        async with RayFleet(config, run_id, folder) as fleet:
            log.info("policy at %s (key %s)", fleet.address.base_url, fleet.address.api_key)
            async with hindsight(config, fleet, store) as source:
                await Controller(config, folder, fleet, tasks, store, metrics, source).run()
            log.info("model: %s", await fleet.export(str(folder / "model")))


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first leaf: the first cause."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else RunError(repr(error))


if __name__ == "__main__":
    signals = Interrupts()
    signals.listen()
    status = main(interrupts=signals)
    signals.finish()
    sys.exit(status)
