"""Requests per second through our gateway, with every token captured, beside other gateways.

All stand in front of the same fake engine (``fake_engine``, a process of its own that answers at
once), and each is a process of its own; the load comes from another (``load``). The sides are
loaded in turn, several times over, so that a busy machine burdens all alike. An error or a reply
that is not the engine's ends the bench; what a side recorded of one session is compared with what
the engine said, so that nobody is fast by not recording.

Left out: real engines (``engine``), TLS.
"""

import json
import logging
import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.perf.fake_engine import Script
from benchmarks.perf.load import SYSTEM, Target
from benchmarks.perf.peers import AUTHORIZATION, KEY, PEERS, Side, call
from benchmarks.perf.process import BenchError, Process, allow_many_files
from benchmarks.perf.rows import Row

logger = logging.getLogger(__name__)

BENCH = "gateway"
OURS, DISK, DIRECT = "ours", "ours, sessions on disk", "straight to the engine"
SAID = (
    "The key is in the second box, because the note on the first says so and the third box is "
    "already open and empty, as anyone can see."
)
TURNS = 4  # of a conversation before it begins anew
KEPT_TURNS = 1 << 16  # in memory: more than one load makes, so that its record can be compared
MANY = 64  # connections at which peers and processor time are judged first


@dataclass(frozen=True)
class Plan:
    """How long and how wide.

    Attributes:
        connections: widths of the closed loop.
        rounds: times each side is loaded at each width.
        warm_s, measure_s: of one load.
        num_streams: open at once.
        interval_s: between two tokens of each of these.
        on_disk: measure ours with sessions kept on disk too.
        model: whose tokenizer and template are used.
    """

    connections: tuple[int, ...] = (1, 16, 64, 256)
    rounds: int = 3
    warm_s: float = 1.0
    measure_s: float = 5.0
    num_streams: int = 1000
    interval_s: float = 1.0
    on_disk: bool = True
    model: str = "smollm2-135m"


QUICK = Plan((1, 64), 1, 0.3, 1.0, num_streams=200, interval_s=0.1, on_disk=False)


@dataclass
class Tally:
    """What a side did at one width, over all rounds."""

    latencies_s: list[float] = field(default_factory=list)
    measured_s: float = 0.0
    cpu_s: float = 0.0
    num_answers: int = 0
    failure: str = ""

    @property
    def rate(self) -> float | None:
        """Answers per second."""
        return len(self.latencies_s) / self.measured_s if self.measured_s else None

    @property
    def p99_ms(self) -> float | None:
        """The latency that one in a hundred answers exceeds."""
        return percentile(self.latencies_s, 0.99) * 1e3 if self.latencies_s else None

    @property
    def cpu_ms(self) -> float | None:
        """Processor time of the side per answer, warm-up included."""
        return self.cpu_s / self.num_answers * 1e3 if self.num_answers else None


def run(quick: bool) -> list[Row]:
    """Measure all cases.

    Raises:
        BenchError: an error in a reply, a wrong reply or an incomplete record of ours.
        MissingDependency: the model cannot be had.
    """
    return measure(QUICK if quick else Plan())


def measure(plan: Plan) -> list[Row]:
    """Measure a plan; see ``run``."""
    allow_many_files()
    script = _script(plan)
    with ExitStack() as stack:
        sides = _start(plan, script, stack)
        load = stack.enter_context(Process.module("benchmarks.perf.load"))
        rows: list[Row] = []
        for num in plan.connections:
            rows += _rows(num, _contest(plan, num, sides, load, script))
        rows += _stream_rows(plan, sides, load)
    return rows


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that ``share`` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _script(plan: Plan) -> Script:
    """Return a reply in the model's own tokens, so that the next turn goes on from it exactly."""
    from serving.models import resolve
    from serving.renderer import Renderer

    folder = resolve(plan.model)
    renderer = Renderer(folder)
    ids = renderer.encode_content(SAID)[:31]
    texts = [renderer.decode([token]) for token in ids]
    prompt = renderer.render([{"role": "system", "content": SYSTEM}] * 3)
    return Script(
        ids_T=(*ids, min(renderer.end_ids)),
        texts_T=(*texts, ""),
        prompt_ids_P=prompt.ids_P,
        model_path=str(folder),
        context=2048,
        interval_s=plan.interval_s,
    )


