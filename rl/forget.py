"""``python -m rl.forget run=FOLDER user=NAME|session=NAME|older_than_days=N [weights=drop|keep]``.

Removes what a live run keeps of a user, a session or the past: the gateway's turns, the learner's
episodes and signals, the lines of its log. ``weights=drop`` (default) also removes the checkpoints
when one of the removed turns was trained on: the next ``python -m rl.train resume=FOLDER`` starts
from the model the run began with and learns again from what is left, batch by batch in the old
order. ``user=`` is the name of a key (``keys=`` of the server); the only key's user is ``owner``.

Not for a run that is going on: there users remove their sessions (``DELETE /v1/sessions/ID``).
Exit 0 done, 1 a file cannot be changed, 2 wrong use.
"""

import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rl.errors import ConfigError, RlError
from serving.turns import Turn

OPTIONS = ("run", "user", "session", "older_than_days", "weights")
DAY_S = 86_400.0
MOST_READ = 500


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or any(a in ("-h", "--help") for a in arguments):
        sys.stdout.write((__doc__ or "").strip() + "\n")
        return 0 if arguments else 2
    try:
        sys.stdout.write(_forget(arguments) + "\n")
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except (RlError, OSError, sqlite3.Error) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _forget(arguments: Sequence[str]) -> str:
    from rl.live.service import GATEWAY
    from rl.train import owned
    from serving.journal import purge

    options = _options(arguments)
    folder = Path(options["run"]).resolve()
    if not (folder / "store.db").exists():
        raise ConfigError(f"run={options['run']}: no run folder")
    if options["weights"] not in ("drop", "keep"):
        raise ConfigError(f"weights={options['weights']}: drop or keep")
    unwanted = _unwanted(options)
    with owned(folder, fresh=False):
        found, forgotten = _turns(folder / GATEWAY, unwanted)
        said = _remove(folder, [*found, *forgotten], options["weights"] == "drop")
        purge(folder / GATEWAY, found)  # last: a call that was cut short can be repeated
    return f"{len(found)} turns removed{said}"


def _turns(journal: Path, unwanted: Callable[[Turn], bool]) -> tuple[list[str], list[str]]:
    """Return the ids of unwanted turns, and of those that their users removed before."""
    from serving.journal import Reader

    found: list[str] = []
    forgotten: list[str] = []
    with Reader(journal) as reader:
        at = 0
        while rows := reader.turns_after(at, MOST_READ):
            at = rows[-1][0]
            found += [turn.id for _, turn in rows if unwanted(turn)]
        at = 0
        while gone := reader.forgotten_after(at, MOST_READ):
            at = gone[-1][0]
            forgotten += [turn_id for _, turn_id in gone]
    return found, forgotten


def _options(arguments: Sequence[str]) -> dict[str, str]:
    options = {"weights": "drop"}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in OPTIONS:
            raise ConfigError(f"{argument!r}: options are {', '.join(OPTIONS)}")
        options[key] = value
    if "run" not in options or sum(key in options for key in OPTIONS[1:4]) != 1:
        raise ConfigError("give run=FOLDER and one of user=, session=, older_than_days=")
    return options


def _unwanted(options: dict[str, str]) -> Callable[[Turn], bool]:
    if "user" in options:
        owner = "" if options["user"] == "owner" else options["user"]
        return lambda turn: turn.owner == owner
    if "session" in options:
        return lambda turn: turn.session == options["session"]
    try:
        oldest = time.time() - float(options["older_than_days"]) * DAY_S
    except ValueError:
        raise ConfigError(f"older_than_days={options['older_than_days']}: give a number") from None
    return lambda turn: turn.created < oldest


def _remove(folder: Path, gone: Sequence[str], drop_weights: bool) -> str:
    """Remove episodes, and weights that learned from them; return what was done, in words."""
    from rl.live.records import episode_id
    from rl.store import Store

    names = [episode_id(turn_id) for turn_id in gone]
    with Store(folder) as store:
        trained = {name for name in names if name in store.consumed()}
        drops = bool(trained) and drop_weights
        if drops:
            for place in _weights(folder):
                shutil.rmtree(place, ignore_errors=True)
            store.rewind(0)
        removed = store.remove(names)
    said = f", {removed} of them judged, {len(trained)} learned from"
    if drops:
        return f"{said}; weights dropped: rl.train resume={folder} learns again without them"
    return f"{said}; the weights keep what they learned" if trained else said


def _weights(folder: Path) -> list[Path]:
    """Return every place in which a run keeps what it has learned."""
    published = Path("/dev/shm").glob(f"clawgym-{folder.name}-*")
    return [*(folder / name for name in ("checkpoints", "model", "publication")), *published]


if __name__ == "__main__":
    sys.exit(main())
