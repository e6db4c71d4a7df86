"""The optimiser by name: torch's AdamW, or one whose moments take 8 bits from whichever library is
installed (torchao runs anywhere, bitsandbytes needs a GPU)."""

from collections.abc import Iterable
from importlib import util
from typing import Any

import torch

from envs.errors import MissingDependency
from rl.settings import OptimConfig

LIBRARIES = ("torchao", "bitsandbytes")


def make(parameters: Iterable[torch.nn.Parameter], optim: OptimConfig) -> torch.optim.Optimizer:
    """Return an optimiser with empty moments.

    Raises:
        MissingDependency: 8 bits are wanted and no library has them.
    """
    common: dict[str, Any] = {
        "lr": optim.lr,
        "betas": optim.betas,
        "weight_decay": optim.weight_decay,
    }
    if optim.name == "adamw":
        return torch.optim.AdamW(parameters, fused=True, **common)
    return _eight_bits()(parameters, **common)  # type: ignore[no-any-return]


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Have the next step use a learning rate; compiled optimisers hold theirs in a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def require(optim: OptimConfig) -> None:
    """Look whether the optimiser can be had, without importing anything.

    Raises:
        MissingDependency: it cannot; with the remedy.
    """
    if optim.name == "adamw8bit" and not any(util.find_spec(name) for name in LIBRARIES):
        raise MissingDependency(
            "optim.name=adamw8bit needs torchao or bitsandbytes",
            "pip install torchao, or use optim.name=adamw",
        )


def _eight_bits() -> Any:
    if util.find_spec("torchao"):
        from torchao.optim import AdamW8bit

        return AdamW8bit
    if util.find_spec("bitsandbytes"):
        from bitsandbytes.optim import AdamW8bit as OtherAdamW8bit

        return OtherAdamW8bit
    require(OptimConfig(name="adamw8bit"))
    raise AssertionError("require has raised")
