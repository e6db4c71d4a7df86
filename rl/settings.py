"""The settings of a run: frozen models, one per section, and the one source of defaults.

``rl.config`` merges files and arguments into these; ``rl.methodsettings`` holds what each
``algorithm=NAME`` takes.
"""

from typing import Annotated, Literal

from pydantic import Field

from rl.judge.settings import JudgeConfig
from rl.methodsettings import AnyAlgorithm, GrpoConfig, Section

Beta = Annotated[float, Field(ge=0, lt=1)]


Products = Literal["float32", "bfloat16"]


class TasksConfig(Section):
    """Which tasks are played."""

    path: str | None = Field(
        None,
        description="JSONL file of tasks, or directory of public ones; default: the built-in set",
    )
    base: str = Field("", description="image in place of a public task's FROM that cannot be had")
    levels: tuple[str, ...] = Field((), description="levels to train on; empty: all")
    families: tuple[str, ...] = Field((), description="families to train on; empty: all")
    limit: int | None = Field(None, ge=1, description="most training tasks")


class AgentConfig(Section):
    """How the model plays."""

    reply_format: Literal["plain", "fenced"] = Field("plain", description="what a reply looks like")
    command: str = Field(
        "", description="command line of an agent of its own that plays by the gateway's base URL"
    )
    max_reply_tokens: int = Field(64, ge=1, description="most tokens of one reply")
    max_steps: int | None = Field(
        None, ge=1, description="actions per episode; default: the task's"
    )
    max_parse_errors: int = Field(2, ge=1, description="replies without an action in a row")
    time_limit_s: float = Field(300.0, gt=0, description="wall-clock limit of an episode")
    finish: Literal["submit", "solved"] = Field(
        "solved", description="end when the agent says so, or as soon as the verifier is satisfied"
    )


class RolloutConfig(Section):
    """How episodes are collected."""

    workers: int = Field(2, ge=1, description="Ray rollout workers")
    episodes_per_worker: int = Field(16, ge=1, description="episodes at once in one worker")
    groups_per_step: int = Field(6, ge=1, description="groups (tasks) in one optimiser batch")
    group_size: int = Field(8, ge=2, le=64, description="episodes of one task")
    min_group: int = Field(4, ge=2, description="finished members below which a group is dropped")
    curriculum: Literal["uniform", "informative"] = Field(
        "uniform", description="every family in turn, or those whose groups carry a gradient"
    )
    temperature: float = Field(
        0.7, ge=1e-3, le=2, description="applied by sampler and trainer alike"
    )
    top_p: float = Field(
        1.0, gt=0, le=1, description="must be 1: truncation is refused in training"
    )
    max_staleness: float = Field(
        1,
        ge=0,
        description="policy versions a token may lag behind (eta); a fraction bounds how many "
        "episodes start early",
    )
    staleness: Literal["drop", "wait", "mask"] = Field(
        "drop",
        description="what is older: its group is dropped, not overtaken (training waits), or its "
        "tokens are masked",
    )
    max_retries: int = Field(2, ge=0, description="new attempts after a failure of the machine")
    retry_wait_s: float = Field(2.0, ge=0, description="before the first; doubles each time")
    stall_timeout_s: float = Field(900.0, gt=0, description="longest wait without any episode")


class OptimConfig(Section):
    """The optimiser."""

    lr: float = Field(1e-5, gt=0, description="peak learning rate")
    name: Literal["adamw", "adamw8bit"] = Field(
        "adamw", description="adamw8bit: moments in 8 bits, by torchao or bitsandbytes"
    )
    weight_decay: float = Field(0.0, ge=0, description="AdamW's")
    betas: tuple[Beta, Beta] = Field((0.9, 0.95), description="AdamW's")
    warmup_steps: int = Field(0, ge=0, description="linear warm-up of the rate")
    max_grad_norm: float = Field(1.0, gt=0, description="gradient clipping")
    steps: int = Field(20, ge=1, description="optimiser steps of the RL phase")


