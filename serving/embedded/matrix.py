"""A weight matrix for ``x @ weight.T``, kept a second time in oneDNN's blocked layout.

The blocked layout spares repacking the weight in every product: measured on an AVX-512 server CPU,
all matrices of a 135M model take 20 to 45% less time at 4 to 48 rows, 5 to 15% less at 128 and
more, and slightly more at one or two rows, where the plain layout is used. The price is a second
copy of the weights. Where torch lacks the operator (or another build refuses it) the plain layout
serves all.

``Int8Matrix`` is a lossy one: weights in int8 with a scale per output, activations in 15 bits
(two int8 rows) with a scale per row, sums in int32. The sums are exact and no scale spans rows, so
a row's product does not depend on the rows beside it; torch's own dynamic quantisation takes one
scale for the whole batch. Measured on an AVX-512 server CPU against the float32 layouts above (the
matrices of 8 layers of a 135M model, one thread): 1.5 times as fast at 1 row, 1.7 at 4 and 16, 1.9
at 64, the head 2.6 to 3.9. Mean absolute error of that model's log-probs: 0.07 (0.17 with
activations in 8 bits, which would be a tenth to a third faster). Training on such tokens relies on
the trainer's importance correction: their log-probs are those of the quantised model.
"""

import functools
import logging

import torch
import torch.nn.functional as F
from torch import Tensor

logger = logging.getLogger(__name__)

FEWEST_ROWS = 3  # below this the plain layout is faster
INT8_MOST = 127
HIGH = 128  # an activation is HIGH * high + low, both in int8
SMALLEST_SCALE = 1e-20  # a row of zeros is no division by zero
TYPICAL_ROWS = 16  # the blocked layout is chosen for about so many


class Matrix:
    """A weight [out, in] with an optional bias [out].

    Attributes:
        plain: the weight; after writing to it call ``pack``.
        bias: or None.
    """

    def __init__(self, plain: Tensor, bias: Tensor | None = None) -> None:
        self.plain = plain
        self.bias = bias
        self._packed: Tensor | None = None

    def pack(self) -> None:
        """Bring the blocked copy up to date."""
        if can_pack():
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self.plain, TYPICAL_ROWS)

    def renewed(self, plain: Tensor) -> "Matrix":
        """Return another matrix of that weight, packed, with the same bias."""
        made = type(self)(plain, self.bias)
        made.pack()
        return made

    def exchange(self, other: "Matrix") -> None:
        """Exchange what two matrices of one kind hold; a moment's work, for nothing is freed."""
        mine, others = dict(vars(self)), dict(vars(other))
        vars(self).update(others)
        vars(other).update(mine)

    def __call__(self, x: Tensor) -> Tensor:
        """Return x [N, in] times the weight transposed, plus the bias: [N, out]."""
        if self._packed is None or len(x) < FEWEST_ROWS:
            return F.linear(x, self.plain, self.bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self._packed, self.bias, "none", [], ""
        )
        return product


class Int8Matrix(Matrix):
    """See the module; ``plain`` stays the float32 weight that loads write to."""

    def pack(self) -> None:
        """Quantise the weight anew."""
        self._scale = self.plain.abs().amax(dim=1).clamp_min(SMALLEST_SCALE) / INT8_MOST
        weight = (self.plain / self._scale.unsqueeze(1)).round_().to(torch.int8)
        if int8_kernel() == "packed":
            self._zero = torch.zeros(len(weight), dtype=torch.long)
            self._packed = torch.ops.onednn.qlinear_prepack(weight, [TYPICAL_ROWS, weight.shape[1]])
        else:
            self._packed = weight.T

    def __call__(self, x: Tensor) -> Tensor:
        """Return about x [N, in] times the weight transposed, plus the bias: [N, out]."""
        scale_N = x.abs().amax(dim=1, keepdim=True).clamp_min_(SMALLEST_SCALE)
        scale_N.div_(INT8_MOST * HIGH)
        whole = (x / scale_N).round_()
        high = (whole / HIGH).round_()
        halves = torch.cat((high, whole.sub_(high, alpha=HIGH))).to(torch.int8)
        sums = self._multiply(halves)
        product = sums[len(x) :].add(sums[: len(x)], alpha=HIGH).mul_(scale_N)
        return product if self.bias is None else product.add_(self.bias)

    def _multiply(self, rows: Tensor) -> Tensor:
        """Return int8 rows times the weight transposed, in float32."""
        assert self._packed is not None, "pack comes first"
        if int8_kernel() == "packed":
            product: Tensor = torch.ops.onednn.qlinear_pointwise(
                rows, 1.0, 0, self._packed, self._scale, self._zero, None, 1.0, 0, torch.float32,
                "none", [], "",
            )  # fmt: skip
            return product
        return torch._int_mm(rows, self._packed).float().mul_(self._scale)


@functools.cache
def int8_kernel() -> str:
    """Return how int8 matrices are multiplied fastest here: ``packed``, ``plain`` or "" for not.

    oneDNN's packed product is fast where the CPU multiplies int8 in one instruction (VNNI); on
    others it falls back to a slow one, and the plain product serves.
    """
    x, weight = torch.randint(-9, 9, (5, 32)).char(), torch.randint(-9, 9, (48, 32)).char()
    wanted = x.float() @ weight.float().T
    try:
        if torch.cpu._is_vnni_supported():
            packed = torch.ops.onednn.qlinear_prepack(weight, [5, 32])
            scale, zero = torch.ones(48), torch.zeros(48, dtype=torch.long)
            found = torch.ops.onednn.qlinear_pointwise(
                x, 1.0, 0, packed, scale, zero, None, 1.0, 0, torch.float32, "none", [], ""
            )
            if torch.equal(found, wanted):
                return "packed"
        if torch.equal(torch._int_mm(x, weight.T).float(), wanted):
            return "plain"
    except (AttributeError, RuntimeError, NotImplementedError) as error:
        logger.info("no int8 products: %s", error)
    return ""


@functools.cache
def can_pack() -> bool:
    """Return whether this torch multiplies in the blocked layout and gets the right answer."""
    x, weight, bias = torch.randn(5, 16), torch.randn(24, 16), torch.randn(24)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, TYPICAL_ROWS)
        found = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    except (AttributeError, RuntimeError, NotImplementedError) as error:
        logger.info("weights stay in the plain layout: %s", error)
        return False
    return bool(torch.allclose(found, F.linear(x, weight, bias), atol=1e-5))
