"""``python -m envs.sandbox list|reap|check``: what runs, what is left over, what holds."""

import argparse
import logging
import sys

from envs.errors import MissingDependency
from envs.sandbox.check import CHECKS, check_sandbox
from envs.sandbox.docker import DockerSandbox
from envs.sandbox.reaper import reap, survey

BACKENDS = {"docker": DockerSandbox}


def main() -> int:
    """Run the command line; returns the exit code (0 done, 1 a check failed, 2 user, 3 missing)."""
    options = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        if options.command == "list":
            return _list(options.run)
        if options.command == "reap":
            return _reap(options.run, options.force)
        return _check(options.backend, options.names)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    except MissingDependency as error:
        print(error, file=sys.stderr)
        return 3


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m envs.sandbox", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    lister = commands.add_parser("list", help="show every sandbox and whether it may be removed")
    reaper = commands.add_parser("reap", help="remove sandboxes whose owner is gone")
    for command in (lister, reaper):
        command.add_argument("--run", metavar="ID", help="only of this run")
    reaper.add_argument("--force", action="store_true", help="also those in use; needs --run")
    checker = commands.add_parser("check", help="run the conformance suite against a back end")
    checker.add_argument("--backend", choices=sorted(BACKENDS), default="docker")
    checker.add_argument("names", nargs="*", metavar="CHECK", help=f"of: {', '.join(CHECKS)}")
    return parser


def _list(run_id: str | None) -> int:
    rows = survey(run_id)
    for row in rows:
        print(
            f"{row.name:22} {row.run_id:16} {row.worker:8} {row.state:9} {row.reason or 'in use'}"
        )
    print(f"{len(rows)} sandboxes")
    return 0


def _reap(run_id: str | None, force: bool) -> int:
    done = reap(run_id, force=force)
    print(f"{len(done.removed)} removed" + (f", stuck: {done.stuck}" if done.stuck else ""))
    return 1 if done.stuck else 0


def _check(backend: str, names: list[str]) -> int:
    report = check_sandbox(BACKENDS[backend], only=names)
    print("\n".join(report.lines()))
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
