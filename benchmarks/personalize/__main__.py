"""``python -m benchmarks.personalize [key=value…]``: sessions until a policy suits a user.

Simulated users (``clawgym/Chat-v0``) talk, session after session, to a real live run: gateway,
judge, trainer, publications. After each session the learner is given the time it needs. A session
scores the share of the user's wishes that its *first* reply meets; a method has converged at the
third first reply in a row that meets all of them. Correct answers to held-out questions, before and
after, tell what was forgotten.

  methods      none,memory,binary,opd,hybrid. none: no learning; memory: no learning, the user's own
               corrections are put before each session as remembered preferences
  personas     student,assistant_teacher,teacher; python -m envs.tasks list chat
  seeds        0
  joint        no: one run per persona; yes: all personas by turns in one run
  cap          72: most sessions (of each persona)
  past         0: sessions played on after convergence
  model        smollm2-135m
  reply_tokens 96
  temperature  0.8
  skill        40: held-out questions asked before and after; 0 for none
  out          FOLDER, default runs/personalize-<time>; finished cells are not played again
  set          settings for rl.train with commas between, such as chat.batch=4,optim.lr=1e-4

Writes results.jsonl, table.md and scores.png there. Exit 0 done, 1 a run failed, 2 wrong use,
130 interrupted.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path

from benchmarks.personalize.report import read, write
from benchmarks.personalize.run import METHODS, Cell, play
from benchmarks.served import RunFailed

DEFAULTS = {
    "methods": ",".join(METHODS),
    "personas": "student,assistant_teacher,teacher",
    "seeds": "0",
    "joint": "no",
    "cap": "72",
    "past": "0",
    "model": "smollm2-135m",
    "reply_tokens": "96",
    "temperature": "0.8",
    "skill": "40",
    "out": "",
    "set": "",
}


class UsageError(Exception):
    """A command line that cannot be understood."""


def cells(options: dict[str, str]) -> list[Cell]:
    """Return what is to be played. Raises ``UsageError``."""
    from envs.chat import personas
    from envs.errors import TaskError

    methods = options["methods"].split(",")
    if unknown := set(methods) - set(METHODS):
        raise UsageError(f"methods={','.join(sorted(unknown))}: choose among {', '.join(METHODS)}")
    people = options["personas"].split(",")
    try:
        for name in people:
            personas.find(name)
        numbers = {k: int(options[k]) for k in ("cap", "past", "reply_tokens", "skill")}
        seeds = [int(seed) for seed in options["seeds"].split(",")]
        temperature = float(options["temperature"])
    except (TaskError, ValueError) as error:
        raise UsageError(str(error)) from None
    if options["joint"] not in ("yes", "no"):
        raise UsageError(f"joint={options['joint']}: yes or no")
    groups = [tuple(people)] if options["joint"] == "yes" else [(name,) for name in people]
    return [
        Cell(
            method=method,
            personas=group,
            seed=seed,
            model=options["model"],
            temperature=temperature,
            settings=tuple(filter(None, options["set"].split(","))),
            **numbers,
        )
        for seed, group, method in product(seeds, groups, methods)
    ]


def main(arguments: list[str]) -> int:
    """Run the command line; return its exit status."""
    if any(a in ("-h", "--help") for a in arguments):
        print((__doc__ or "").strip())
        return 0
    options = dict(DEFAULTS)
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in DEFAULTS:
            print(f"unknown option {argument!r}; options: {', '.join(DEFAULTS)}", file=sys.stderr)
            return 2
        options[key] = value
    try:
        wanted = cells(options)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    out = Path(options["out"] or f"runs/personalize-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    out.mkdir(parents=True, exist_ok=True)
    code = 0
    for number, cell in enumerate(wanted, start=1):
        if any(result["cell"] == json.loads(json.dumps(asdict(cell))) for result in read(out)):
            continue
        print(f"[{number}/{len(wanted)}] {cell.name}", flush=True)
        try:
            result = asyncio.run(play(cell, out, partial(print, flush=True)))
        except RunFailed as error:
            print(f"{cell.name}: {error}", file=sys.stderr)
            code = 1
            continue
        except (KeyboardInterrupt, asyncio.CancelledError):
            print(f"interrupted; the finished cells stay: add out={out}", file=sys.stderr)
            return 130
        with (out / "results.jsonl").open("a") as file:
            file.write(json.dumps({"cell": asdict(cell), **result}) + "\n")
    print(write(out))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