def _start(plan: Plan, script: Script, stack: ExitStack) -> dict[str, Side | str]:
    """Start everything; a peer that cannot be had is the reason why."""
    engine = stack.enter_context(Process.module("benchmarks.perf.fake_engine"))
    engine_url = engine.tell(script.line())
    sides: dict[str, Side | str] = {DIRECT: Side(DIRECT, Target(engine_url), engine)}
    kept = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clawgym-perf-")))
    for name, options in ((OURS, ()), (DISK, (f"sessions={kept}",))):
        if name == OURS or plan.on_disk:
            process = stack.enter_context(_gateway(plan.model, engine_url, *options))
            sides[name] = ours(name, process.line(), process)
    for peer in PEERS.values():
        if not peer.is_installed:
            sides[peer.label] = peer.remedy
            continue
        try:
            side = peer.start(peer, engine_url)
        except (BenchError, OSError) as error:
            sides[peer.label] = f"{peer.label} did not start: {error}".splitlines()[0]
            continue
        stack.callback(side.process.close)
        sides[peer.label] = side
    return {name: _checked(side, script) for name, side in sides.items()}


def _checked(side: Side | str, script: Script) -> Side | str:
    """Return a side whose every reply is compared with the engine's."""
    if isinstance(side, str):
        return side
    return replace(side, target=replace(side.target, expected=script.text))


def _gateway(model: str, engine_url: str, *options: str) -> Process:
    """Start our gateway as a user does."""
    env = {
        "CLAWGYM_API_KEY": KEY,
        "CLAWGYM_ADMIN_KEY": KEY,
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE"),
    }
    engine = ("engine=sglang", f"sglang_url={engine_url}")
    arguments = (f"model={model}", *engine, "port=0", f"max_turns={KEPT_TURNS}")
    return Process.module("serving", *arguments, *options, env=env)


def ours(name: str, url: str, process: Process) -> Side:
    """Return our gateway at a URL as a side."""

    def captured(session: str) -> list[list[int]]:
        lines = call(f"{url}/v1/sessions/{session}/export").splitlines()
        return [json.loads(line)["token_ids_T"] for line in lines]

    target = Target(url, "/s/{session}/v1/chat/completions", AUTHORIZATION)
    return Side(name, target, process, captured=captured)


def _contest(
    plan: Plan, num: int, sides: dict[str, Side | str], load: Process, script: Script
) -> dict[str, Tally]:
    """Load every side in turn at one width."""
    tallies = {
        name: Tally(failure=side if isinstance(side, str) else "") for name, side in sides.items()
    }
    for turn in range(plan.rounds):
        for name, side in sides.items():
            if isinstance(side, str) or tallies[name].failure:
                continue
            sessions = [f"w{num}-r{turn}-c{at}" for at in range(num)]
            try:
                _load(plan, side, sessions, load, script, tallies[name])
            except BenchError as error:
                if name not in PEER_LABELS:
                    raise
                tallies[name] = Tally(failure=str(error))
            logger.info("%d connections, %s: %s", num, name, _said(tallies[name]))
    return tallies