class LoraConfig(Section):
    """Low-rank adapters; full fine-tuning without."""

    enabled: bool = Field(False, description="train adapters instead of all weights")
    rank: int = Field(16, ge=1, description="r")
    alpha: float = Field(32.0, gt=0, description="scale is alpha / r")
    quantize: Literal["none", "int8", "int4"] = Field(
        "none",
        description="the frozen base in integers (QLoRA); the engine serves the same numbers",
    )


class GpusConfig(Section):
    """Which shares of the GPUs do what; 0: that part runs on the CPU, or is served elsewhere."""

    actor: int = Field(0, ge=0, description="GPUs of the trainer, one rank each")
    rollout: int = Field(
        0, ge=0, description="GPUs of the SGLang servers at engine.urls, which are started apart"
    )
    prm: int = Field(
        0, ge=0, description="GPUs of the judge's server at judge.model, started apart"
    )
    shared: bool = Field(
        False, description="the trainer's GPUs are the servers' too: one GPU for everything"
    )
    memory_gib: float | None = Field(
        None, gt=0, description="of one GPU; default: what this machine's first one has"
    )


class TrainerConfig(Section):
    """How the batch is computed."""

    ranks: int | None = Field(
        None,
        ge=1,
        description="processes that share the policy (FSDP2); default: one per GPU of gpus.actor, "
        "else 1",
    )
    dtype: Literal["float32", "bfloat16"] = Field(
        "float32", description="of the computation; what is trained is kept in float32 besides"
    )
    products: Products = Field(
        "float32",
        description="how a CPU multiplies float32 matrices: bfloat16 factors and float32 sums save "
        "about a third of a step where it has AMX, and move log-probs by about 0.01",
    )
    token_budget: int = Field(1024, ge=64, description="distinct tokens per micro-batch")
    logit_chunk: int = Field(512, ge=1, description="positions whose logits exist at once")
    threads: int | None = Field(
        None, ge=1, description="CPU threads of a rank; default: its share of all cores"
    )
    activation_checkpointing: bool = Field(False, description="recompute to save memory")
    recompute_old: Literal["auto", "always", "never"] = Field(
        "auto",
        description="π_old by the trainer: auto for tokens of the present weights, always by a "
        "forward of its own, never (what the engine recorded)",
    )
    importance_cap: float = Field(
        2.0, ge=1, description="most that π_old / π_engine may weigh a token"
    )
    sequence_tolerance: float | None = Field(
        1.0,
        gt=0,
        description="a sequence is masked when the geometric mean of π_old / π_engine leaves "
        "1 ± 0.01·tolerance; null: never",
    )
    max_logprob_gap: float = Field(
        0.1,
        gt=0,
        description="mean |Δ log-prob| of engine and trainer above which a batch is refused",
    )


class GuardsConfig(Section):
    """Bounds past which a batch is skipped; null switches one off."""

    entropy_min: float | None = Field(1e-4, ge=0, description="nats per token")
    entropy_max: float | None = Field(8.0, gt=0, description="nats per token")
    kl_max: float | None = Field(10.0, gt=0, description="k3 to the start, nats per token")
    grad_norm_max: float | None = Field(1000.0, gt=0, description="before clipping")
    length_growth_max: float | None = Field(
        10.0, gt=1, description="mean reply length over that of the first steps"
    )
    repetition_max: float | None = Field(
        0.9, gt=0, le=1, description="share of repeated 4-grams in long replies"
    )
    judge_agreement_min: float | None = Field(
        0.5, ge=0, le=1, description="mean agreement of votes"
    )
    baseline_steps: int = Field(3, ge=1, description="steps whose mean length is the yardstick")
    patience: int = Field(3, ge=1, description="skipped batches in a row before a rollback")
    max_rollbacks: int = Field(3, ge=0, description="rollbacks before the run gives up")


class WarmstartConfig(Section):
    """Supervised steps on oracle trajectories before RL; reported apart."""

    kind: Literal["none", "oracle"] = Field("none", description="oracle: demonstrate train tasks")
    demonstrations: int = Field(32, ge=1, description="oracle episodes")
    batch: int = Field(8, ge=1, description="episodes per optimiser step")
    epochs: int = Field(1, ge=1, description="passes over the demonstrations")
    lr: float = Field(2e-5, gt=0, description="learning rate of the warm start")


