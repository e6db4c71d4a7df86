"""``python -m envs.swe COMMAND …``: makes tasks of real packages.

generate                                 the bugs file of generated tasks
build [PAIR…], list                      release tasks
search PACKAGE… [out=FILE]               looks for more pairs of releases
mutate PACKAGE[@VERSION]… [seed=0] [most=20] [workers=2] [out=FILE]
                                         looks for procedural bugs
keep FILE                                makes the table of procedural bugs of such a file
rows [PAIR…] [out=ROWS.jsonl]            writes built release tasks as rows of SWE-bench
mutants [PACKAGE…] [out=TASKS.jsonl]     builds the table's packages, writes their task set
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path


def _generate() -> int:
    from envs.swe.bugs import generate

    def show(done: int, total: int) -> None:
        print(f"\r{done}/{total} functions", end="", flush=True)

    print(f"\n{generate(show)} bugs kept")
    return 0


def _build(names: list[str]) -> int:
    from envs.errors import EnvError, MissingDependency, TaskError
    from envs.sandbox.pool import SandboxPool
    from envs.swe.releases import build, find_pair, load_pairs

    try:
        pairs = [find_pair(name) for name in names] or list(load_pairs())
    except TaskError as error:
        print(error, file=sys.stderr)
        return 2
    failed = 0
    with SandboxPool(run_id="swe-build") as sandboxes:
        for number, pair in enumerate(pairs, start=1):
            show = partial(_show, f"[{number}/{len(pairs)}] {pair.name:28}", time.monotonic())
            try:
                build(pair, sandboxes, show)
            except MissingDependency as error:
                print(error, file=sys.stderr)
                return 3
            except EnvError as error:
                failed += 1
                show(f"failed: {error}")
    print(f"{len(pairs) - failed} of {len(pairs)} pairs are built")
    return 1 if failed else 0


def _search(words: list[str]) -> int:
    from envs.errors import MissingDependency
    from envs.sandbox.pool import SandboxPool
    from envs.swe.candidates import search

    outs = [word.removeprefix("out=") for word in words if word.startswith("out=")]
    packages = [word for word in words if "=" not in word]
    if not packages or len(packages) + len(outs) != len(words) or len(outs) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with SandboxPool(run_id="swe-search") as sandboxes:
            found = search(packages, sandboxes, Path(*outs or ["candidates.jsonl"]),
                           lambda line: print(line, flush=True))  # fmt: skip
            print(f"{len(list(found))} pairs kept")
    except MissingDependency as error:
        print(error, file=sys.stderr)
        return 3
    return 0


def _mutate(words: list[str]) -> int:
    from envs.sandbox.pool import SandboxPool
    from envs.swe.mutants import Log, search_mutants
    from envs.words import UsageError, parse

    given = parse(words, keys=("seed", "most", "workers", "out"))
    if not given.names:
        raise UsageError("name a package at least, as in: mutate inflection")
    with SandboxPool(run_id="swe-mutate") as sandboxes:
        found = search_mutants(
            given.names, sandboxes, Log(Path(given.options.get("out", "mutants.jsonl"))),
            lambda line: print(line, flush=True), seed=given.number("seed", 0),
            most=given.number("most", 20, least=1), workers=given.number("workers", 2, least=1),
        )  # fmt: skip
    print(f"{found} bugs kept")
    return 0


def _keep(words: list[str]) -> int:
    from envs.swe.mutant_tasks import TABLE
    from envs.swe.mutants import read_log, table
    from envs.words import UsageError, parse

    given = parse(words)
    if len(given.names) != 1:
        raise UsageError("name the file that mutate wrote, as in: keep mutants.jsonl")
    text = table(read_log(Path(given.names[0])))
    TABLE.write_text(text, "utf-8")
    print(f"{len(text.splitlines())} lines in {TABLE}")
    return 0


def _mutants(words: list[str]) -> int:
    from envs.sandbox.pool import SandboxPool
    from envs.swe.mutant_tasks import mutant_tasks
    from envs.swe.mutants import SPEC
    from envs.tasks.loading import write_jsonl
    from envs.words import parse

    given = parse(words, keys=("out",))
    out = Path(given.options.get("out", "mutant-tasks.jsonl"))
    with SandboxPool(run_id="swe-mutants") as sandboxes:
        sandbox = sandboxes.acquire(SPEC)
        tasks = mutant_tasks(given.names, sandbox, lambda line: print(line, flush=True))
        sandboxes.release(sandbox)
    write_jsonl(tasks, out)
    print(f"{len(tasks)} tasks in {out}: play them with tasks.path={out}")
    return 0


def _show(head: str, begun: float, what: str) -> None:
    print(f"{head} {time.monotonic() - begun:6.1f} s  {what}", flush=True)


def _list() -> int:
    from envs.swe.releases import load_pairs

    for pair in load_pairs():
        built = (pair.folder / "task.json").exists()
        print(f"{pair.name:28} {'built' if built else 'not built'}")
    return 0


def _rows(words: list[str]) -> int:
    import json

    from envs.swe.own_rows import rows
    from envs.swe.releases import find_pair, load_pairs
    from envs.words import parse

    given = parse(words, keys=("out",))
    out = Path(given.options.get("out", "rows.jsonl"))
    pairs = [find_pair(name) for name in given.names] or [
        pair for pair in load_pairs() if (pair.folder / "task.json").exists()
    ]
    made = rows(pairs)
    out.write_text("".join(json.dumps(row) + "\n" for row in made), "utf-8")
    print(f"{len(made)} of {len(pairs)} pairs are rows in {out}: play them with tasks.path={out}")
    return 0


def _refusing(command: Callable[[list[str]], int], words: list[str]) -> int:
    from envs.errors import MissingDependency, TaskError
    from envs.words import UsageError

    try:
        return command(words)
    except (UsageError, TaskError) as error:
        print(error, file=sys.stderr)
        return 2
    except MissingDependency as error:
        print(error, file=sys.stderr)
        return 3


def main(arguments: list[str]) -> int:
    """Run one command; returns the exit code."""
    if {*arguments} & {"-h", "--help"}:
        print(__doc__)
        return 0
    match arguments:
        case ["generate"]:
            return _generate()
        case ["build", *names]:
            return _build(names)
        case ["search", *words]:
            return _search(words)
        case ["list"]:
            return _list()
        case ["mutate", *words]:
            return _refusing(_mutate, words)
        case ["keep", *words]:
            return _refusing(_keep, words)
        case ["rows", *words]:
            return _refusing(_rows, words)
        case ["mutants", *words]:
            return _refusing(_mutants, words)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
