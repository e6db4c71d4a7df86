"""One optimiser step equals the naive loop, however the batch is packed, cut or ordered."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rl.errors import DivergedError, MismatchError, SampleError
from rl.packing import pack
from rl.types import Sample, TermWeights, TopK
from tests.rl.records import random_samples
from tests.rl.steps import assert_naive, build, gradients, near_policy

AGGREGATIONS = ["token_mean", "seq_mean_token_mean", "seq_mean_token_sum_norm"]


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("budget", [8, 40])
@pytest.mark.parametrize("loss", ["ppo_clip", "gspo", "cispo", "reinforce"])
def test_gradient_equals_naive_loop(model: Path, loss: str, aggregation: str, budget: int) -> None:
    """Prefix sharing, micro-batches, logit chunks and masked tokens change nothing but rounding."""
    trainer = build(model, loss=loss, aggregation=aggregation)
    assert_naive(model, trainer, random_samples(np.random.default_rng(1)), budget)


def test_dual_clip_equals_naive_loop(model: Path) -> None:
    """A far-off token with a negative advantage must not dominate the batch."""
    trainer = build(model, dual_clip=1.1)
    samples = random_samples(np.random.default_rng(12))
    plain = gradients(build(model), samples)
    assert_naive(model, trainer, samples)
    assert any(not torch.equal(g, plain[n]) for n, g in gradients(trainer, samples).items())


@pytest.mark.parametrize("recompute", ["auto", "always", "never"])
@pytest.mark.parametrize("tolerance", [None, 40.0])
def test_corrections_equal_naive_loop(model: Path, recompute: str, tolerance: float | None) -> None:
    """Fresh and stale tokens in one batch: truncated weights, masked sequences, right
    normalisers."""
    samples = near_policy(model, random_samples(np.random.default_rng(13)), spread=0.5)
    stale = [replace(s, versions_L=s.versions_L + 1) for s in samples[::2]]
    settings = {"recompute_old": recompute, "sequence_tolerance": tolerance}
    trainer = build(model, trainer=settings, aggregation="seq_mean_token_mean")
    trainer.policy.model.double()
    assert_naive(model, trainer, [*samples[1::2], *stale], budget=64, version=1)


@pytest.mark.parametrize("distill", ["reverse_kl", "overlap"])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_mixed_batch_equals_naive_loop(model: Path, distill: str, aggregation: str) -> None:
    """Demonstrations, episodes and hinted chat turns in the same micro-batches: each term is over
    its own tokens, none dilutes another."""
    samples = mixed(np.random.default_rng(14))
    for budget in (30, 4096):
        trainer = build(model, distill=distill, aggregation=aggregation)
        trainer.policy.model.double()
        assert_naive(model, trainer, samples, budget)


def test_terms_do_not_dilute_each_other(model: Path) -> None:
    """Adding demonstrations to a batch leaves the policy gradient's share as it was."""
    rng = np.random.default_rng(15)
    episodes = random_samples(rng, groups=2)
    shown = [replace(s, weights=TermWeights(ce=1.0)) for s in random_samples(rng, groups=2)]
    alone, shown_alone = gradients(build(model), episodes), gradients(build(model), shown)
    both = gradients(build(model), [*episodes, *shown])
    for name, gradient in both.items():
        expected = alone[name] + shown_alone[name]
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


def test_on_policy_gradient_is_bit_for_bit_the_plain_clipped_one(model: Path) -> None:
    """Corrections, terms and weights cost an on-policy batch not one bit: what was measured with
    the plain clipped loss stays measured."""
    samples = near_policy(model, random_samples(np.random.default_rng(16)), spread=0.0)
    got = gradients(build(model), samples, version=0)
    trainer = build(model)
    batches = pack(samples, 4096)
    weight = 1.0 / sum(len(batch.target_E) for batch in batches)
    for batch in batches:
        logprobs_E = trainer.policy.score(batch).logprobs_E
        ratio_E = torch.exp(logprobs_E - torch.from_numpy(batch.old_logprobs_E).float())
        advantages_E = torch.from_numpy(batch.advantages_E).float()
        loss_E = torch.maximum(-ratio_E * advantages_E, -ratio_E.clamp(0.8, 1.28) * advantages_E)
        (torch.full_like(loss_E, weight) * loss_E).sum().backward()  # type: ignore[no-untyped-call]
    plain = {n: p.grad for n, p in trainer.policy.model.named_parameters() if p.grad is not None}
    assert all(torch.equal(gradient, plain[name]) for name, gradient in got.items())
    assert_naive(model, build(model), samples, version=0)


