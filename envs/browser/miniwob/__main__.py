"""``python -m envs.browser.miniwob list`` names the pages; ``… oracle [PAGE…] [seeds=20]`` plays
the scripted oracle and prints its table; ``… tasks PAGE… [seeds=20] [reward=raw]`` writes tasks,
one a line, for any page.

Exit codes: 0 all well, 1 an oracle below 95 of 100, 2 a mistake in the call, 3 something missing.
"""

import json
import sys
import time
from collections.abc import Sequence

from envs import images
from envs.browser.env import BrowserEnv
from envs.browser.miniwob.oracle import Solved, solve
from envs.browser.miniwob.solvers import SOLVERS
from envs.browser.miniwob.tasks import BROKEN, names, task
from envs.errors import EnvError, MissingDependency, TaskError
from envs.sandbox.pool import SandboxPool
from envs.words import UsageError, Words, parse

USAGE = " ".join((__doc__ or "").split("\n\n")[0].replace("``", "").split())
GOOD = 0.95
TRIES = 3


def _list(words: Words) -> int:
    for name in names():
        state = f"not to be trusted: {BROKEN[name]}" if name in BROKEN else ""
        solver = f"oracle, {SOLVERS[name].level}" if name in SOLVERS else "no oracle"
        print(f"{name:28} {solver:16} {state}".rstrip())
    return 0


def _tasks(words: Words) -> int:
    if not words.names:
        raise UsageError("name at least one page, see list")
    for name in words.names:
        for seed in range(words.number("seeds", 20, least=1)):
            made = task(name, seed, reward=words.options.get("reward", ""))
            print(json.dumps(made.to_json(), ensure_ascii=False))
    return 0


def _solved(env: BrowserEnv, name: str, seed: int) -> Solved:
    """Play one seed; again where the world failed, as a run would."""
    for left in range(TRIES - 1, -1, -1):
        try:
            return solve(env, task(name, seed))
        except EnvError as error:
            if not left:
                raise
            print(f"{name} {seed}: played again: {error}", file=sys.stderr)
    raise AssertionError("not reached")


def _oracle(words: Words) -> int:
    chosen = words.names or sorted(name for name in SOLVERS if name not in BROKEN)
    unknown = [name for name in chosen if name not in SOLVERS]
    if unknown:
        raise UsageError(f"no oracle for {', '.join(unknown)}: see list")
    seeds = words.number("seeds", 20, least=1)
    images.resolve("gui")
    good, begun = 0, time.monotonic()
    print(f"{'page':28} {'solved':>8} {'mean reward':>12} {'actions':>8} {'s':>6}")
    with SandboxPool(run_id="miniwob-oracle", max_idle=1) as pool:
        env = BrowserEnv([task(chosen[0], 0)], pool)
        for name in chosen:
            started, raws, lengths, solves, why = time.monotonic(), [], [], [], ""
            for seed in range(seeds):
                done = _solved(env, name, seed)
                raws.append(done.raw_reward)
                lengths.append(len(done.actions))
                solves.append(done.verdict.solved)
                if done.verdict.reward < 1 and not why:
                    why = f"  seed {seed}: {done.why or done.verdict.detail}"
            solved = sum(solves)
            good += solved >= GOOD * seeds
            print(f"{name:28} {solved:4}/{seeds:<3} {sum(raws) / seeds:12.3f} "
                  f"{sum(lengths) / seeds:8.1f} {time.monotonic() - started:6.1f}{why}"[:200],
                  flush=True)  # fmt: skip
        env.close()
    print(f"{good} of {len(chosen)} pages at {GOOD:.0%} or more, "
          f"{time.monotonic() - begun:.0f} s")  # fmt: skip
    return int(good < len(chosen))


def main(argv: Sequence[str]) -> int:
    """Run one command; return the exit code."""
    if {*argv} & {"-h", "--help"}:
        print(USAGE)
        return 0
    commands = {"list": (_list, ()), "tasks": (_tasks, ("seeds", "reward")),
                "oracle": (_oracle, ("seeds",))}  # fmt: skip
    try:
        if not argv or argv[0] not in commands:
            raise UsageError(USAGE)
        command, keys = commands[argv[0]]
        return command(parse(argv[1:], keys=keys))
    except (UsageError, TaskError) as error:
        print(error, file=sys.stderr)
        return 2
    except MissingDependency as error:
        print(error, file=sys.stderr)
        return 3
    except EnvError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
