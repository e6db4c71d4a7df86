"""One optimiser step equals the naive loop, however the batch is packed, cut or ordered."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from rl import losses
from rl.config import AlgorithmConfig, LoraConfig, OptimConfig, TrainerConfig
from rl.errors import DivergedError
from rl.packing import pack
from rl.trainer import Trainer
from rl.types import Sample
from tests.rl.records import random_samples


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of two layers."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        initializer_range=0.3,
    )
    folder = tmp_path_factory.mktemp("model")
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def build(model: Path, budget: int = 4096, lora: bool = False, **algorithm: object) -> Trainer:
    return Trainer(
        model,
        AlgorithmConfig.model_validate({"kl_coef": 0.0, **algorithm}),
        OptimConfig(lr=1e-2, max_grad_norm=1e9),
        TrainerConfig(token_budget=max(budget, 64), logit_chunk=5),
        LoraConfig(enabled=lora, rank=4),
    )


def gradients(trainer: Trainer, samples: list[Sample], budget: int) -> dict[str, torch.Tensor]:
    """The gradient of one step, taken before the optimiser uses it."""
    object.__setattr__(trainer.config, "token_budget", budget)
    kept: dict[str, torch.Tensor] = {}

    def keep(*_: object) -> None:
        for name, p in trainer.policy.model.named_parameters():
            if p.grad is not None:
                kept[name] = p.grad.clone()

    handle = trainer.optimizer.register_step_pre_hook(keep)
    trainer.step(samples)
    handle.remove()
    return kept


def naive_gradients(
    model: Path, samples: list[Sample], aggregation: str
) -> dict[str, torch.Tensor]:
    """float64, one sequence at a time, whole logits, no packing."""
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float64)
    sequence = np.concatenate([[i] * s.num_trained for i, s in enumerate(samples)])
    weights = losses.token_weights(sequence, aggregation, 256.0)  # type: ignore[arg-type]
    start, kept = 0, 0.0
    for sample in samples:
        ids = torch.from_numpy(sample.token_ids_L)[None]
        logits = reference(ids).logits[0] / sample.temperature
        logprobs = torch.log_softmax(logits, -1)
        at = np.flatnonzero(sample.trained_L)
        chosen = logprobs[at - 1, ids[0, at]]
        ratio = torch.exp(chosen - torch.from_numpy(sample.old_logprobs_L[at]))
        advantage = torch.from_numpy(sample.advantages_L[at])
        term = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.28) * advantage)
        weight = torch.from_numpy(weights[start : start + len(at)])
        within = (ratio.detach() > 1e-4) & (ratio.detach() < 100.0)
        kept += float(weight[within].sum())
        (weight[within] * term[within]).sum().backward()
        start += len(at)
    scale = weights.sum() / kept
    return {n: p.grad * scale for n, p in reference.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    "aggregation", ["token_mean", "seq_mean_token_mean", "seq_mean_token_sum_norm"]
)
@pytest.mark.parametrize("budget", [8, 40, 4096])
def test_gradient_equals_naive_loop(model: Path, aggregation: str, budget: int) -> None:
    """Prefix sharing, micro-batches and logit chunks change nothing but rounding."""
    samples = random_samples(np.random.default_rng(1))
    expected = naive_gradients(model, samples, aggregation)
    got = gradients(build(model, aggregation=aggregation), samples, budget)
    assert got.keys() == expected.keys()
    for name, gradient in expected.items():
        scale = float(gradient.abs().max())
        assert float((got[name].double() - gradient).abs().max()) <= 1e-5 * scale, name


def test_order_of_samples_does_not_matter(model: Path) -> None:
    """A batch shuffled by arrival gives the same gradient."""
    samples = random_samples(np.random.default_rng(2))
    one = gradients(build(model), samples, 64)
    other = gradients(build(model), samples[::-1], 64)
    for name, gradient in one.items():
        torch.testing.assert_close(other[name], gradient, rtol=1e-4, atol=1e-7)


def test_zero_variance_and_masked_samples_do_not_dilute(model: Path) -> None:
    """Samples without a trained token leave the normaliser alone."""
    samples = random_samples(np.random.default_rng(3))
    empty = [
        Sample(
            episode_id="none",
            group_id="none",
            token_ids_L=s.token_ids_L,
            trained_L=np.zeros_like(s.trained_L),
            old_logprobs_L=s.old_logprobs_L,
            versions_L=s.versions_L,
            advantages_L=s.advantages_L,
        )
        for s in samples[:5]
    ]
    one = gradients(build(model), samples, 512)
    other = gradients(build(model), [*empty, *samples], 512)
    for name, gradient in one.items():
        torch.testing.assert_close(other[name], gradient, rtol=1e-5, atol=1e-8)


def test_shared_prompt_is_computed_once() -> None:
    """Eight replies to one prompt: tokens computed are the distinct ones."""
    samples = random_samples(np.random.default_rng(4), groups=1, members=8)
    (batch,) = pack(samples, 4096)
    prefixes = {tuple(s.token_ids_L[: i + 1]) for s in samples for i in range(len(s.token_ids_L))}
    assert batch.num_nodes == len(prefixes)
    assert batch.num_unshared == sum(len(s.token_ids_L) for s in samples)


def test_demonstration_in_a_policy_gradient_is_refused(model: Path) -> None:
    """A missing log-prob must never be read as probability 1."""
    samples = random_samples(np.random.default_rng(5), groups=1)
    samples[0].old_logprobs_L[:] = np.nan
    with pytest.raises(ValueError, match="log-prob"):
        build(model).step(samples)


def test_token_far_off_policy_is_masked_without_nan_or_dilution(model: Path) -> None:
    """A ratio that overflowed gave a NaN gradient; masked, the others keep their say."""
    samples = random_samples(np.random.default_rng(11), groups=2)
    others = gradients(build(model), samples[1:], 4096)
    samples[0].old_logprobs_L[samples[0].trained_L] = -120.0
    got = gradients(build(model), samples, 4096)
    for name, gradient in others.items():
        torch.testing.assert_close(got[name], gradient, rtol=1e-3, atol=1e-6)


def test_step_that_diverges_changes_nothing(model: Path) -> None:
    """Infinite loss raises and leaves the weights as they were."""
    trainer = build(model)
    samples = random_samples(np.random.default_rng(6), groups=1)
    samples[0].advantages_L[:] = np.inf
    before = {n: t.clone() for n, t in trainer.policy.trainable_state().items()}
    with pytest.raises(DivergedError):
        trainer.step(samples)
    for name, tensor in trainer.policy.trainable_state().items():
        assert torch.equal(tensor, before[name])


def test_lora_trains_adapters_and_merges_exactly(model: Path) -> None:
    """Published weights are base + adapter; the base itself comes back bit for bit."""
    trainer = build(model, lora=True)
    start = {n: t.clone() for n, t in trainer.policy.weights().items()}
    trainer.step(random_samples(np.random.default_rng(7)))
    first, second = trainer.policy.weights(), trainer.policy.weights()
    plain = build(model).policy.weights()
    assert first.keys() == plain.keys()
    assert any(not torch.equal(first[n], start[n]) for n in first)
    assert all(torch.equal(first[n], second[n]) for n in first)


def test_kl_anchor_pulls_towards_the_start(model: Path) -> None:
    """With a reference kept, the anchor is 0 at the start and positive after a step."""
    trainer = build(model, kl_coef=0.1)
    samples = random_samples(np.random.default_rng(8))
    assert abs(trainer.step(samples).values["kl_to_start"]) < 1e-6
    assert trainer.step(samples).values["kl_to_start"] > 1e-6


def test_resumed_trainer_takes_the_same_next_step(model: Path) -> None:
    """Weights, moments and schedule travel; a resumed step equals the uninterrupted one."""
    samples = random_samples(np.random.default_rng(9))
    straight = build(model)
    straight.step(samples)
    kept = dict(straight.state())
    kept["weights"] = {n: t.clone() for n, t in kept["weights"].items()}
    kept["optimizer"] = copy.deepcopy(kept["optimizer"])
    straight.step(samples)
    resumed = build(model)
    resumed.load_state(kept)
    resumed.step(samples)
    for name, tensor in straight.policy.trainable_state().items():
        assert torch.equal(tensor, resumed.policy.trainable_state()[name])
