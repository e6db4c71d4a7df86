"""Sandbox latency: a command, a reset and a start, beside the usual ways with the same engine.

The peers run in the very same container (a command) or from the very same image (start and
reset), alternating with ours, so a busy machine burdens both alike.
"""

import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from time import perf_counter

from benchmarks.perf.rows import Row, medians_ms
from envs.images import ensure
from envs.sandbox.container import LABEL
from envs.sandbox.docker import DockerSandbox
from envs.sandbox.engine import connect
from envs.sandbox.lease import owner_label
from envs.sandbox.protocol import SandboxSpec

SPEC = SandboxSpec(image="terminal")
RUN_ID = "perf-sandbox"


def run(quick: bool) -> list[Row]:
    """Measure all cases.

    Raises:
        MissingDependency: no engine or no image; names the remedy.
    """
    ensure("terminal")
    rounds, budget_s = (20, 6.0) if quick else (50, 60.0)
    with DockerSandbox(SPEC, run_id=RUN_ID) as sandbox:
        rows = [
            *_steps(sandbox, rounds, budget_s),
            *_files(sandbox, rounds, budget_s),
            *_life(sandbox, rounds // 5, budget_s),
        ]
    return [*rows, _throughput(sandboxes=4 if quick else 16, steps=20 if quick else 200)]


def _steps(sandbox: DockerSandbox, rounds: int, budget_s: float) -> list[Row]:
    """A command in the persistent shell and in a process of its own."""
    ours = {
        "step, shell builtin": lambda: sandbox.shell("true"),
        "step, program": lambda: sandbox.shell("/bin/true"),
        "exec, program": lambda: sandbox.exec(["true"]),
    }
    with ExitStack() as stack:
        peers = _exec_peers(sandbox.id, stack)
        medians = medians_ms({**ours, **peers}, rounds, budget_s=budget_s)
    goals = {"step, shell builtin": "<= 10 ms"}
    return [
        Row("sandbox", case, "ms", medians[case], medians[peer], peer, goals.get(case, ""))
        for case in ours
        for peer in peers
    ]


def _exec_peers(container: str, stack: ExitStack) -> dict[str, Callable[[], object]]:
    """Return one call per usual way to run a command in a running container."""
    api = connect()
    stack.callback(api.close)

    def sdk() -> None:
        made = api.exec_create(container, ["true"], user="1000")
        api.exec_start(made["Id"])

    peers: dict[str, Callable[[], object]] = {"SDK exec_run": sdk}
    if shutil.which("docker"):
        command = ["docker", "exec", "-u", "1000", container, "true"]
        peers["docker exec CLI"] = lambda: subprocess.run(command, check=True, capture_output=True)
    return peers


def _files(sandbox: DockerSandbox, rounds: int, budget_s: float) -> list[Row]:
    """A 64 kB file in and out; the engine's own copy cannot reach a read-only root or a tmpfs."""
    data = bytes(1 << 16)
    medians = medians_ms(
        {
            "write_file 64 kB": lambda: sandbox.write_file("/workspace/f", data),
            "read_file 64 kB": lambda: sandbox.read_file("/workspace/f"),
        },
        rounds,
        budget_s=budget_s,
    )
    return [Row("sandbox", case, "ms", value) for case, value in medians.items()]


def _life(sandbox: DockerSandbox, rounds: int, budget_s: float) -> list[Row]:
    """A clean sandbox by reset, and by a fresh container, ours and the engine's plain way."""
    api, image = connect(), ensure("terminal")
    labels = {LABEL: "perf", f"{LABEL}.run": RUN_ID, f"{LABEL}.owner": owner_label()}
    opened: list[DockerSandbox] = []

    def soil() -> None:
        sandbox.shell("for i in {1..200}; do echo x > f$i; done; sleep 1000 & export X=1")

    def plain() -> None:
        command = ["sh", "-c", "sleep 1000"]
        made = api.create_container(image, command, labels=labels, network_disabled=True)
        try:
            api.start(made["Id"])
            api.exec_start(api.exec_create(made["Id"], ["true"])["Id"])
        finally:
            api.remove_container(made["Id"], force=True)

    actions = {
        "reset": sandbox.reset,
        "start": lambda: opened.append(DockerSandbox(SPEC, run_id=RUN_ID)),
        "close": lambda: opened.pop().close(),
        "plain": plain,
    }
    try:
        ms = medians_ms(actions, rounds, before=soil, budget_s=budget_s)
    finally:
        for extra in opened:
            extra.close()
        api.close()
    clean, peer = "clean after 200 files, a process", "plain container, start to removal"
    return [
        Row("sandbox", clean, "ms", ms["reset"], ms["start"] + ms["close"], "fresh sandbox"),
        Row("sandbox", clean, "ms", ms["reset"], ms["plain"], peer),
        Row("sandbox", "start, until ready", "ms", ms["start"]),
        Row("sandbox", "start and close", "ms", ms["start"] + ms["close"], ms["plain"], peer),
    ]


def _throughput(sandboxes: int, steps: int) -> Row:
    """Steps per second over many sandboxes at once, against the SDK's exec at the same width."""
    with ExitStack() as stack:
        with ThreadPoolExecutor(4) as workers:
            made = [workers.submit(DockerSandbox, SPEC, run_id=RUN_ID) for _ in range(sandboxes)]
        opened = [stack.enter_context(start.result()) for start in made]
        ours = _rate([partial(box.shell, "/bin/true") for box in opened], steps)
        peers = [_exec_peers(box.id, stack)["SDK exec_run"] for box in opened]
        theirs = _rate(peers, max(2, steps // 25))
    case = f"{sandboxes} sandboxes at once, program"
    return Row("sandbox", case, "steps/s", ours, theirs, "SDK exec_run", better="higher")


def _rate(actions: list[Callable[[], object]], steps: int) -> float:
    def repeat(action: Callable[[], object]) -> None:
        for _ in range(steps):
            action()

    begun = perf_counter()
    with ThreadPoolExecutor(len(actions)) as workers:
        list(workers.map(repeat, actions))
    return len(actions) * steps / (perf_counter() - begun)
