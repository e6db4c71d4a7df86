"""Records of an episode: what was said, sampled, done and found.

The same ``Episode`` comes from an environment (``agents.episode``) and from a live conversation;
from the store on nothing knows which way a turn came.

Axis suffixes: ``_P`` prompt token, ``_T`` sampled token.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from agents.consequence import NOTHING, Consequence


class StopReason(StrEnum):
    """Why an episode ended. Every ending has exactly one."""

    SOLVED = "solved"  # the verifier found the goal state
    SUBMITTED = "submitted"  # the agent said it was done
    STEP_LIMIT = "step_limit"
    TIME_LIMIT = "time_limit"  # the agent's own wall-clock limit
    CONTEXT_LIMIT = "context_limit"  # the conversation no longer fits the model
    PARSE_ERROR = "parse_error"  # too many replies in a row without an action
    SANDBOX_LOST = "sandbox_lost"
    WORKER_LOST = "worker_lost"
    ENV_ERROR = "env_error"
    POLICY_ERROR = "policy_error"

    @property
    def failed(self) -> bool:
        """True when the machine ended it, not the agent: such an episode has no reward."""
        return self in (
            StopReason.SANDBOX_LOST,
            StopReason.WORKER_LOST,
            StopReason.ENV_ERROR,
            StopReason.POLICY_ERROR,
        )


@dataclass(frozen=True)
class ImageRef:
    """An image in a sequence of tokens, by reference: its bytes stay in their file.

    Attributes:
        path: of the file.
        digest: SHA-256 of its bytes, in hex; the same digest is the same image.
        start, length: which tokens of the sequence are its placeholders.
    """

    path: str
    digest: str
    start: int
    length: int


@dataclass(frozen=True)
class Turn:
    """One reply of the policy and what the world said to it.

    Attributes:
        prompt_ids_P: the prompt, verbatim as the engine saw it.
        token_ids_T, logprobs_T, versions_T: sampled once, never re-tokenised; equal lengths.
        finish_reason: ``stop`` or ``length``.
        text: the reply in words.
        action: what the parser made of it, as text; None when nothing.
        observation: next state as the agent will see it.
        reward: reward of this step alone.
        parse_error: the parser's reason, or "".
        consequence: what else the world said of the step; the agent is not told.
        images: that ``prompt_ids_P`` holds placeholders of, in their order.
    """

    prompt_ids_P: tuple[int, ...]
    token_ids_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    versions_T: tuple[int, ...]
    finish_reason: str
    text: str
    action: str | None = None
    observation: str = ""
    reward: float = 0.0
    parse_error: str = ""
    consequence: Consequence = NOTHING
    images: tuple[ImageRef, ...] = ()

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Turn":
        """Inverse of ``dataclasses.asdict`` after a trip through JSON."""
        fields = dict(row)
        for name in ("prompt_ids_P", "token_ids_T", "logprobs_T", "versions_T"):
            fields[name] = tuple(fields[name])
        fields["consequence"] = Consequence(**fields.get("consequence", {}))
        fields["images"] = tuple(ImageRef(**image) for image in fields.get("images", ()))
        return cls(**fields)


@dataclass(frozen=True)
class Episode:
    """One attempt at one task.

    Attributes:
        id: unique in a run.
        group_id: attempts at one task that are compared with each other.
        task_id, env, split, family: of the task.
        turns: in order.
        reward: of the whole episode, in [0, 1]; None exactly when ``stop_reason.failed``.
        stop_reason: why it ended.
        error: first cause when the machine failed, ``Class: message``.
        temperature: sampling temperature of every turn; the learner applies the same.
        started_at: seconds since the epoch.
        duration_s: wall-clock seconds.
        seed: of the environment's reset.
        meta: counters for reports.
    """

    id: str
    group_id: str
    task_id: str
    env: str
    split: str
    family: str
    turns: tuple[Turn, ...]
    reward: float | None
    stop_reason: StopReason
    error: str = ""
    temperature: float = 1.0
    started_at: float = 0.0
    duration_s: float = 0.0
    seed: int = 0
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def solved(self) -> bool:
        """True when the verifier gave the full reward."""
        return self.reward is not None and self.reward >= 1.0

    @property
    def num_sampled(self) -> int:
        """Tokens the policy sampled in this episode."""
        return sum(len(turn.token_ids_T) for turn in self.turns)

    @property
    def oldest_version(self) -> int | None:
        """The oldest policy version that sampled a token of it; None without tokens."""
        return min((v for t in self.turns for v in t.versions_T), default=None)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; ``from_json`` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Episode":
        """Build an episode from ``to_json``'s value. Raises ``TypeError`` on unknown keys."""
        fields = dict(row)
        fields["turns"] = tuple(Turn.from_json(turn) for turn in fields["turns"])
        fields["stop_reason"] = StopReason(fields["stop_reason"])
        return cls(**fields)
