"""The trainer's host: what runs inside the Ray actor of each rank.

A plain class that tests use without Ray; ``rl.rankgroup`` wraps it. Every rank is told the same
calls; the first one alone writes what is written once. Left out: the step (``rl.trainer``).
"""

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rl.settings import RunConfig
from rl.space import writing
from rl.types import Sample, StepMetrics, TopK

LEAST_URGENT = 19  # of nice
LOOPBACK = "127.0.0.1"


class TrainerHost:
    """The trainer with its publications and checkpoints.

    Args:
        config: of the run.
        run_folder: where checkpoints go.
        publish_folder: where weights for the engine go.
        rank, size: which of how many share the policy.
    """

    def __init__(
        self,
        config: RunConfig,
        run_folder: Path,
        publish_folder: Path,
        rank: int = 0,
        size: int = 1,
    ) -> None:
        self.config = config
        self.checkpoints = run_folder / "checkpoints"
        self.publish_folder = publish_folder
        self.rank, self.size = rank, size
        self.trainer: Any = None
        self._meeting: Any = None

    def ping(self) -> None:
        """Answer."""

    def meet(self) -> tuple[str, int]:
        """Open, on the first rank, the place where the others find it; return its address."""
        from rl.ranks import Meeting, own_address

        host = LOOPBACK if self.config.ray.address is None else own_address()
        self._meeting = Meeting(host, size=self.size)
        address: tuple[str, int] = self._meeting.address
        return address

    def start(self, place: tuple[str, int] | None = None) -> int:
        """Load the model; return the number of trained parameters.

        Args:
            place: what ``meet`` returned; None for a trainer by itself.

        Raises:
            ModelError: the model cannot be found.
        """
        if self.config.env == "chat" and self.config.chat.users == "live":
            os.nice(LEAST_URGENT)  # before torch starts its threads, which inherit it
        from rl.trainer import Trainer
        from serving.models import resolve

        config = self.config
        ranks = self._join(place)
        threads = config.trainer.threads or max(1, cores() // self._neighbours())
        self.trainer = Trainer(
            resolve(config.model),
            config.algorithm,
            config.optim,
            config.trainer.model_copy(update={"threads": threads}),
            config.lora,
            config.seed,
            config.guards,
            ranks,
        )
        return sum(p.numel() for p in self.trainer.policy.trainable)

    def _join(self, place: tuple[str, int] | None) -> Any:
        from rl.ranks import Meeting, Ranks

        device = "cuda" if self.config.gpus.actor else "cpu"
        if place is None:
            return Ranks(device=device)
        if self._meeting is None:
            self._meeting = Meeting(*place, size=self.size, first=False)
        return self._meeting.join(self.rank, device)

    def _neighbours(self) -> int:
        """Return how many ranks share this machine's cores."""
        return self.size if self.config.ray.address is None else 1

    def step(self, samples: Sequence[Sample], version: int) -> StepMetrics:
        """Take a step of the schedule."""
        result: StepMetrics = self.trainer.step(samples, version=version)
        return result

    def likeliest(
        self,
        sequences: Sequence[tuple[Sequence[int], int]],
        temperature: float,
        num_likeliest: int,
    ) -> list[TopK]:
        """Return the policy's likeliest tokens; see ``Trainer.likeliest``."""
        found: list[TopK] = self.trainer.likeliest(sequences, temperature, num_likeliest)
        return found

    def forget_moments(self) -> None:
        """Start the optimiser afresh."""
        self.trainer.forget_moments()

    def imitate(self, samples: Sequence[Sample]) -> StepMetrics:
        """Take a step at the warm start's learning rate, outside the schedule."""
        rate = self.config.warmstart.lr
        result: StepMetrics = self.trainer.step(samples, lr=rate)
        return result

    def publish(self, version: int) -> tuple[str, float]:
        """Write the weights for the engine; return their path and the seconds it took."""
        from serving.weights import publish

        started = time.monotonic()
        weights = self.trainer.policy.weights()
        if self.rank > 0:
            return "", 0.0
        with writing(self.publish_folder):
            path = publish(weights, self.publish_folder, version)
        return str(path), time.monotonic() - started

    def save(self, step: int, version: int, warmed: bool) -> str:
        """Write a checkpoint."""
        from rl import checkpoint, sharded

        meta = checkpoint.CheckpointMeta(step, version, warmed)
        keep = self.config.checkpoint.keep
        if self.trainer.ranks.size > 1:
            return str(sharded.save(self.checkpoints, meta, self.trainer, keep))
        return str(checkpoint.save(self.checkpoints, meta, self.trainer.state(), keep))

    def load(self, path: str) -> None:
        """Continue from a checkpoint, by however many ranks it was written."""
        from rl import sharded

        sharded.load(Path(path), self.trainer)

    def load_weights(self, path: str) -> None:
        """Take the weights of a checkpoint alone."""
        from rl import sharded

        sharded.load_weights(Path(path), self.trainer)

    def export(self, folder: str) -> str:
        """Write the trained model in Hugging Face layout, tokenizer included; whole or not.

        Raises:
            NoSpaceError: the disk is full; what was there before is untouched.
        """
        from transformers import AutoTokenizer

        from serving.models import resolve

        write = self.trainer.policy.exporter()
        if self.rank > 0:
            return folder
        target = Path(folder)
        part = target.with_name(f".{target.name}.part")
        try:
            with writing(target):
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir(parents=True)
                write(part)
                AutoTokenizer.from_pretrained(resolve(self.config.model)).save_pretrained(part)
                if target.exists():
                    shutil.rmtree(target)
                part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return folder


def cores() -> int:
    """Return the cores this process may use. Said outright: Ray limits OpenMP to one thread."""
    return len(os.sched_getaffinity(0))
