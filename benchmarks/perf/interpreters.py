"""Thirty-two Python interpreters in sandboxes at once, against what the machine can do at best.

``busy`` cells use the processor: the ideal is the same cells in as many plain Python processes at
once on this machine, side by side in the same rounds, with the same share of it. ``asleep`` cells
wait: the ideal is one sleep. The ratio is ideal ÷ ours. One call that blocks the others, as a
shared event loop does, would show as a wall of many times the ideal.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from benchmarks.perf.rows import Row
from envs.images import resolve
from envs.sandbox.pool import SandboxPool
from envs.sandbox.protocol import SandboxSpec
from envs.toolcall.code.interpreter import Interpreter

NUM = 32
ROUNDS = 3
SLEEP_S = 2.0
BUSY = "t = 0\nfor i in range({n}):\n    t += i * i"
BUSY_STEPS = 3_000_000
PLAIN = (
    "import sys\nspace = {}\nfor line in sys.stdin:\n"
    "    exec(eval(line), space)\n    print('done', flush=True)\n"
)
GOAL = "wall <= 1.2 x ideal"


def run(quick: bool) -> list[Row]:
    """Measure. Raises ``MissingDependency``: no engine or no image."""
    resolve("python")
    num = 8 if quick else NUM
    steps = BUSY_STEPS // 4 if quick else BUSY_STEPS
    spec = SandboxSpec("python", memory_bytes=256 << 20)
    with SandboxPool(run_id="perf-interpreters", max_idle=num) as pool:
        pool.prefetch(spec, num)
        with ThreadPoolExecutor(num) as threads:
            made = list(threads.map(lambda _: Interpreter(pool.acquire(spec)), range(num)))
            for interpreter in made:
                interpreter.timeout_s = 120.0
            return [
                _busy(made, threads, BUSY.format(n=steps)),
                _asleep(made, threads),
                _alone(made[0], 50 if quick else 300),
            ]


def _busy(made: Sequence[Interpreter], threads: ThreadPoolExecutor, code: str) -> Row:
    plain = [
        subprocess.Popen([sys.executable, "-c", PLAIN], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True, bufsize=1)
        for _ in made
    ]  # fmt: skip

    def ask(process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{code!r}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"

    def ours(interpreter: Interpreter) -> None:
        assert interpreter.run(code).status == "ok"

    walls, ideals = [], []
    try:
        for _ in range(ROUNDS):
            walls.append(_wall(lambda: list(threads.map(ours, made))))
            ideals.append(_wall(lambda: list(threads.map(ask, plain))))
    finally:
        for process in plain:
            process.kill()
            process.communicate()
    return Row(
        "toolcall", f"{len(made)} interpreters at once, busy", "s", median(walls), median(ideals),
        "as many plain Python processes", GOAL,
    )  # fmt: skip


def _asleep(made: Sequence[Interpreter], threads: ThreadPoolExecutor) -> Row:
    def ours(interpreter: Interpreter) -> None:
        assert interpreter.run(f"import time; time.sleep({SLEEP_S})").status == "ok"

    walls = [_wall(lambda: list(threads.map(ours, made))) for _ in range(ROUNDS)]
    return Row(
        "toolcall", f"{len(made)} interpreters at once, asleep", "s", median(walls), SLEEP_S,
        "one sleep", GOAL,
    )  # fmt: skip


def _alone(interpreter: Interpreter, count: int) -> Row:
    walls = [_wall(lambda: interpreter.run("x = 1")) for _ in range(count)]
    return Row("toolcall", "a cell, one interpreter", "ms", median(walls) * 1e3)


def _wall(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun
