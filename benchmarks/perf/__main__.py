"""``python -m benchmarks.perf NAME [--quick] [--json FILE]``: measure, print, keep.

A name is a module of this package with ``run(quick: bool) -> list[Row]``; a new one needs a line
in ``BENCHES`` and nothing else.
"""

import argparse
import asyncio
import importlib
import json
import logging
import sys
from pathlib import Path

from benchmarks.perf.rows import Row, machine_facts, table
from envs.errors import MissingDependency

BENCHES = {
    "async": "benchmarks.perf.asynchrony",
    "engine": "benchmarks.perf.engine",
    "gateway": "benchmarks.perf.gateway",
    "gui": "benchmarks.perf.gui",
    "live": "benchmarks.perf.live",
    "publication": "benchmarks.perf.publication",
    "rollout": "benchmarks.perf.rollout",
    "sandbox": "benchmarks.perf.sandbox",
    "toolcall": "benchmarks.perf.toolcall",
    "trainer": "benchmarks.perf.trainer",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0 done, 2 user error, 3 something missing, 130
    interrupted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.perf", description=__doc__)
    parser.add_argument("name", metavar="NAME", help=", ".join([*BENCHES, "all"]))
    parser.add_argument("--quick", action="store_true", help="fewer repeats, done in a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows there")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    if options.name not in {*BENCHES, "all"}:
        print(
            f"no bench {options.name!r}: choose one of {', '.join(sorted([*BENCHES, 'all']))}",
            file=sys.stderr,
        )
        return 2
    rows: list[Row] = []
    code = 0
    for name in BENCHES if options.name == "all" else [options.name]:
        try:
            rows += importlib.import_module(BENCHES[name]).run(quick=options.quick)
        except MissingDependency as error:
            print(f"{name}: {error}", file=sys.stderr)
            code = 3
        except (KeyboardInterrupt, asyncio.CancelledError):
            print(f"{name}: interrupted", file=sys.stderr)
            return 130
    if rows:
        print(machine_facts())
        print(table(rows))
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps([row.to_json() for row in rows], indent=1) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
