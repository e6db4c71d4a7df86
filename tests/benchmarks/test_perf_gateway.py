"""The gateway bench: well-formed rows, and none from measurements that cannot be trusted."""

from collections.abc import Iterator

import pytest

from benchmarks.perf import gateway, peers
from benchmarks.perf.fake_engine import Script
from benchmarks.perf.gateway import DIRECT, OURS, Plan, Tally, percentile
from benchmarks.perf.load import Target
from benchmarks.perf.peers import PEERS, Side
from benchmarks.perf.process import BenchError, Process

SCRIPT = Script((4, 5, 2), ("on", "e", ""), (7, 8, 9), "/nowhere", interval_s=0.01)
SMALL = Plan((2,), 1, 0.1, 0.3, num_streams=5, interval_s=0.01, on_disk=False, model="tiny")


@pytest.fixture
def engine() -> Iterator[tuple[Process, str]]:
    with Process.module("benchmarks.perf.fake_engine") as process:
        yield process, process.tell(SCRIPT.line())


@pytest.fixture
def load() -> Iterator[Process]:
    with Process.module("benchmarks.perf.load") as process:
        yield process


def test_rows_come_from_the_real_gateway(monkeypatch):
    """Every row is filled; a peer that is not installed is named with its remedy."""
    monkeypatch.setattr(peers.Peer, "is_installed", False)
    rows = {(row.case, row.peer_name): row for row in gateway.measure(SMALL)}
    direct = rows["2 connections", DIRECT]
    assert direct.ours and direct.peer and direct.better == "higher"
    for peer in PEERS.values():
        row = rows["2 connections", peer.remedy]
        assert row.ours and row.peer is None
    streams = rows["5 streams at once, complete", DIRECT]
    assert (streams.ours, streams.peer) == (5, 5)
    assert {row.bench for row in rows.values()} == {"gateway"}


def test_load_counts_answers_and_streams(engine, load):
    """What is told of a session is what was answered in it: recordings are compared with it."""
    _, url = engine
    target = vars(Target(url, expected=SCRIPT.text))
    command = {"do": "closed", "target": target, "turns": 2, "warm_s": 0.05, "measure_s": 0.2}
    seen = load.ask({**command, "sessions": ["a", "b"]})
    assert not seen["errors"] and set(seen["answers"]) == {"a", "b"}
    assert 0 < len(seen["latencies_s"]) <= sum(seen["answers"].values())
    streams = load.ask({"do": "streams", "target": target, "num": 3})
    assert streams["complete"] == 3 and len(streams["first_s"]) == 3


@pytest.mark.parametrize(
    ("path", "expected", "said"),
    [("/v1/nothing", "", "404"), ("/v1/chat/completions", "two", "another reply")],
)
def test_an_error_ends_the_bench(engine, load, path, expected, said):
    """A server that refuses at once looked like the fastest of all."""
    process, url = engine
    side = Side(OURS, Target(url, path, expected=expected), process)
    with pytest.raises(BenchError, match=said):
        gateway._load(SMALL, side, ["a"], load, SCRIPT, Tally())


def test_a_side_that_does_not_record_is_found_out(engine, load):
    """Throughput without the recording is not the throughput of a recording gateway."""
    process, url = engine
    side = Side(OURS, Target(url), process, captured=lambda session: [[4, 5, 2]])
    with pytest.raises(BenchError, match="recorded 1 turns"):
        gateway._load(SMALL, side, ["a"], load, SCRIPT, Tally())


def test_percentiles_are_values_that_were_seen():
    """Nearest rank, also of a single value."""
    assert percentile([3.0], 0.99) == 3.0
    assert percentile([float(n) for n in range(100)], 0.99) == 99.0
    assert Tally().rate is None and Tally().p99_ms is None and Tally().cpu_ms is None


def test_unknown_peer_names_the_legal_ones(capsys):
    """A mistyped name is the user's mistake: exit 2 and the legal set."""
    assert peers.main(["install", "agentlightening"]) == 2
    assert "agentlightning" in capsys.readouterr().err
    assert peers.main(["list"]) == 0
    assert "rllm-model-gateway 0.1.0" in capsys.readouterr().out


def test_a_peer_lies_outside_the_repository(monkeypatch, tmp_path):
    """Environments of hundreds of megabytes were once committed."""
    monkeypatch.setenv("CLAWGYM_CACHE", str(tmp_path))
    peer = PEERS["agentlightning"]
    assert peer.folder == tmp_path / "peers" / "agentlightning-1.0.2" and not peer.is_installed
