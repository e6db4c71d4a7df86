"""``python -m envs.tasks list [ENV|FILE] [split=…] [level=…] [families=…] [--ids]`` and
``python -m envs.tasks validate ENV|FILE [split=…] [level=…] [families=…] [limit=N] [workers=2]``.

Exit codes: 0 all well, 1 tasks that failed, 2 a mistake in the call, 3 something is missing here.
"""

import sys
import time
from collections import Counter
from collections.abc import Sequence

from envs import registry
from envs.errors import MissingDependency, TaskError
from envs.tasks.loading import level, load
from envs.tasks.validation import Progress, summary, validate
from envs.types import Task

USAGE = (__doc__ or "").split("\n\n")[0].replace("``", "")
OPTIONS = ("split", "level", "families", "limit", "seed", "workers")


class UsageError(Exception):
    """The command line makes no sense; the message says how it would."""


def _parse(argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    words: list[str] = []
    options: dict[str, str] = {}
    for word in argv:
        key, sign, value = word.partition("=")
        if word == "--ids":
            options["ids"] = "true"
        elif not sign:
            words.append(word)
        elif key in OPTIONS:
            options[key] = value
        else:
            raise UsageError(f"no option {key!r}: {registry.nearest(key, OPTIONS)}")
    return words, options


def _number(options: dict[str, str], key: str, default: int | None) -> int | None:
    if key not in options:
        return default
    if not options[key].isdigit():
        raise UsageError(f"{key}={options[key]}: give a whole number")
    return int(options[key])


def _select(source: str, options: dict[str, str]) -> list[Task]:
    levels, families = options.get("level"), options.get("families")
    return load(
        source,
        split=options.get("split"),  # type: ignore[arg-type]  # load refuses others by name
        levels=levels.split(",") if levels else None,
        families=families.split(",") if families else None,
        limit=_number(options, "limit", None),
        seed=_number(options, "seed", 0) or 0,
    )


def _list(source: str, options: dict[str, str]) -> None:
    tasks = _select(source, options)
    if "ids" in options:
        print("\n".join(sorted(task.id for task in tasks)))
        return
    counts: Counter[tuple[str, str, str]] = Counter()
    families: dict[tuple[str, str, str], set[str]] = {}
    for task in tasks:
        kind = next((t.removeprefix("heldout:") for t in task.tags if t.startswith("heldout:")), "")
        key = (str(task.split), kind, level(task))
        counts[key] += 1
        families.setdefault(key, set()).add(task.family)
    order = {name: i for i, name in enumerate(("trivial", "easy", "medium", "hard"))}
    print(f"{source}\n{'split':8} {'by':11} {'level':8} {'families':>8} {'tasks':>6}")
    for key in sorted(counts, key=lambda key: (key[0] != "train", key[1], order.get(key[2], 9))):
        print(f"{key[0]:8} {key[1]:11} {key[2]:8} {len(families[key]):8} {counts[key]:6}")
    print(f"{'all':29} {len({task.family for task in tasks}):8} {len(tasks):6}")


def _validate(source: str, options: dict[str, str]) -> int:
    tasks = _select(source, options)
    worlds = {task.env for task in tasks}
    if len(worlds) != 1:
        raise TaskError(f"{source} mixes environments: {', '.join(sorted(worlds))}")
    world, last = worlds.pop(), [0.0]

    def report(progress: Progress) -> None:
        if time.monotonic() - last[0] > 1 or progress.done == progress.total:
            last[0] = time.monotonic()
            end = "\r" if sys.stderr.isatty() and progress.done < progress.total else "\n"
            print(progress, file=sys.stderr, end=end, flush=True)

    findings = validate(
        tasks, lambda: registry.make(world, tasks), _number(options, "workers", 2) or 1, report
    )
    print("\n".join(summary(findings)))
    return int(any(finding.reason for finding in findings))


def main(argv: Sequence[str]) -> int:
    """Run one command; return the exit code."""
    try:
        words, options = _parse(argv)
        match words:
            case ["list"]:
                for name in registry.names():
                    _list(name, options)
                return 0
            case ["list", source]:
                _list(source, options)
                return 0
            case ["validate", source]:
                return _validate(source, options)
            case _:
                raise UsageError(USAGE)
    except (UsageError, TaskError) as error:
        print(error, file=sys.stderr)
        return 2
    except MissingDependency as error:
        print(error, file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
