"""Advantages, losses, aggregation, anchor and importance weights equal what two published trainers
compute, to 1e-6, on random ragged inputs.

The kept outputs were made by ``python -m tests.rl.oracles.make``, which states the versions;
``test_kept_outputs_are_what_the_packages_give`` makes them again.
"""

import numpy as np
import pytest
import torch

from rl import advantages, losses, offpolicy
from rl.packing import pack
from rl.settings import TrainerConfig
from rl.types import Sample, TermWeights
from tests.rl.oracles import make

GIVEN = make.read(make.HERE / "inputs.npz")
KEPT = {oracle.name: make.read(make.HERE / f"{oracle.name}.npz") for oracle in make.ORACLES}
MASK = GIVEN["mask_BT"] > 0
KEYS = [
    (oracle, name.removesuffix("/loss"))
    for oracle, kept in KEPT.items()
    for name in kept
    if name.endswith("/loss")
]


def flat(name: str) -> torch.Tensor:
    """Active entries of a table, row by row: our tokens."""
    return torch.from_numpy(GIVEN[name][MASK])


def test_versions_are_those_that_are_claimed() -> None:
    """A table made with another version proves another thing."""
    assert {o.name: o.version for o in make.ORACLES} == {
        name: str(kept["version"]) for name, kept in KEPT.items()
    }


@pytest.mark.parametrize("method", ["grpo", "dr_grpo", "rloo"])
def test_advantages_equal_verl(method: str) -> None:
    """Group statistics with ddof = 1; a group without variance is ours to leave out."""
    kept = KEPT["verl"][f"advantage/{method}"]
    for group in range(make.NUM_GROUPS):
        members = GIVEN["group_B"] == group
        ours = getattr(advantages, method)(GIVEN["rewards_B"][members])
        if ours is None:
            np.testing.assert_allclose(kept[members], 0.0, atol=1e-6)
        else:
            np.testing.assert_allclose(ours, kept[members], atol=1e-6)


def test_deviation_equals_trl() -> None:
    """The divisor of GRPO: the sample's deviation, not the population's."""
    for group, deviation in enumerate(KEPT["trl"]["deviation"]):
        rewards = GIVEN["rewards_B"][GIVEN["group_B"] == group]
        ours = advantages.grpo(rewards)
        if ours is not None:
            scaled = (rewards - rewards.mean()) / (deviation + advantages.EPSILON)
            np.testing.assert_allclose(ours, scaled, atol=1e-6)


@pytest.mark.parametrize(("oracle", "key"), KEYS)
def test_losses_and_gradients_equal(oracle: str, key: str) -> None:
    """Every loss under every aggregation, value and gradient of each token."""
    loss, aggregation, *anchored = key.split("/")
    dual = float(GIVEN["dual_clip"]) if loss == "ppo_clip_dual" else None
    sequence_E = np.nonzero(MASK)[0]
    logprobs_E = flat("logprobs_BT").requires_grad_()
    tokens = losses.PolicyTokens(
        logprobs_E, flat("old_BT"), flat("advantages_BT"), torch.from_numpy(sequence_E),
        torch.ones(len(sequence_E), dtype=torch.bool),
    )  # fmt: skip
    # trl's cispo has no lower bound: at 1 ours has none either
    low = 1.0 if (oracle, loss) == ("trl", "cispo") else float(GIVEN["clip_low"])
    clip = losses.Clip(low, float(GIVEN["clip_high"]), dual)
    loss_E = losses.POLICY_LOSSES[loss.removesuffix("_dual")](tokens, clip).loss_E
    if anchored:
        loss_E = loss_E + float(GIVEN["kl_coef"]) * losses.k3(logprobs_E, flat("ref_BT"))
    weights = losses.token_weights(sequence_E, aggregation, float(GIVEN["norm_length"]))  # type: ignore[arg-type]
    value = (torch.from_numpy(weights) * loss_E).sum()
    (gradient,) = torch.autograd.grad(value, logprobs_E)
    kept = KEPT[oracle]
    np.testing.assert_allclose(value.detach().numpy(), kept[f"{key}/loss"], atol=1e-6)
    np.testing.assert_allclose(gradient.numpy(), kept[f"{key}/gradient"][MASK], atol=1e-6)


def test_anchor_equals_verl() -> None:
    """The k3 estimator and its gradient."""
    logprobs_E = flat("logprobs_BT").requires_grad_()
    ours_E = losses.k3(logprobs_E, flat("ref_BT"))
    (gradient,) = torch.autograd.grad(ours_E.sum(), logprobs_E)
    np.testing.assert_allclose(ours_E.detach().numpy(), KEPT["verl"]["k3"][MASK], atol=1e-6)
    np.testing.assert_allclose(gradient.numpy(), KEPT["verl"]["k3/gradient"][MASK], atol=1e-6)


def test_importance_weights_equal_verl() -> None:
    """Truncated at 2, per token, between the trainer's log-prob and the engine's."""
    samples = [
        Sample(
            episode_id=f"e{row}",
            group_id="g",
            token_ids_L=np.arange(int(mask.sum()) + 1) + 100 * row,
            trained_L=np.arange(int(mask.sum()) + 1) > 0,
            old_logprobs_L=np.concatenate([[np.nan], GIVEN["engine_BT"][row][mask]]),
            versions_L=np.zeros(int(mask.sum()) + 1, np.int64),
            advantages_L=np.ones(int(mask.sum()) + 1),
            weights=TermWeights(pg=1.0),
        )
        for row, mask in enumerate(MASK)
    ]
    (batch,) = pack(samples, 10_000)
    settings = TrainerConfig(recompute_old="always", sequence_tolerance=None)
    correction = offpolicy.correct(batch, flat("logprobs_BT"), 0, settings)
    kept = KEPT["verl"]["importance"][MASK]
    np.testing.assert_allclose(correction.importance_E.numpy(), kept, atol=1e-6)
    assert (kept == 2.0).any()


@pytest.mark.oracle
@pytest.mark.parametrize("oracle", make.ORACLES, ids=[o.name for o in make.ORACLES])
def test_kept_outputs_are_what_the_packages_give(oracle: make.Oracle) -> None:
    """Numbers in a file are no oracle unless somebody can make them again."""
    assert make.differences(oracle) == []