def test_order_of_samples_does_not_matter(model: Path) -> None:
    """A batch shuffled by arrival gives the same gradient."""
    samples = random_samples(np.random.default_rng(2))
    one = gradients(build(model), samples, 64)
    other = gradients(build(model), samples[::-1], 64)
    for name, gradient in one.items():
        torch.testing.assert_close(other[name], gradient, rtol=1e-4, atol=1e-7)


def test_masked_samples_do_not_dilute(model: Path) -> None:
    """Samples without a trained token leave the normaliser alone, and are counted."""
    samples = random_samples(np.random.default_rng(3))
    empty = [replace(s, trained_L=np.zeros_like(s.trained_L)) for s in samples[:3]]
    unweighed = [replace(s, weights=TermWeights()) for s in samples[:2]]
    one = gradients(build(model), samples, 512)
    other = gradients(build(model), [*empty, *unweighed, *samples], 512)
    for name, gradient in one.items():
        torch.testing.assert_close(other[name], gradient, rtol=1e-5, atol=1e-8)
    values = build(model).step([*empty, *unweighed], version=1).values
    assert values["trained_tokens"] == 0
    assert values["samples_without_loss"] == 5


def test_sample_longer_than_the_context_is_left_out_and_counted(model: Path) -> None:
    """Positions past the model's context give numbers that mean nothing."""
    samples = random_samples(np.random.default_rng(17), groups=1)
    tail = np.full(200, 5)
    long = replace(
        samples[0],
        token_ids_L=np.concatenate([samples[0].token_ids_L, tail]),
        trained_L=np.concatenate([samples[0].trained_L, tail > 0]),
        old_logprobs_L=np.concatenate([samples[0].old_logprobs_L, tail * -1.0]),
        versions_L=np.concatenate([samples[0].versions_L, tail * 0]),
        advantages_L=np.concatenate([samples[0].advantages_L, tail * 1.0]),
    )
    values = build(model).step([long, *samples[1:]], version=1).values
    assert values["samples_too_long"] == 1
    assert values["trained_tokens"] == sum(s.num_trained for s in samples[1:])


def test_shared_prompt_is_computed_once() -> None:
    """Eight replies to one prompt: tokens computed are the distinct ones."""
    samples = random_samples(np.random.default_rng(4), groups=1, members=8)
    (batch,) = pack(samples, 4096)
    prefixes = {tuple(s.token_ids_L[: i + 1]) for s in samples for i in range(len(s.token_ids_L))}
    assert batch.num_nodes == len(prefixes)
    assert batch.num_unshared == sum(len(s.token_ids_L) for s in samples)


def test_missing_numbers_are_refused_by_name(model: Path) -> None:
    """A missing log-prob is not probability 1, a missing teacher not agreement."""
    samples = random_samples(np.random.default_rng(5), groups=1)
    bare = replace(samples[0], weights=TermWeights(distill=1.0))
    with pytest.raises(SampleError, match="have no teacher"):
        build(model).step([bare])
    samples[0].old_logprobs_L[:] = np.nan
    with pytest.raises(SampleError, match="log-prob"):
        build(model).step(samples)


def test_token_far_off_policy_is_masked_without_nan_or_dilution(model: Path) -> None:
    """A ratio that overflowed gave a NaN gradient; masked, the others keep their say."""
    samples = random_samples(np.random.default_rng(11), groups=2)
    others = gradients(build(model), samples[1:], 4096)
    samples[0].old_logprobs_L[samples[0].trained_L] = -120.0
    got = gradients(build(model), samples, 4096)
    for name, gradient in others.items():
        torch.testing.assert_close(got[name], gradient, rtol=1e-3, atol=1e-6)


def test_batch_that_engine_and_trainer_disagree_about_is_refused(model: Path) -> None:
    """An engine with other weights, another temperature or a broken kernel: nothing is learned from
    it, and the reason is said."""
    samples = near_policy(model, random_samples(np.random.default_rng(18)), spread=0.0)
    wrong = [replace(s, old_logprobs_L=s.old_logprobs_L - 0.5) for s in samples]
    trainer = build(model, trainer={"max_logprob_gap": 0.1, "sequence_tolerance": None})
    before = {n: t.clone() for n, t in trainer.policy.trainable_state().items()}
    with pytest.raises(MismatchError, match=r"0\.5 over \d+ fresh tokens, bound 0\.1"):
        trainer.step(wrong, version=0)
    masking = build(model, trainer={"sequence_tolerance": 1.0})
    with pytest.raises(MismatchError, match=r"all \d+ tokens of the batch are masked"):
        masking.step(wrong, version=0)
    assert all(torch.equal(t, before[n]) for n, t in trainer.policy.trainable_state().items())
    values = trainer.step(samples, version=0).values
    assert values["logprob_gap_mean"] < 1e-5
    assert values["dropped_share/staleness_0"] == 0


