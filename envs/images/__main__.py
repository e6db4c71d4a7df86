"""``python -m envs.images build [FAMILY…]`` and ``list``."""

import argparse
import logging
import sys
import time

from envs.errors import MissingDependency, SandboxStartError
from envs.images import ensure, families, reference
from envs.images.build import build
from envs.sandbox.engine import has_image


def main() -> int:
    """Run the command line; returns the exit code (0 done, 2 user error, 3 missing)."""
    parser = argparse.ArgumentParser(prog="python -m envs.images", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    builder = commands.add_parser("build", help="build images that are missing")
    builder.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(families()))
    builder.add_argument("--force", action="store_true", help="build even what exists")
    commands.add_parser("list", help="say which images exist")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        if options.command == "list":
            for family in families():
                wanted = reference(family)
                print(f"{family:10} {wanted:34} {'ready' if has_image(wanted) else 'not built'}")
            return 0
        for family in options.families or families():
            begun = time.monotonic()
            image = build(family) if options.force else ensure(family)
            print(f"{family:10} {image:34} ready in {time.monotonic() - begun:.0f} s")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    except (MissingDependency, SandboxStartError) as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
