"""A trainer killed at any step goes on bit for bit as if nothing had happened."""

from pathlib import Path

import numpy as np
import pytest
import torch

from rl import checkpoint
from rl.checkpoint import CheckpointMeta
from rl.methodsettings import AlgorithmConfig
from rl.settings import GuardsConfig, LoraConfig, OptimConfig, TrainerConfig
from rl.trainer import Trainer
from rl.types import Sample
from tests.rl.records import random_samples

STEPS = 6
KILLS = sorted(np.random.default_rng(20).choice(np.arange(1, STEPS), 3, replace=False).tolist())


def build(model: Path, lora: bool) -> Trainer:
    return Trainer(
        model,
        AlgorithmConfig(kl_coef=0.0),
        OptimConfig(lr=1e-2, warmup_steps=4),
        TrainerConfig(max_logprob_gap=1e9, sequence_tolerance=None, token_budget=64),
        LoraConfig(enabled=lora, rank=4),
        guards=GuardsConfig(kl_max=None),
    )


def batch(step: int) -> list[Sample]:
    return random_samples(np.random.default_rng(100 + step))


def advance(trainer: Trainer, first: int) -> list[tuple[float, float]]:
    """Take the remaining steps; return loss and learning rate of each."""
    values = [trainer.step(batch(step), version=step + 1).values for step in range(first, STEPS)]
    return [(v["loss"], v["lr"]) for v in values]


@pytest.mark.parametrize("lora", [False, True])
def test_every_kill_point_continues_bit_for_bit(model: Path, lora: bool, tmp_path: Path) -> None:
    """Loss, learning rate and weights after a resume equal those of the run that never ended, over
    several points: a moment or a schedule forgotten shows at once."""
    straight = build(model, lora)
    told = []
    for step in range(STEPS):
        checkpoint.save(tmp_path, CheckpointMeta(step, step, True), straight.state(), keep=STEPS)
        values = straight.step(batch(step), version=step + 1).values
        told.append((values["loss"], values["lr"]))
    for kill in KILLS:
        resumed = build(model, lora)
        resumed.load_state(checkpoint.load_state(tmp_path / f"{kill:06d}"))
        assert resumed.step_index == kill
        assert advance(resumed, kill) == told[kill:]
        for name, tensor in straight.policy.trainable_state().items():
            assert torch.equal(tensor, resumed.policy.trainable_state()[name])