def test_step_that_diverges_changes_nothing(model: Path) -> None:
    """Infinite loss raises and leaves the weights as they were."""
    trainer = build(model)
    samples = random_samples(np.random.default_rng(6), groups=1)
    samples[0].advantages_L[:] = np.inf
    before = {n: t.clone() for n, t in trainer.policy.trainable_state().items()}
    with pytest.raises(DivergedError):
        trainer.step(samples, version=1)
    for name, tensor in trainer.policy.trainable_state().items():
        assert torch.equal(tensor, before[name])


def test_lora_trains_adapters_and_merges_exactly(model: Path) -> None:
    """Published weights are base + adapter; the base itself comes back bit for bit."""
    trainer = build(model, lora=True)
    start = {n: t.clone() for n, t in trainer.policy.weights().items()}
    trainer.step(random_samples(np.random.default_rng(7)), version=1)
    first, second = trainer.policy.weights(), trainer.policy.weights()
    plain = build(model).policy.weights()
    assert first.keys() == plain.keys()
    assert any(not torch.equal(first[n], start[n]) for n in first)
    assert all(torch.equal(first[n], second[n]) for n in first)


def test_kl_anchor_pulls_towards_the_start(model: Path) -> None:
    """With a reference kept, the anchor is 0 at the start and positive after a step."""
    trainer = build(model, kl_coef=0.1)
    samples = [
        replace(s, weights=TermWeights(pg=1.0, kl=0.1))
        for s in random_samples(np.random.default_rng(8))
    ]
    assert abs(trainer.step(samples, version=1).values["kl_to_start"]) < 1e-6
    assert trainer.step(samples, version=1).values["kl_to_start"] > 1e-6


def test_warm_start_leaves_the_schedule_alone(model: Path) -> None:
    """Warm-up counts steps of the schedule; imitation at its own rate is not one."""
    trainer = build(model)
    shown = [
        replace(s, weights=TermWeights(ce=1.0), old_logprobs_L=s.old_logprobs_L * np.nan)
        for s in random_samples(np.random.default_rng(19))
    ]
    first, second = trainer.step(shown, lr=1e-2).values, trainer.step(shown, lr=1e-2).values
    assert second["loss"] < first["loss"]
    assert trainer.step_index == 0
    assert not any(name.startswith("logprob_gap") for name in first)


def test_resumed_trainer_takes_the_same_next_step(model: Path) -> None:
    """Weights, moments and schedule travel; a resumed step equals the uninterrupted one."""
    samples = random_samples(np.random.default_rng(9))
    straight = build(model)
    straight.step(samples, version=1)
    kept = dict(straight.state())
    kept["weights"] = {n: t.clone() for n, t in kept["weights"].items()}
    kept["optimizer"] = copy.deepcopy(kept["optimizer"])
    straight.step(samples, version=1)
    resumed = build(model)
    del kept["guards"]  # an older checkpoint has none
    resumed.load_state(kept)
    resumed.step(samples, version=1)
    for name, tensor in straight.policy.trainable_state().items():
        assert torch.equal(tensor, resumed.policy.trainable_state()[name])


# ------------------------------------------------------------- batches


def mixed(rng: np.random.Generator) -> list[Sample]:
    """An episode group, a demonstration group, and a group of hinted turns of two kinds."""
    samples = random_samples(rng, groups=3)
    made = []
    for index, sample in enumerate(samples):
        size, at = len(sample.token_ids_L), np.flatnonzero(sample.trained_L)
        if index < 4:
            weights = TermWeights(pg=0.5, kl=np.where(sample.trained_L, 0.2, 0.0))
            sample = replace(sample, weights=weights, ref_logprobs_L=rng.normal(-4, 0.5, size))
        elif index < 8:
            unknown = np.full(size, np.nan)
            sample = replace(sample, weights=TermWeights(ce=0.7), old_logprobs_L=unknown)
        elif index < 10:
            teacher = rng.normal(-4, 0.5, size)
            weights = TermWeights(pg=1.0, distill=2.0)
            sample = replace(sample, weights=weights, teacher_logprobs_L=teacher)
        else:
            ids = np.stack([rng.choice(97, 4, replace=False) for _ in at])
            logprobs = np.log(rng.dirichlet(np.ones(6), len(at))[:, :4])
            sample = replace(
                sample, weights=TermWeights(distill=1.0), topk=TopK(ids, logprobs), topk_at=at
            )
        made.append(sample)
    return made
