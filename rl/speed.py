"""The trainer as a child of ``python -m benchmarks.perf trainer``: so its memory is its own.

    python -m rl.speed MODEL THREADS

Reads a JSON line, answers one: ``{"do": "gradient", "batch": FILE, "out": FILE}`` leaves the
gradient, parameters in order of their names, in a file and answers the loss; ``{"do": "step",
"batch": FILE}`` takes an optimiser step (``"apart": true`` shares no prefixes) and answers its
seconds and the peak memory so far; ``{"do": "score", …}`` writes the log-probs of trained tokens;
``{"do": "rate"}`` measures what matrix products reach. A batch is an npz file of flat arrays: ids,
trained, old, advantages, lengths, groups.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rl.methodsettings import AlgorithmConfig
from rl.packing import PackedBatch, num_distinct, pack
from rl.settings import GuardsConfig, LoraConfig, OptimConfig, TrainerConfig
from rl.trainer import Trainer
from rl.types import Sample, TermWeights

TEMPERATURE, CLIP_LOW, CLIP_HIGH = 0.7, 0.2, 0.28  # also of ``benchmarks.perf.trl_side``
MATRIX = 2048  # of the matrix product that speed is held against
ROUNDS = 5


def samples(path: str) -> list[Sample]:
    """Return the samples of a batch file; their log-probs are those of version 0."""
    with np.load(path) as loaded:
        cuts = np.cumsum(loaded["lengths"])[:-1]
        names = ("ids", "trained", "old", "advantages")
        columns = [np.split(loaded[name], cuts) for name in names]
        rows = list(zip(*columns, loaded["groups"].tolist(), strict=True))
    return [
        Sample(
            episode_id=f"g{group}.m{index}",
            group_id=f"g{group}",
            token_ids_L=ids,
            trained_L=trained,
            old_logprobs_L=np.where(trained, old, np.nan),
            versions_L=np.where(trained, 0, -1),
            advantages_L=advantages,
            temperature=TEMPERATURE,
            weights=TermWeights(pg=1.0),
        )
        for index, (ids, trained, old, advantages, group) in enumerate(rows)
    ]


class Side:
    """The trainer and one step of it."""

    def __init__(self, model: str, threads: int) -> None:
        self.trainer = Trainer(
            Path(model),
            AlgorithmConfig(kl_coef=0.0, clip_low=CLIP_LOW, clip_high=CLIP_HIGH),
            OptimConfig(lr=1e-6),
            TrainerConfig(threads=threads, max_logprob_gap=1e9, sequence_tolerance=None),
            LoraConfig(),
            guards=GuardsConfig(kl_max=None, entropy_max=None, grad_norm_max=None),
        )

    def step(self, path: str) -> dict[str, float]:
        """One optimiser step on stale samples: the ratio is to the recorded log-prob."""
        rows = samples(path)
        begun, used = time.perf_counter(), time.process_time()
        values = self.trainer.step(rows, version=1).values
        seconds, cpu_s = time.perf_counter() - begun, time.process_time() - used
        return {
            "seconds": seconds,
            "cpu_s": cpu_s,
            "gradient_s": values["gradient_s"],
            "computed": values["computed_tokens"],
            "distinct": float(num_distinct(rows)),
            "flops": self._flops(self._packed(rows)),
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }

    def gradient(self, path: str, out: str) -> dict[str, float]:
        """The gradient as the optimiser would see it, before clipping."""
        rows = samples(path)
        batches = self._packed(rows)
        tally = self.trainer._accumulate(batches, rows, 1)
        with Path(out).open("wb") as file:
            for _, p in sorted(self.trainer.policy.model.named_parameters()):
                gradient = torch.zeros_like(p) if p.grad is None else p.grad
                gradient.numpy().tofile(file)
        self.trainer.optimizer.zero_grad(set_to_none=True)
        return {"loss": tally.loss}

    def score(self, path: str, out: str) -> dict[str, float]:
        """Write the log-prob of each trained token, sample by sample."""
        rows, policy = samples(path), self.trainer.policy
        found: dict[int, np.ndarray] = {}
        with torch.no_grad():
            for batch in self._packed(rows):
                logprobs_E = policy.score(batch).logprobs_E.numpy()
                for index in np.unique(batch.sample_E):
                    found[int(index)] = logprobs_E[batch.sample_E == index]
        np.save(out, np.concatenate([found[index] for index in sorted(found)]))
        return {}

    def _packed(self, rows: list[Sample]) -> list[PackedBatch]:
        policy, config = self.trainer.policy, self.trainer.config
        return pack(rows, config.token_budget, policy.shares_prefixes)

    def _flops(self, batches: list[PackedBatch]) -> float:
        """Return the floating point operations of a forward and a backward: 2 and 4 for each
        weight and token, and those of the (query, key) pairs that are computed."""
        config = self.trainer.policy.model.config
        body: int = sum(
            p.numel() for n, p in self.trainer.policy.model.named_parameters()
            if p.ndim == 2 and "embed_tokens" not in n and "lm_head" not in n
        )  # fmt: skip
        head: int = config.vocab_size * config.hidden_size
        width: int = config.hidden_size
        nodes = sum(batch.num_nodes for batch in batches)
        rows = sum(len(np.unique(batch.source_E)) for batch in batches)
        pairs = sum(block.pairs for batch in batches for block in batch.blocks)
        total: float = 6.0 * (
            nodes * body + rows * head + 2 * pairs * width * config.num_hidden_layers
        )
        return total


def rate() -> dict[str, float]:
    """Return the best rate of a large matrix product, in floating point operations per second."""
    a, b = torch.randn(MATRIX, MATRIX), torch.randn(MATRIX, MATRIX)
    best = 0.0
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        a @ b
        best = max(best, 2.0 * MATRIX**3 / (time.perf_counter() - begun))
    return {"flops_per_s": best}


def answer(side: Side, message: dict[str, Any]) -> dict[str, float]:
    """Do what a line says."""
    if message["do"] == "rate":
        return rate()
    side.trainer.policy.shares_prefixes = not message.get("apart", False)
    if message["do"] == "gradient":
        return side.gradient(message["batch"], message["out"])
    if message["do"] == "score":
        return side.score(message["batch"], message["out"])
    return side.step(message["batch"])


def main() -> None:
    """Serve on stdin and stdout."""
    side = Side(sys.argv[1], int(sys.argv[2]))
    sys.stdout.write(json.dumps({"ready": True}) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(side, json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