class EvaluationConfig(Section):
    """Held-out evaluation, before and after."""

    tasks: int = Field(96, ge=1, description="held-out tasks, the same every time")
    levels: tuple[str, ...] = Field((), description="levels; empty: the training levels")
    temperature: float = Field(0.0, ge=0, le=2, description="0 is greedy")
    samples: int = Field(1, ge=1, description="episodes per task")
    every: int = Field(0, ge=0, description="also every so many steps; 0: only before and after")
    releases: bool = Field(True, description="env=swe: also the real-package tasks, reported apart")


class CheckpointConfig(Section):
    """What is kept for a resume."""

    every: int = Field(5, ge=1, description="optimiser steps between checkpoints")
    keep: int = Field(2, ge=1, description="checkpoints kept")


class EngineConfig(Section):
    """The policy server."""

    name: Literal["torch", "sglang"] = Field(
        "torch", description="torch: embedded, on the CPU; sglang: servers at engine.urls"
    )
    urls: tuple[str, ...] = Field(
        (), description="of SGLang servers with this model; scripts/sglang starts one"
    )
    memory_share: float = Field(
        0.85, gt=0, lt=1, description="of a GPU's memory that its server takes, for the plan"
    )
    threads: int | None = Field(None, ge=1, description="CPU threads; default: all cores")
    products: Products = Field(
        "float32",
        description="embedded engine: as trainer.products; faster for many replies at "
        "once, slower for one",
    )
    max_slots: int = Field(48, ge=1, le=4096, description="requests decoded at once")
    context: int = Field(1024, ge=64, description="most tokens of prompt and reply")


class ChatConfig(Section):
    """env=chat: when turns are judged and when they are learned from."""

    users: Literal["live", "simulated"] = Field(
        "live", description="live: serve and learn from real talk; simulated: clawgym/Chat-v0"
    )
    batch: int = Field(8, ge=1, description="turns with a signal in one optimiser step")
    max_wait_s: float = Field(
        600.0, gt=0, description="the oldest such turn waits no longer, however few there are"
    )
    idle_s: float = Field(900.0, gt=0, description="silence after which a last reply is judged")
    feedback_grace_s: float = Field(
        20.0, ge=0, description="after feedback, wait for more of it or the next message"
    )
    redact: Literal["none", "secrets", "personal"] = Field(
        "secrets",
        description="cut out before a turn is kept: keys and passwords; personal: also e-mail "
        "addresses, telephone, card and account numbers",
    )
    keep_days: float = Field(0.0, ge=0, description="turns older than this are removed; 0 keeps")
    keys: str | None = Field(
        None, description="file of further keys, one NAME KEY per line; each is another user"
    )
    host: str = Field("127.0.0.1", description="address to serve at")
    port: int = Field(0, ge=0, le=65535, description="0: a free one, kept over resumes")


class RayConfig(Section):
    """Where Ray runs."""

    address: str | None = Field(None, description="of a running cluster; default: this machine")


class RunConfig(Section):
    """Everything a run is made of."""

    env: str = Field("terminal", description="short name; see python -m envs.tasks list")
    model: str = Field("smollm2-135m", description="name, folder or hub id")
    run: str | None = Field(None, description="run folder; default runs/<env>-<time>")
    resume: str | None = Field(None, description="run folder to continue")
    seed: int = Field(0, ge=0, lt=2**31, description="of tasks, sampling and initialisation")
    tasks: TasksConfig = TasksConfig()
    agent: AgentConfig = AgentConfig()
    rollout: RolloutConfig = RolloutConfig()
    algorithm: AnyAlgorithm = GrpoConfig()
    optim: OptimConfig = OptimConfig()
    lora: LoraConfig = LoraConfig()
    trainer: TrainerConfig = TrainerConfig()
    gpus: GpusConfig = GpusConfig()
    guards: GuardsConfig = GuardsConfig()
    warmstart: WarmstartConfig = WarmstartConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    engine: EngineConfig = EngineConfig()
    chat: ChatConfig = ChatConfig()
    judge: JudgeConfig = JudgeConfig()
    ray: RayConfig = RayConfig()

    @property
    def num_ranks(self) -> int:
        """Processes that share the policy in training."""
        return self.trainer.ranks or max(1, self.gpus.actor)
