"""The table of speed measurements: what a ratio means, and what a wrong name says."""

import json

import pytest

from benchmarks.perf.__main__ import main
from benchmarks.perf.rows import Row, machine_facts, medians_ms, table


@pytest.mark.parametrize(("better", "ratio"), [("lower", 4.0), ("higher", 0.25)])
def test_ratio_above_one_means_ours_is_better(better, ratio):
    """A throughput read like a latency turned a defeat into a win."""
    row = Row("b", "c", "u", ours=2.0, peer=8.0, better=better)
    assert row.ratio == ratio
    assert set(row.to_json()) == {
        "bench", "case", "unit", "ours", "peer", "peer_name", "ratio", "goal",
    }  # fmt: skip


def test_missing_peer_is_a_row_not_a_crash():
    """A peer that is not installed is shown with the command that installs it."""
    row = Row("b", "c", "u", ours=2.0, peer_name="pip install peer")
    assert json.loads(json.dumps(row.to_json()))["peer"] is None
    assert "pip install peer" in table([row])


def test_actions_take_turns_and_the_first_round_does_not_count():
    """Measuring one after the other compares two states of the machine."""
    calls = []
    actions = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    assert set(medians_ms(actions, 2)) == {"a", "b"}
    assert calls == ["a", "b"] * 3
    assert "cores" in machine_facts()


def test_unknown_bench_names_the_legal_ones(capsys):
    """A mistyped name is the user's mistake: exit 2 and the legal set."""
    assert main(["sandbx"]) == 2
    assert "sandbox" in capsys.readouterr().err
