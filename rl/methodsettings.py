"""What each ``algorithm=NAME`` takes: one frozen model per method, on one common base.

Keys of the base are the trainer's (loss, clips, aggregation, anchor) and every method has them; a
method's own keys are refused under another name. Adding one: docs/adding-an-algorithm.md.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A part of the configuration: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class AlgorithmConfig(Section):
    """The learning signal (algorithms: docs/architecture.md)."""

    name: str = Field("grpo", description="the method")
    loss: Literal["ppo_clip", "gspo", "cispo", "reinforce"] = Field(
        "ppo_clip", description="policy-gradient loss"
    )
    clip_low: float = Field(0.2, gt=0, le=1, description="lower clip of the ratio, 1 - clip_low")
    clip_high: float = Field(0.28, gt=0, description="upper clip of the ratio, 1 + clip_high")
    dual_clip: float | None = Field(
        None, gt=1, description="ppo_clip: bound of the loss for A < 0 is dual_clip·|A|"
    )
    distill: Literal["reverse_kl", "overlap"] = Field(
        "reverse_kl", description="loss on a teacher's top-K tokens"
    )
    aggregation: Literal["token_mean", "seq_mean_token_mean", "seq_mean_token_sum_norm"] = Field(
        "token_mean", description="how token losses become one number"
    )
    norm_length: int = Field(256, ge=1, description="fixed length of seq_mean_token_sum_norm")
    kl_coef: float = Field(
        0.001, ge=0, description="weight of the k3 anchor to the model before any training"
    )
    train_truncated: bool = Field(True, description="train replies cut by the token limit")


class GrpoConfig(AlgorithmConfig):
    """Outcome rewards against the group's mean."""

    name: Literal["grpo"] = "grpo"
    norm: Literal["std", "none"] = Field("std", description="divide by the group's deviation")


class DrGrpoConfig(AlgorithmConfig):
    """Outcome rewards against the group's mean, undivided."""

    name: Literal["dr_grpo"] = "dr_grpo"


class RlooConfig(AlgorithmConfig):
    """Outcome rewards against the mean of the others."""

    name: Literal["rloo"] = "rloo"


class GspoConfig(AlgorithmConfig):
    """GRPO's advantages, one ratio per sequence."""

    name: Literal["gspo"] = "gspo"
    loss: Literal["gspo"] = Field("gspo", description="policy-gradient loss")
    clip_low: float = Field(3e-4, gt=0, le=1, description="lower clip of the ratio, 1 - clip_low")
    clip_high: float = Field(4e-4, gt=0, description="upper clip of the ratio, 1 + clip_high")
    aggregation: Literal["token_mean", "seq_mean_token_mean", "seq_mean_token_sum_norm"] = Field(
        "seq_mean_token_mean", description="how token losses become one number"
    )
    norm: Literal["std", "none"] = Field("std", description="divide by the group's deviation")


class CispoConfig(AlgorithmConfig):
    """GRPO's advantages, a clipped weight that carries no gradient."""

    name: Literal["cispo"] = "cispo"
    loss: Literal["cispo"] = Field("cispo", description="policy-gradient loss")
    clip_low: float = Field(1.0, gt=0, le=1, description="lower clip of the ratio, 1 - clip_low")
    clip_high: float = Field(4.0, gt=0, description="upper clip of the ratio, 1 + clip_high")
    norm: Literal["std", "none"] = Field("std", description="divide by the group's deviation")


class StepwiseConfig(AlgorithmConfig):
    """Outcome plus a process score of each step, against the group at the same step."""

    name: Literal["stepwise"] = "stepwise"
    process_coef: float = Field(0.5, ge=0, description="c of outcome + c·process score")


class _Turnwise(AlgorithmConfig):
    train_truncated: bool = Field(False, description="train replies cut by the token limit")


class BinaryConfig(_Turnwise):
    """Judged turns: +1 or -1 against what is normal for the user; 0 teaches nothing."""

    name: Literal["binary"] = "binary"
    baseline: Literal["ema", "none"] = Field(
        "ema", description="none: the score itself is the advantage"
    )
    baseline_decay: float = Field(0.9, ge=0, lt=1, description="memory of the running mean")


class OpdConfig(_Turnwise):
    """Hindsight distillation: the hinted policy is the teacher of the sampled tokens."""

    name: Literal["opd"] = "opd"
    clip: float = Field(5.0, gt=0, description="bound c of log π_T - log π_old")


class OpdTopKConfig(_Turnwise):
    """Hindsight distillation over the teacher's top-K tokens."""

    name: Literal["opd_topk"] = "opd_topk"
    k: int = Field(50, ge=1, description="tokens of the teacher; the overlap-selected form: 4")
    max_hints: int = Field(3, ge=1, description="hints among which the overlap chooses")


class HybridConfig(_Turnwise):
    """Judged turns and hindsight together."""

    name: Literal["hybrid"] = "hybrid"
    rl_weight: float = Field(1.0, ge=0, description="weight of the binary advantage")
    opd_weight: float = Field(1.0, ge=0, description="weight of the distillation advantage")
    baseline: Literal["ema", "none"] = Field(
        "ema", description="none: the score itself is the advantage"
    )
    baseline_decay: float = Field(0.9, ge=0, lt=1, description="memory of the running mean")
    clip: float = Field(5.0, gt=0, description="bound c of log π_T - log π_old")


class SftConfig(AlgorithmConfig):
    """Cross-entropy on the episodes that solved their task."""

    name: Literal["sft"] = "sft"


AnyAlgorithm = Annotated[
    GrpoConfig
    | DrGrpoConfig
    | RlooConfig
    | GspoConfig
    | CispoConfig
    | StepwiseConfig
    | BinaryConfig
    | OpdConfig
    | OpdTopKConfig
    | HybridConfig
    | SftConfig,
    Field(discriminator="name"),
]
