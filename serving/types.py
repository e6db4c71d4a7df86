"""Records of serving. Light: no torch.

Axis suffixes: ``_P`` prompt token, ``_T`` sampled token.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from .errors import RequestRefused

FinishReason = Literal["stop", "length", "cancelled"]
Top = tuple[tuple[int, float], ...]  # (token id, log-prob), most probable first
Message = Mapping[str, Any]  # an OpenAI chat message: {"role": ..., "content": ...}

MIN_TEMPERATURE = 1e-4  # below it logits / temperature leave the range of float32


def checked_temperature(value: float) -> float:
    """Return a temperature that can be computed with: 0, or from ``MIN_TEMPERATURE`` up.

    Raises:
        RequestRefused: any other value, NaN and infinity included.
    """
    if value == 0 or MIN_TEMPERATURE <= value < math.inf:
        return value
    raise RequestRefused(
        f"temperature must be 0 (greedy) or at least {MIN_TEMPERATURE:g}, not {value:g}",
        field="temperature",
    )


@dataclass(frozen=True)
class Sampling:
    """How to sample.

    Attributes:
        max_tokens: most tokens of the reply.
        temperature: 0 is greedy, else at least ``MIN_TEMPERATURE``. Log-probs are of the
            distribution at this temperature (softmax(logits / temperature)); greedy
            reports those at temperature 1.
        top_p: nucleus; 1 is off. Anything else makes the tokens unfit for training.
        seed: equal seed, prompt and weights give equal tokens, however requests are batched.
        stop: strings that end the reply; the reply's text stops before them.
        ignore_end: sample past end tokens, up to ``max_tokens``; for measurements.
        top_logprobs: how many of the most probable tokens to list beside each sampled one.
        json_schema: JSON text of a schema the reply must obey; ``{}`` is any JSON value. It
            truncates what is sampled, so such tokens are unfit for training.
        adapter: name of a loaded LoRA adapter, or "" for the base model.
    """

    max_tokens: int = 256
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ignore_end: bool = False
    top_logprobs: int = 0
    json_schema: str = ""
    adapter: str = ""

    @property
    def is_truncated(self) -> bool:
        """Whether tokens come of another distribution than their log-probs say."""
        return self.top_p < 1 or bool(self.json_schema)


class Token(NamedTuple):
    """A sampled token, as the engine tells it at once.

    Attributes:
        id: token id.
        logprob: see ``Generation.logprobs_T``.
        version: policy version that sampled it.
        top: the most probable tokens at its place; empty unless asked for.
    """

    id: int
    logprob: float
    version: int
    top: Top = ()


@dataclass(frozen=True)
class Generation:
    """What the engine sampled, written down once.

    Attributes:
        token_ids_T: sampled ids, the end-of-turn token included when the model sampled it.
        logprobs_T: log-prob of each sampled id under softmax(logits / temperature), before
            ``top_p`` truncates it.
        versions_T: policy version that sampled each id: of the adapter where one is used.
        finish_reason: ``stop``, ``length`` or ``cancelled``.
        num_cached: prompt tokens whose keys and values were reused.
        tops_T: the most probable tokens at each place; empty unless asked for.
    """

    token_ids_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    versions_T: tuple[int, ...]
    finish_reason: FinishReason
    num_cached: int = 0
    tops_T: tuple[Top, ...] = ()


@dataclass(frozen=True)
class Reply:
    """A chat completion as an agent receives it, with the tokens a learner needs.

    Attributes:
        id: the response id.
        text: the reply's text.
        prompt_ids_P: the whole prompt as the engine saw it, verbatim.
        generation: see ``Generation``.
    """

    id: str
    text: str
    prompt_ids_P: tuple[int, ...]
    generation: Generation
