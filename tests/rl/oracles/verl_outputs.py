"""Run by ``make`` inside verl's environment: ``python verl_outputs.py INPUTS OUTPUTS``.

Calls the published functions of ``verl.trainer.ppo`` and writes what they return; nothing of this
project is imported.
"""

import sys
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import torch
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights
from verl.workers.config import FSDPActorConfig

AGGREGATIONS = {
    "token_mean": "token-mean",
    "seq_mean_token_mean": "seq-mean-token-mean",
    "seq_mean_token_sum_norm": "seq-mean-token-sum-norm",
}


def config(data: SimpleNamespace, dual_clip: float) -> FSDPActorConfig:
    made = FSDPActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio_low=float(data.clip_low),
        clip_ratio_high=float(data.clip_high),
        clip_ratio_c=dual_clip,
    )
    made.global_batch_info["loss_scale_factor"] = int(data.norm_length)
    return made


def main(inputs: str, outputs: str) -> None:
    with np.load(inputs) as loaded:
        arrays = {name: loaded[name] for name in loaded.files}
    data = SimpleNamespace(**{k: torch.from_numpy(np.asarray(v)) for k, v in arrays.items()})
    results: dict[str, np.ndarray] = {"version": np.array(version("verl"))}
    results |= advantages(data, arrays["group_B"])
    losses = {
        "ppo_clip": (core_algos.compute_policy_loss_vanilla, 1e9),
        "ppo_clip_dual": (core_algos.compute_policy_loss_vanilla, float(data.dual_clip)),
        "gspo": (core_algos.compute_policy_loss_gspo, 1e9),
        "cispo": (core_algos.compute_policy_loss_cispo, 1e9),
    }
    for name, (function, dual_clip) in losses.items():
        for ours, theirs in AGGREGATIONS.items():
            logprobs = data.logprobs_BT.clone().requires_grad_()
            loss, _ = function(
                data.old_BT, logprobs, data.advantages_BT, data.mask_BT, theirs,
                config(data, dual_clip), rollout_is_weights=None,
            )  # fmt: skip
            results[f"{name}/{ours}/loss"] = loss.detach().numpy()
            results[f"{name}/{ours}/gradient"] = gradient(loss, logprobs)
    for ours, theirs in AGGREGATIONS.items():
        logprobs = data.logprobs_BT.clone().requires_grad_()
        loss, _ = core_algos.compute_policy_loss_reinforce(
            data.old_BT, logprobs, data.advantages_BT, data.mask_BT, theirs, config(data, 1e9)
        )
        results[f"reinforce/{ours}/loss"] = loss.detach().numpy()
        results[f"reinforce/{ours}/gradient"] = gradient(loss, logprobs)
    logprobs = data.logprobs_BT.clone().requires_grad_()
    kl = core_algos.kl_penalty(logprobs, data.ref_BT, "k3")
    results["k3"] = (kl * data.mask_BT).detach().numpy()
    results["k3/gradient"] = gradient((kl * data.mask_BT).sum(), logprobs)
    weights, _ = compute_rollout_correction_weights(
        data.logprobs_BT - data.engine_BT, data.mask_BT, "token", 2.0
    )
    results["importance"] = weights.numpy()
    np.savez(outputs, **results)


def advantages(data: SimpleNamespace, group_B: np.ndarray) -> dict[str, np.ndarray]:
    rewards_BT = torch.zeros_like(data.mask_BT)
    rewards_BT[:, 0] = data.rewards_B
    call = {
        "grpo": lambda: core_algos.compute_grpo_outcome_advantage(
            rewards_BT.clone(), data.mask_BT, group_B
        ),
        "dr_grpo": lambda: core_algos.compute_grpo_outcome_advantage(
            rewards_BT.clone(), data.mask_BT, group_B, norm_adv_by_std_in_grpo=False
        ),
        "rloo": lambda: core_algos.compute_rloo_outcome_advantage(
            rewards_BT.clone(), data.mask_BT, group_B, config=AlgoConfig()
        ),
    }
    return {f"advantage/{name}": made()[0][:, 0].numpy() for name, made in call.items()}


def gradient(loss: torch.Tensor, logprobs: torch.Tensor) -> np.ndarray:
    (found,) = torch.autograd.grad(loss, logprobs)
    return found.numpy()


if __name__ == "__main__":
    main(*sys.argv[1:])
