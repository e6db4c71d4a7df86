"""``python -m envs.toolcall.formats``: turn a file of others into a task file of ours.

    python -m envs.toolcall.formats messages FILE out=tasks.jsonl [split=heldout]
    python -m envs.toolcall.formats tau2 FILE world=airline seed=7 out=tasks.jsonl [split=heldout]

What comes out is played like any task set: ``python -m envs.tasks validate tasks.jsonl``.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast, get_args

from envs.errors import TaskError
from envs.toolcall.formats.messages import load_messages
from envs.toolcall.formats.tau2 import load_tau2
from envs.types import Split, Task
from envs.words import UsageError, Words, parse

USAGE = "usage: python -m envs.toolcall.formats messages|tau2 FILE out=FILE [world=NAME seed=N]"


def main(argv: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    if {*argv} & {"-h", "--help"}:
        print(f"{__doc__}\n{USAGE}")
        return 0
    try:
        words = parse(argv, keys=("out", "split", "world", "seed"))
        if len(words.names) != 2 or "out" not in words.options:
            raise UsageError(USAGE)
        tasks = _tasks(words)
    except (UsageError, TaskError) as error:
        print(error, file=sys.stderr)
        return 2
    lines = [json.dumps(task.to_json(), ensure_ascii=False) for task in tasks]
    Path(words.options["out"]).write_text("\n".join(lines) + "\n", "utf-8")
    print(f"{len(tasks)} tasks in {words.options['out']}")
    return 0


def _tasks(words: Words) -> list[Task]:
    kind, path = words.names
    split = words.options.get("split", "train")
    if split not in get_args(Split):
        raise UsageError(f"split={split}: choose one of {', '.join(get_args(Split))}")
    side = cast("Split", split)
    if kind == "messages":
        return load_messages(Path(path), side)
    if kind != "tau2":
        raise UsageError(f"no format {kind!r}: messages or tau2")
    if "world" not in words.options:
        raise UsageError("tau2 needs world=NAME, a world of this package")
    world = {"world": words.options["world"], "seed": words.number("seed", 0)}
    return load_tau2(Path(path), {**world, "held": side == "heldout"}, side)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