def _load(
    plan: Plan, side: Side, sessions: list[str], load: Process, script: Script, tally: Tally
) -> None:
    side.prepare(sessions)
    before = side.process.cpu_s()
    seen = load.ask(
        {
            "do": "closed",
            "target": vars(side.target),
            "sessions": sessions,
            "turns": TURNS,
            "warm_s": plan.warm_s,
            "measure_s": plan.measure_s,
        }
    )
    if seen["errors"]:
        num, first = sum(seen["errors"].values()), next(iter(seen["errors"]))
        raise BenchError(f"{side.name}: {num} errors at {len(sessions)} connections: {first}")
    tally.cpu_s += side.process.cpu_s() - before
    tally.num_answers += sum(seen["answers"].values())
    tally.latencies_s += seen["latencies_s"]
    tally.measured_s += seen["measured_s"]
    if side.captured is not None:
        turns = side.captured(sessions[0])
        wanted = seen["answers"][sessions[0]]
        if [list(turn) for turn in turns] != [list(script.ids_T)] * wanted:
            raise BenchError(
                f"{side.name} recorded {len(turns)} turns of {wanted}, or other tokens than the "
                "engine's"
            )


def _said(tally: Tally) -> str:
    if tally.failure:
        return tally.failure
    return f"{tally.rate or 0:.0f} requests/s, p99 {tally.p99_ms or 0:.0f} ms"


PEER_LABELS = tuple(peer.label for peer in PEERS.values())


def _rows(num: int, tallies: dict[str, Tally]) -> list[Row]:
    """Return the rows of one width."""
    mine, case, rows = tallies[OURS], f"{num} connections", []
    for name in (*PEER_LABELS, DIRECT):
        peer = tallies[name]
        goal = ">= 0.6x" if name == DIRECT else ">= 10x" if num >= MANY else ""
        label = peer.failure or name
        rows.append(Row(BENCH, case, "requests/s", mine.rate, peer.rate, label, goal, "higher"))
        rows.append(Row(BENCH, f"{case}, p99", "ms", mine.p99_ms, peer.p99_ms, label))
        rows.append(
            Row(BENCH, f"{case}, processor per request", "ms", mine.cpu_ms, peer.cpu_ms, label)
        )
    if DISK in tallies:
        disk = tallies[DISK]
        case = f"{case}, sessions on disk"
        rows.append(Row(BENCH, case, "requests/s", disk.rate, mine.rate, "in memory", "", "higher"))
    return rows


def _stream_rows(plan: Plan, sides: dict[str, Side | str], load: Process) -> list[Row]:
    """Many streams at once: all must end well."""
    seen: dict[str, dict[str, Any]] = {}
    cpu: dict[str, float] = {}
    for name in (OURS, DIRECT):
        side = sides[name]
        assert isinstance(side, Side)
        before = side.process.cpu_s()
        command = {"do": "streams", "target": vars(side.target), "num": plan.num_streams}
        seen[name] = load.ask(command, timeout_s=600)
        cpu[name] = side.process.cpu_s() - before
        if seen[name]["errors"]:
            logger.warning("%s, streams: %s", name, seen[name]["errors"])
    mine, direct = seen[OURS], seen[DIRECT]
    case = f"{plan.num_streams} streams at once"
    goal = f"all {plan.num_streams}"
    told = {
        "complete": ("streams", mine["complete"], direct["complete"], goal),
        "open at the same time": ("streams", mine["most_open"], direct["most_open"], ""),
    }
    rows = [
        Row(BENCH, f"{case}, {what}", unit, one, other, DIRECT, wanted, "higher")
        for what, (unit, one, other, wanted) in told.items()
    ]
    for what, key in (("first piece, p99", "first_s"), ("longest gap, p99", "gaps_s")):
        values = [percentile(s[key], 0.99) if s[key] else None for s in (mine, direct)]
        rows.append(Row(BENCH, f"{case}, {what}", "s", values[0], values[1], DIRECT))
    rows.append(
        Row(BENCH, f"{case}, until all ended", "s", mine["took_s"], direct["took_s"], DIRECT)
    )
    rows.append(Row(BENCH, f"{case}, processor", "s", cpu[OURS], cpu[DIRECT], DIRECT))
    return rows
