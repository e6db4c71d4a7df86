"""``python -m envs.tasks list [ENV|FILE|DIR] [split=…] [level=…] [families=…] [limit=N] [--ids]``
and ``… validate ENV|FILE|DIR [split=…] [level=…] [families=…] [limit=N] [workers=2] [base=IMAGE]``.

Exit codes: 0 all well, 1 tasks that failed, 2 a mistake in the call, 3 something is missing here.
"""

import sys
import time
from collections import Counter
from collections.abc import Sequence

from envs import images, registry
from envs.errors import MissingDependency, TaskError
from envs.tasks.loading import level, load
from envs.tasks.validation import Progress, summary, validate
from envs.terminal.formats.playable import is_public
from envs.types import Task
from envs.words import UsageError, Words, parse

USAGE = (__doc__ or "").split("\n\n")[0].replace("``", "")
SELECTION = ("split", "level", "families", "limit", "seed", "base")


def _select(source: str, words: Words) -> list[Task]:
    return load(
        source,
        split=words.options.get("split"),  # type: ignore[arg-type]  # load refuses others by name
        levels=words.listed("level"),
        families=words.listed("families"),
        limit=words.number("limit", least=1),
        seed=words.number("seed", 0),
        base=words.options.get("base", ""),
    )


def _list(source: str, words: Words) -> None:
    tasks = _select(source, words)
    if "--ids" in words.flags:
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


def _validate(source: str, words: Words) -> int:
    workers = words.number("workers", 2, least=1)
    tasks = _select(source, words)
    worlds = {task.env for task in tasks}
    if len(worlds) != 1:
        raise TaskError(f"{source} mixes environments: {', '.join(sorted(worlds))}")
    world, last = worlds.pop(), [0.0]
    for image in sorted({task.image for task in tasks if task.image and not is_public(task)}):
        images.resolve(image)  # what is missing here is said once, not per task

    def report(progress: Progress) -> None:
        if time.monotonic() - last[0] > 1 or progress.done == progress.total:
            last[0] = time.monotonic()
            end = "\r" if sys.stderr.isatty() and progress.done < progress.total else "\n"
            print(progress, file=sys.stderr, end=end, flush=True)

    findings = validate(tasks, lambda: registry.make(world, tasks), workers, report)
    print("\n".join(summary(findings)))
    return int(any(finding.reason for finding in findings))


def _sources(words: Words, default: Sequence[str] = ()) -> Sequence[str]:
    if len(words.names) > 1 or not (words.names or default):
        raise UsageError(
            f"give one environment, .jsonl file or directory, not {len(words.names)}. {USAGE}"
        )
    return words.names or default


def main(argv: Sequence[str]) -> int:
    """Run one command; return the exit code."""
    if {*argv} & {"-h", "--help"}:
        print(USAGE)
        return 0
    try:
        match list(argv):
            case ["list", *rest]:
                words = parse(rest, keys=SELECTION, flags=("--ids",))
                for name in _sources(words, registry.names()):
                    _list(name, words)
                return 0
            case ["validate", *rest]:
                words = parse(rest, keys=(*SELECTION, "workers"))
                return _validate(_sources(words)[0], words)
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
