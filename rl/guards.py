"""Guard rails: numbers that tell a run going wrong before its weights do (algorithms §5).

A breach refuses the batch; the step is not taken. What follows (an alarm, a rollback after several
in a row) is the controller's. Bounds are ``guards.*``; null switches one off.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rl.errors import GuardBreach
from rl.settings import GuardsConfig
from rl.types import Sample

NGRAM = 4
LONG_REPLY = 16  # tokens from which a reply is asked for repetitions

# monitored number → (setting, side): +1 must stay below, -1 above
BOUNDS = {
    "entropy": (("entropy_min", -1), ("entropy_max", +1)),
    "kl_to_start": (("kl_max", +1),),
    "grad_norm": (("grad_norm_max", +1),),
    "repetition": (("repetition_max", +1),),
    "length_growth": (("length_growth_max", +1),),
    "judge_agreement": (("judge_agreement_min", -1),),
}


def breaches(values: Mapping[str, float], settings: GuardsConfig) -> Iterator[str]:
    """Yield what is out of bounds, in words. A number that was not measured breaks nothing."""
    for name, bounds in BOUNDS.items():
        for key, side in bounds:
            bound = getattr(settings, key)
            if name in values and bound is not None and side * (values[name] - bound) > 0:
                word = "above" if side > 0 else "below"
                yield f"{name} {values[name]:.4g} is {word} guards.{key}={bound:g}"


class Guards:
    """Watches the steps of one trainer; remembers how long replies were at the start."""

    def __init__(self, settings: GuardsConfig) -> None:
        self.settings = settings
        self.first_lengths: list[float] = []

    def measure(self, samples: Sequence[Sample]) -> dict[str, float]:
        """Return length and repetition of the sampled replies of a batch."""
        values = replies(samples)
        if "reply_length" in values and len(self.first_lengths) >= self.settings.baseline_steps:
            yardstick = float(np.mean(self.first_lengths))
            values["length_growth"] = values["reply_length"] / yardstick
        return values

    def check(self, values: Mapping[str, float]) -> None:
        """Refuse a batch whose numbers are out of bounds, else take its length into account.

        Raises:
            GuardBreach: with every number that is out.
        """
        if found := list(breaches(values, self.settings)):
            raise GuardBreach("; ".join(found))
        if "reply_length" in values and len(self.first_lengths) < self.settings.baseline_steps:
            self.first_lengths.append(values["reply_length"])

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"first_lengths": list(self.first_lengths)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state``."""
        self.first_lengths = list(state.get("first_lengths", []))


def replies(samples: Sequence[Sample]) -> dict[str, float]:
    """Return mean tokens per trained reply, and the mean share of repeated 4-grams in long ones.

    Demonstrations are not replies: only policy-gradient and distilled samples count.
    """
    found = [reply for sample in samples if _sampled(sample) for reply in _replies(sample)]
    if not found:
        return {}
    values = {"reply_length": float(np.mean([len(reply) for reply in found]))}
    if shares := [_repeated(reply) for reply in found if len(reply) >= LONG_REPLY]:
        values["repetition"] = float(np.mean(shares))
    return values


def _sampled(sample: Sample) -> bool:
    return bool(np.any(sample.weights.pg != 0) or np.any(sample.weights.distill != 0))


def _replies(sample: Sample) -> list[list[int]]:
    """Return the trained tokens of each turn, or each unbroken run where turns are not known."""
    at = np.flatnonzero(sample.trained_L)
    breaks = np.flatnonzero(np.diff(at) > 1) + 1
    if sample.turns_L is not None:
        breaks = np.flatnonzero(np.diff(sample.turns_L[at]) != 0) + 1
    return [sample.token_ids_L[run].tolist() for run in np.split(at, breaks) if len(run)]


def _repeated(tokens: Sequence[int]) -> float:
    grams = [tuple(tokens[i : i + NGRAM]) for i in range(len(tokens) - NGRAM + 1)]
    return 1.0 - len(set(grams)) / len(grams)
