"""Numbers of fewer bits: fp32 masters of weights that compute in less (mixed precision, arXiv
1710.03740), and products of matrices with bfloat16 factors.

A parameter in bfloat16 holds 8 bits of mantissa: an update a few hundred times smaller than the
weight is lost in it. So the optimiser works on float32 copies, gradients of micro-batches are added
up in float32, and the parameters are rounded from the copies after every step. Shards of a model
need none: FSDP2 keeps float32 parts and gathers them in bfloat16 (``rl.sharding``).
"""

from collections.abc import Callable, Mapping

import torch

from rl.settings import Products

_LEVEL = {"float32": "highest", "bfloat16": "medium"}


def use_products(kind: Products) -> None:
    """Have this process multiply float32 matrices so. ``bfloat16`` rounds the factors to 8 bits of
    mantissa and adds up in float32; CPUs without such units compute as before."""
    torch.set_float32_matmul_precision(_LEVEL[kind])


class Masters:
    """The float32 copies of some parameters.

    Args:
        parameters: by name, those the optimiser shall move; their gradients end up on the copies.
    """

    def __init__(self, parameters: Mapping[str, torch.nn.Parameter]) -> None:
        self._rounded = dict(parameters)
        self.copies = {
            name: torch.nn.Parameter(parameter.detach().float())
            for name, parameter in parameters.items()
        }
        for name, parameter in parameters.items():
            hook = self._taking(name)
            parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def round(self) -> None:
        """Have the parameters equal the copies, as nearly as they can."""
        for name, parameter in self._rounded.items():
            parameter.copy_(self.copies[name])

    def _taking(self, name: str) -> Callable[[torch.Tensor], None]:
        def take(parameter: torch.Tensor) -> None:
            copy, gradient = self.copies[name], parameter.grad
            assert gradient is not None
            if copy.grad is None:
                copy.grad = gradient.float()
            else:
                copy.grad.add_(gradient)
            parameter.grad = None

        return take
