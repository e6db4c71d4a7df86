"""Hand-made episodes and samples for the learner's tests."""

from collections.abc import Sequence

import numpy as np

from agents.types import Episode, StopReason, Turn
from rl.types import Sample, TermWeights


def turn(
    prompt: Sequence[int], output: Sequence[int], version: int = 0, finish: str = "stop"
) -> Turn:
    """A turn with made-up log-probs."""
    return Turn(
        prompt_ids_P=tuple(prompt),
        token_ids_T=tuple(output),
        logprobs_T=tuple(-0.5 - 0.1 * i for i in range(len(output))),
        versions_T=(version,) * len(output),
        finish_reason=finish,
        text="x",
        action="x",
        observation="y",
    )


def episode(
    turns: Sequence[Turn],
    reward: float | None = 1.0,
    name: str = "g000000.m0",
    stop: StopReason = StopReason.SUBMITTED,
) -> Episode:
    """An episode of group ``g000000`` unless the name says otherwise."""
    return Episode(
        id=name,
        group_id=name.split(".")[0],
        task_id="terminal/t/0000",
        env="terminal",
        split="train",
        family="t",
        turns=tuple(turns),
        reward=reward,
        stop_reason=StopReason.SANDBOX_LOST if reward is None else stop,
        error="SandboxLost: gone" if reward is None else "",
        temperature=0.7,
    )


def repeated_samples(length: int, repeat: bool) -> list[Sample]:
    """Two members with replies of a length, one token over and over or all different."""
    reply = np.full(length, 9) if repeat else np.arange(length) % 80 + 5
    ids = np.concatenate([[1, 2, 3], reply]).astype(np.int64)
    trained = np.arange(len(ids)) >= 3
    return [
        Sample(
            episode_id=f"g0.m{member}",
            group_id="g0",
            token_ids_L=ids + member,
            trained_L=trained,
            old_logprobs_L=np.where(trained, -4.0, np.nan),
            versions_L=np.where(trained, 0, -1),
            advantages_L=np.where(trained, 1.0 - 2.0 * member, 0.0),
            weights=TermWeights(pg=1.0),
        )
        for member in range(2)
    ]


def random_samples(
    rng: np.random.Generator, groups: int = 3, members: int = 4, vocabulary: int = 97
) -> list[Sample]:
    """Groups that share a prompt, with random replies, log-probs and advantages."""
    samples = []
    for group in range(groups):
        prompt = rng.integers(3, vocabulary, rng.integers(4, 12))
        for member in range(members):
            reply = rng.integers(3, vocabulary, rng.integers(1, 9))
            size = len(prompt) + len(reply)
            trained = np.arange(size) >= len(prompt)
            samples.append(
                Sample(
                    episode_id=f"g{group}.m{member}",
                    group_id=f"g{group}",
                    token_ids_L=np.concatenate([prompt, reply]).astype(np.int64),
                    trained_L=trained,
                    old_logprobs_L=np.where(trained, rng.normal(-4.0, 0.3, size), np.nan),
                    versions_L=np.where(trained, 0, -1),
                    advantages_L=np.where(trained, rng.normal(), 0.0),
                    temperature=0.7 if group % 2 else 1.0,
                    weights=TermWeights(pg=1.0),
                )
            )
    return samples
