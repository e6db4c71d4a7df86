"""Run by ``make`` inside trl's environment: ``python trl_outputs.py INPUTS OUTPUTS``.

Calls ``GRPOTrainer``'s own loss on given log-probs (a trainer's attributes without a trainer) and
writes value and gradient; nothing of this project is imported.
"""

import sys
from collections import defaultdict
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import nanstd

# ours → trl's loss type and importance level
LOSSES = {
    "ppo_clip/token_mean": ("bnpo", "token"),
    "ppo_clip/seq_mean_token_mean": ("grpo", "token"),
    "ppo_clip/seq_mean_token_sum_norm": ("dr_grpo", "token"),
    "gspo/seq_mean_token_mean": ("grpo", "sequence"),
    "cispo/token_mean": ("cispo", "token"),
}


def trainer(data: SimpleNamespace, loss_type: str, level: str, beta: float) -> SimpleNamespace:
    accelerator = SimpleNamespace(
        num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x, sync_gradients=True
    )
    high = 1 + float(data.clip_high) if loss_type == "cispo" else float(data.clip_high)
    return SimpleNamespace(
        accelerator=accelerator,
        args=SimpleNamespace(delta=None, use_bias_correction_kl=False, steps_per_generation=1),
        model=SimpleNamespace(training=True),
        aux_loss_enabled=False, top_entropy_quantile=1.0, off_policy_mask_threshold=None,
        importance_sampling_level=level, loss_type=loss_type, beta=beta, use_vllm=False,
        epsilon_low=float(data.clip_low), epsilon_high=high,
        current_gradient_accumulation_steps=1, max_completion_length=int(data.norm_length),
        vllm_importance_sampling_correction=False, _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list)},
    )  # fmt: skip


def loss_of(data: SimpleNamespace, logprobs: torch.Tensor, *kind: Any) -> torch.Tensor:
    self = trainer(data, *kind)
    self._get_per_token_logps_and_entropies = lambda *a, **k: (
        logprobs, torch.zeros_like(logprobs), None
    )  # fmt: skip
    size = tuple(data.mask_BT.shape)
    ids = torch.zeros(size, dtype=torch.int64)
    inputs = {
        "prompt_ids": ids[:, :1], "prompt_mask": ids[:, :1], "completion_ids": ids,
        "completion_mask": data.mask_BT, "advantages": data.advantages_BT,
        "old_per_token_logps": data.old_BT, "ref_per_token_logps": data.ref_BT,
        "num_items_in_batch": data.mask_BT.sum(),
    }  # fmt: skip
    found: torch.Tensor = GRPOTrainer._compute_loss(self, self.model, inputs)
    return found


def main(inputs: str, outputs: str) -> None:
    with np.load(inputs) as loaded:
        arrays = {name: loaded[name] for name in loaded.files if loaded[name].dtype.kind != "U"}
    data = SimpleNamespace(**{k: torch.from_numpy(np.asarray(v)) for k, v in arrays.items()})
    results: dict[str, np.ndarray] = {"version": np.array(version("trl"))}
    for name, (loss_type, level) in LOSSES.items():
        for beta in (0.0, float(data.kl_coef)):
            logprobs = data.logprobs_BT.clone().requires_grad_()
            loss = loss_of(data, logprobs, loss_type, level, beta)
            (gradient,) = torch.autograd.grad(loss, logprobs)
            key = f"{name}/kl" if beta else name
            results[f"{key}/loss"] = loss.detach().numpy()
            results[f"{key}/gradient"] = gradient.numpy()
    size = int(data.group_size)
    results["deviation"] = nanstd(data.rewards_B.view(-1, size), dim=1).numpy()
    np.savez(outputs, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
