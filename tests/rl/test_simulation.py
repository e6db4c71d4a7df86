"""The simulated control loop: time passes without waiting, and the bound holds for every token."""

import math
from pathlib import Path

import pytest

from rl import simulation


@pytest.mark.parametrize("staleness", ["0.5", "1"])
def test_no_token_is_learned_past_the_bound(
    staleness: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Long episodes span versions; what of them is too old must be masked, whatever the split."""
    monkeypatch.setattr(simulation, "STEPS", 5)
    monkeypatch.setattr(simulation, "GROUPS", 4)
    result = simulation.simulate(staleness, 4, 1.0)
    assert result["past_bound"] == 0
    assert 0 < result["mean_lag"] <= math.ceil(float(staleness))
    assert result["trained"] > 0


def test_synchronous_training_uses_its_own_weights_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Staleness 0 is on-policy: nothing lags and nothing is masked."""
    monkeypatch.setattr(simulation, "STEPS", 3)
    monkeypatch.setattr(simulation, "GROUPS", 2)
    result = simulation.simulate("sync", 0, 1.0)
    assert result["mean_lag"] == 0 and result["masked_share"] == 0
    assert result["seconds"] > 30  # simulated
