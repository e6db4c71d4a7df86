"""Guard rails: each is provoked, skips the batch, says so and leaves the weights alone."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rl.checkpoint import CheckpointMeta
from rl.errors import BatchRefused, GuardBreach, MismatchError, RunError
from rl.guards import Guards, breaches, replies
from rl.methodsettings import AlgorithmConfig
from rl.recovery import Recovery
from rl.settings import GuardsConfig, LoraConfig, OptimConfig, TrainerConfig
from rl.staleness import mask
from rl.trainer import Trainer
from rl.types import Sample, TermWeights
from tests.rl.records import random_samples, repeated_samples


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of one layer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=4, max_position_embeddings=256, initializer_range=0.3,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("model")
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def build(model: Path, kl_coef: float = 0.0, **guards: object) -> Trainer:
    return Trainer(
        model,
        AlgorithmConfig(kl_coef=kl_coef),
        OptimConfig(lr=1e-2),
        TrainerConfig(),
        LoraConfig(),
        guards=GuardsConfig.model_validate(guards),
    )


def assert_refused(trainer: Trainer, samples: list[Sample], says: str) -> None:
    before = {n: t.clone() for n, t in trainer.policy.trainable_state().items()}
    moments = len(trainer.optimizer.state)
    with pytest.raises(GuardBreach, match=says):
        trainer.step(samples, version=1)
    assert all(torch.equal(t, before[n]) for n, t in trainer.policy.trainable_state().items())
    assert len(trainer.optimizer.state) == moments
    assert all(p.grad is None for p in trainer.policy.trainable)


def test_reward_hack_that_lengthens_replies_is_stopped(model: Path) -> None:
    """Replies ten times as long as in the first steps: the reward likes length, nobody else."""
    trainer = build(model, length_growth_max=3.0, baseline_steps=2, repetition_max=None)
    for _ in range(2):
        trainer.step(repeated_samples(6, repeat=False), version=1)
    assert trainer.step(repeated_samples(12, repeat=False), version=1).values["length_growth"] == 2
    assert_refused(trainer, repeated_samples(60, repeat=False), "length_growth 10 is above")


def test_yardstick_of_length_survives_a_resume(model: Path) -> None:
    """A resumed run must not take the long replies for normal."""
    trainer = build(model, length_growth_max=3.0, baseline_steps=1)
    trainer.step(repeated_samples(6, repeat=False), version=1)
    resumed = build(model, length_growth_max=3.0, baseline_steps=1)
    resumed.load_state(trainer.state())
    assert_refused(resumed, repeated_samples(60, repeat=False), "length_growth")


def test_degenerate_repetition_is_stopped(model: Path) -> None:
    """One token over and over, rewarded by a sloppy verifier."""
    assert_refused(build(model), repeated_samples(60, repeat=True), "repetition 0.98")
    varied = build(model).step(repeated_samples(60, repeat=False), version=1)
    assert varied.values["repetition"] == 0


def test_exploding_gradient_is_stopped(model: Path) -> None:
    """Clipping hides an explosion; the norm before clipping tells."""
    samples = random_samples(np.random.default_rng(0))
    wild = [replace(s, advantages_L=s.advantages_L * 1e6) for s in samples]
    assert_refused(build(model), wild, "grad_norm .* is above guards.grad_norm_max=1000")


@pytest.mark.parametrize(
    ("guards", "says"),
    [({"entropy_max": 0.5}, "entropy .* is above"), ({"entropy_min": 4.5}, "entropy .* is below")],
)
def test_entropy_out_of_bounds_is_stopped(model: Path, guards: dict[str, float], says: str) -> None:
    """Noise and collapse alike."""
    assert_refused(build(model, **guards), random_samples(np.random.default_rng(1)), says)


def test_drift_from_the_start_is_stopped(model: Path) -> None:
    """After a step far away from the start the anchor's estimate leaves its bound."""
    trainer = build(model, kl_coef=0.001, kl_max=0.01)
    samples = [
        replace(s, weights=TermWeights(pg=1.0, kl=0.001))
        for s in random_samples(np.random.default_rng(2))
    ]
    trainer.step(samples, version=1)
    assert_refused(trainer, samples, "kl_to_start .* is above guards.kl_max")


def test_judges_that_no_longer_agree_are_noticed() -> None:
    """A judge at odds with itself is noise; a bound of null switches the guard off."""
    values = {"judge_agreement": 0.4}
    assert "judge_agreement 0.4 is below" in next(breaches(values, GuardsConfig()))
    assert not list(breaches(values, GuardsConfig(judge_agreement_min=None)))
    assert not list(breaches({}, GuardsConfig()))


def test_refused_batch_does_not_move_the_yardstick() -> None:
    """Long replies that were refused must not become normal."""
    guards = Guards(GuardsConfig(grad_norm_max=1.0))
    with pytest.raises(GuardBreach):
        guards.check({"reply_length": 100.0, "grad_norm": 2.0})
    guards.check({"reply_length": 10.0, "grad_norm": 0.5})
    assert guards.first_lengths == [10.0]


def test_demonstrations_are_not_replies() -> None:
    """An oracle that repeats itself says nothing about the policy."""
    shown = [replace(s, weights=TermWeights(ce=1.0)) for s in repeated_samples(60, repeat=True)]
    assert replies(shown) == {}


def test_turns_are_measured_one_by_one() -> None:
    """Two replies of one episode that touch are two replies."""
    (sample, _) = repeated_samples(8, repeat=False)
    turns = replace(sample, turns_L=np.where(sample.trained_L, np.arange(11) // 7, -1))
    assert replies([turns])["reply_length"] == 4


def test_refusals_cross_a_process(tmp_path: Path) -> None:
    """The trainer is an actor: the refusal must arrive as what it was."""
    for error in (GuardBreach("entropy"), MismatchError("gap")):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), copy.outcome) == (type(error), str(error), error.outcome)
        assert isinstance(copy, BatchRefused)


def test_recovery_returns_to_the_newest_proven_weights(tmp_path: Path) -> None:
    """Version 3's batch was fine, version 5's were not: back to 3, not to 5 and not to 1."""
    recovery = Recovery(GuardsConfig(patience=2, max_rollbacks=1))
    proven = random_samples(np.random.default_rng(3), groups=1)
    recovery.accept([replace(s, versions_L=np.where(s.trained_L, 3, -1)) for s in proven])
    found = [(CheckpointMeta(v, v, True), tmp_path / str(v)) for v in (5, 3, 1)]
    recovery.refuse(GuardBreach("x"))
    assert not recovery.due
    recovery.refuse(GuardBreach("x"))
    assert recovery.due
    assert recovery.choose(found)[0].version == 3
    assert recovery.choose(found[:1])[0].version == 5
    with pytest.raises(RunError, match="no checkpoint"):
        recovery.choose([])
    recovery.rolled_back(6)
    recovery.refuse(GuardBreach("x"))
    with pytest.raises(RunError, match="2 batches in a row were refused after 1 rollbacks"):
        recovery.refuse(GuardBreach("the cause"))


def test_old_tokens_alone_are_masked() -> None:
    """One sample spans versions: the newer tokens stay, and a demonstration has no age."""
    (sample, other) = repeated_samples(4, repeat=False)
    spans = replace(sample, versions_L=np.array([-1, -1, -1, 1, 1, 2, 3]))
    shown = replace(other, versions_L=np.full(7, -1), weights=TermWeights(ce=1.0))
    kept, masked = mask([spans, shown, other], oldest=2)
    assert masked == 2 + 4
    assert [s.active_L.tolist()[3:] for s in kept] == [[False, False, True, True], [True] * 4]
