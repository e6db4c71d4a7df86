"""``python -m envs.swe generate | build [PAIR…]``: make the bugs file; build release tasks."""

import sys


def _generate() -> int:
    from envs.swe.bugs import generate

    def show(done: int, total: int) -> None:
        print(f"\r{done}/{total} functions", end="", flush=True)

    print(f"\n{generate(show)} bugs kept")
    return 0


def main(arguments: list[str]) -> int:
    """Run one command; returns the exit code."""
    match arguments:
        case ["generate"]:
            return _generate()
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
