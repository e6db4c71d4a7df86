"""TRL's GRPOTrainer as a child of ``python -m benchmarks.perf trainer``, in its own environment.

    PEER_PYTHON -m benchmarks.perf.trl_side MODEL [ROWS]

Reads a JSON line, answers one; see ``rl.speed``, which speaks the same. Its own
``compute_loss`` gets the batch in the form in which its own generation hands it over, log-probs of
sampling included, so that neither side spends a forward on them. ROWS sequences are computed at
once. Activation checkpointing, its default, is off: it would cost a third more.
"""

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

TEMPERATURE, CLIP_LOW, CLIP_HIGH = 0.7, 0.2, 0.28


class Side:
    """The trainer and one step of it."""

    def __init__(self, model: str, rows: int) -> None:
        from datasets import Dataset  # type: ignore[import-not-found]
        from trl import GRPOConfig, GRPOTrainer  # type: ignore[import-not-found]

        self.rows = rows
        config = GRPOConfig(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=8,
            num_generations=8,
            max_completion_length=80,
            temperature=TEMPERATURE,
            epsilon=CLIP_LOW,
            epsilon_high=CLIP_HIGH,
            beta=0.0,
            loss_type="dapo",
            learning_rate=1e-6,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            report_to=[],
        )
        self.trainer: Any = GRPOTrainer(
            model=model,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=config,
            train_dataset=Dataset.from_dict({"prompt": ["one"] * 8}),
        )
        self.model = self.trainer.model.float().train()
        self.optimizer = self.trainer.create_optimizer()

    def gradient(self, batch: dict[str, np.ndarray]) -> float:
        """Leave the gradient of a batch in the parameters; return the loss."""
        sequences = split(batch)
        cuts = [sequences[i : i + self.rows] for i in range(0, len(sequences), self.rows)]
        total = torch.tensor(float(batch["trained"].sum()))
        self.trainer.current_gradient_accumulation_steps = 1
        self.trainer._step = 0
        loss_sum = 0.0
        for cut in cuts:
            loss = self.trainer.compute_loss(
                self.model, {**padded(cut), "num_items_in_batch": total}
            )
            self.trainer.accelerator.backward(loss)
            loss_sum += float(loss.detach())
        return loss_sum

    def step(self, batch: dict[str, np.ndarray]) -> None:
        """One optimiser step."""
        self.gradient(batch)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def split(batch: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Return the sequences of a batch."""
    cuts = np.cumsum(batch["lengths"])[:-1]
    names = ("ids", "trained", "old", "advantages")
    columns = [np.split(batch[name], cuts) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def padded(sequences: list[dict[str, np.ndarray]]) -> dict[str, torch.Tensor]:
    """Return prompts padded left and completions padded right."""
    firsts = [int(np.flatnonzero(s["trained"])[0]) for s in sequences]
    prompts = [s["ids"][:f] for s, f in zip(sequences, firsts, strict=True)]
    tails = [slice(f, None) for f in firsts]

    def right(name: str) -> torch.Tensor:
        rows = [torch.from_numpy(s[name][t]) for s, t in zip(sequences, tails, strict=True)]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    def left(rows: list[torch.Tensor]) -> torch.Tensor:
        flipped = [row.flip(0) for row in rows]
        return torch.nn.utils.rnn.pad_sequence(flipped, batch_first=True).flip(1)

    return {
        "prompt_ids": left([torch.from_numpy(p) for p in prompts]),
        "prompt_mask": left([torch.ones(len(p), dtype=torch.int64) for p in prompts]),
        "completion_ids": right("ids"),
        "completion_mask": right("trained").long(),
        "old_per_token_logps": right("old").float(),
        "advantages": right("advantages").float(),
    }


def answer(side: Any, message: dict[str, Any]) -> dict[str, Any]:
    """Do what a line says."""
    with np.load(message["batch"]) as loaded:
        batch = {name: loaded[name] for name in loaded.files}
    if message["do"] == "gradient":
        loss = side.gradient(batch)
        with Path(message["out"]).open("wb") as out:
            for _, p in sorted(side.model.named_parameters()):
                gradient = torch.zeros_like(p) if p.grad is None else p.grad
                gradient.float().numpy().tofile(out)
        side.optimizer.zero_grad(set_to_none=True)
        return {"loss": loss}
    begun, used = time.perf_counter(), time.process_time()
    side.step(batch)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    seconds, cpu_s = time.perf_counter() - begun, time.process_time() - used
    return {"seconds": seconds, "cpu_s": cpu_s, "peak_bytes": peak}


def main() -> None:
    """Serve on stdin and stdout."""
    torch.set_num_threads(int(sys.argv[3]) if len(sys.argv) > 3 else 2)
    side = Side(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2)
    sys.stdout.write(json.dumps({"ready": True}) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(side, json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
