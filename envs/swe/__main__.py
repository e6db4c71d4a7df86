"""``python -m envs.swe generate | build [PAIR…] | list | search PACKAGE… [out=FILE]``: the bugs
file, the release tasks, and the search for more of these.
"""

import sys
import time
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


def _show(head: str, begun: float, what: str) -> None:
    print(f"{head} {time.monotonic() - begun:6.1f} s  {what}", flush=True)


def _list() -> int:
    from envs.swe.releases import load_pairs

    for pair in load_pairs():
        built = (pair.folder / "task.json").exists()
        print(f"{pair.name:28} {'built' if built else 'not built'}")
    return 0


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
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
