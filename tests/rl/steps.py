"""Single optimiser steps on a tiny model, and their gradients."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from rl.methodsettings import AlgorithmConfig
from rl.packing import pack
from rl.settings import GuardsConfig, LoraConfig, OptimConfig, TrainerConfig
from rl.trainer import Trainer
from rl.types import Sample
from tests.rl import naive


def build(
    model: Path, lora: bool = False, trainer: dict[str, object] | None = None, **algorithm: object
) -> Trainer:
    return Trainer(
        model,
        AlgorithmConfig.model_validate({"kl_coef": 0.0, **algorithm}),
        OptimConfig(lr=1e-2, max_grad_norm=1e9),
        TrainerConfig.model_validate({"logit_chunk": 5, "max_logprob_gap": 1e9, **(trainer or {})}),
        LoraConfig(enabled=lora, rank=4),
        guards=GuardsConfig(kl_max=None),
    )


def gradients(
    trainer: Trainer, samples: list[Sample], budget: int = 4096, version: int = 1
) -> dict[str, torch.Tensor]:
    """The gradient of one step, taken before the optimiser uses it. Version 1 makes the tokens of
    ``random_samples`` stale: their ratio is to the engine's log-prob."""
    object.__setattr__(trainer.config, "token_budget", budget)
    kept: dict[str, torch.Tensor] = {}

    def keep(*_: object) -> None:
        for name, p in trainer.policy.model.named_parameters():
            if p.grad is not None:
                kept[name] = p.grad.clone()

    handle = trainer.optimizer.register_step_pre_hook(keep)
    trainer.step(samples, version=version)
    handle.remove()
    return kept


def assert_naive(
    model: Path, trainer: Trainer, samples: list[Sample], budget: int = 4096, version: int = 1
) -> None:
    """In single precision to 1e-5 of the largest entry, in double to 1e-6 (the norms
    of these models compute in single precision all the same)."""
    tolerance = 1e-6 if trainer.policy.dtype == torch.float64 else 1e-5
    expected = naive.gradients(model, samples, trainer.algorithm, trainer.config, version)
    got = gradients(trainer, samples, budget, version)
    assert got.keys() == expected.keys()
    for name, gradient in expected.items():
        scale = float(gradient.abs().max())
        assert float((got[name].double() - gradient).abs().max()) <= tolerance * scale, name


def near_policy(model: Path, samples: list[Sample], spread: float) -> list[Sample]:
    """The samples with the trainer's own log-probs as the engine's, moved by up to ``spread``."""
    policy = build(model).policy
    rng = np.random.default_rng(0)
    logprobs = [np.full(len(s.token_ids_L), np.nan) for s in samples]
    with torch.no_grad():
        for batch in pack(samples, 4096):
            scores_E = policy.score(batch).logprobs_E.double().numpy()
            for index in np.unique(batch.sample_E):
                own = scores_E[batch.sample_E == index]
                shift = rng.uniform(-spread, spread, len(own))
                logprobs[index][samples[index].active_L] = own + shift
    return [replace(s, old_logprobs_L=values) for s, values in zip(samples, logprobs, strict=True)]
