"""From episodes to a gradient, for every method: annotation, packing and loss together equal the
naive loop over the same samples."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agents.types import Episode, Turn
from rl.algorithms import METHODS, annotate_group
from rl.config import validate
from rl.methodsettings import AlgorithmConfig
from rl.settings import RolloutConfig
from rl.types import Hint, Sample, TopK, TurnSignal
from tests.rl.records import episode, turn
from tests.rl.steps import assert_naive, build

OVERRIDES: dict[str, dict[str, object]] = {
    "gspo": {"clip_low": 0.1, "clip_high": 0.1},
    "opd_topk": {"distill": "overlap"},
}


@pytest.mark.parametrize("budget", [24, 4096])
@pytest.mark.parametrize("name", list(METHODS))
def test_step_of_every_method_equals_naive_loop(model: Path, name: str, budget: int) -> None:
    """Two groups of forked and merged dialogues with judge, process scores and hints: whatever a
    method reads, its gradient is that of its formula."""
    algorithm = validate(
        {"algorithm": {"name": name, "kl_coef": 0.0, **OVERRIDES.get(name, {})}}
    ).algorithm
    rng = np.random.default_rng(21)
    samples: list[Sample] = []
    for group in range(2):
        members = [dialogue(rng, f"g{group:06d}.m{member}", member % 2) for member in range(4)]
        told = {one.id: signals(rng, one) for one in members}
        outcome = annotate_group(
            members, algorithm, RolloutConfig(), lambda one, told=told: told[one.id]
        )
        assert outcome.outcome == "trained", outcome.skipped
        samples += outcome.samples
    common = set(AlgorithmConfig.model_fields)
    trainer = build(model, **algorithm.model_dump(include=common))
    trainer.policy.model.double()
    assert_naive(model, trainer, samples, budget)


def dialogue(rng: np.random.Generator, name: str, reward: float) -> Episode:
    """Three turns; the third forgets the first, so that the episode forks."""
    prompt = [5, 6, 7, 8, int(name[3:7]) + 9]
    turns: list[Turn] = []
    history = list(prompt)
    for index in range(3):
        if index == 2:
            history = [*prompt[:3], *turns[-1].token_ids_T]
        output = rng.integers(20, 97, rng.integers(1, 6)).tolist()
        made = turn([*history, 11], output)
        logprobs = tuple(rng.normal(-4.0, 0.4, len(output)))
        turns.append(replace(made, logprobs_T=logprobs))
        history = [*history, 11, *output]
    return episode(turns, float(reward), name)


def signals(rng: np.random.Generator, one: Episode) -> Mapping[int, TurnSignal]:
    """A score, a process score and a hint with all its numbers for each turn."""
    told = {}
    for index, played in enumerate(one.turns):
        size = len(played.token_ids_T)
        ids = np.stack([rng.choice(97, 3, replace=False) for _ in range(size)])
        topk = TopK(ids, np.log(rng.dirichlet(np.ones(5), size)[:, :3]))
        hint = Hint("Say it shorter.", tuple(rng.normal(-4.0, 0.6, size)), topk)
        score = int(rng.choice([-1, 1]))
        told[index] = TurnSignal(
            one.id, index, score, subject="ada", process=float(rng.random()), hints=(hint,)
        )
    return told
