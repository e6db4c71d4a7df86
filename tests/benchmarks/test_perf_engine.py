"""The engine bench on a tiny model: well-formed rows, also where a peer does not run."""

import pytest

from benchmarks.perf import engine
from benchmarks.perf.engine import Plan
from benchmarks.perf.process import BenchError
from benchmarks.perf.samplers import bandwidth, read_bytes
from serving.models import resolve

SMALL = Plan(
    ((2, 1), (2, 2)), prompt_tokens=12, new_tokens=3, turn_tokens=5, rounds=1, model="tiny"
)


class Absent:
    name = "absent"

    def __init__(self, folder) -> None:
        raise BenchError("absent: does not run here")


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setattr(engine, "ContinuousBatch", Absent)
    monkeypatch.setattr(engine, "bandwidth", lambda rounds: bandwidth(rounds, 1 << 20))
    measured = engine.measure(SMALL)
    by_clock = [row for row in measured if "processor" not in row.unit]
    twins = [row for row in measured if row.unit == "tokens/processor s"]
    assert [(row.case, row.peer_name) for row in twins] == [
        (row.case, row.peer_name) for row in by_clock if row.unit == "tokens/s"
    ]
    assert all(row.ours > 0 for row in twins)
    return {(row.case, row.peer_name): row for row in by_clock}


def test_every_case_has_a_row(rows):
    """A peer that does not run leaves its row, with the reason in it."""
    for case in ("2 at once, 12 + 3 tokens", "2 at once, one prompt, 12 + 3 tokens"):
        beside = rows[case, "transformers generate, static batch"]
        assert beside.ours and beside.peer and beside.better == "higher"
        assert rows[case, "absent: does not run here"].peer is None
    told = {case for case, _ in rows}
    assert {f"weights=int8, {num} at once, 12 + 3 tokens" for num in (1, 4, 16)} <= told


def test_a_second_turn_computes_only_what_is_new(rows):
    """All but the last sampled token of the turn before lies in the cache."""
    found = rows["second turn, prompt found in the cache", ""]
    assert found.ours == pytest.approx(14 / 20)


def test_exact_weights_have_no_error_and_int8_has_some(rows):
    """A bench that scores with the engine it measures would call int8 exact."""
    case = "weights={}, mean |log-prob - exact| of sampled tokens"
    exact, lossy = rows[case.format("fp32"), ""].ours, rows[case.format("int8"), ""].ours
    assert exact < 1e-4 < lossy


def test_bytes_of_a_token_count_a_tied_embedding_once():
    """The head reads the embedding: counting both halved the share of the bandwidth."""
    folder = resolve("tiny")
    stored = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    assert read_bytes(folder) == pytest.approx(stored, rel=0.1)
