"""Run by Python at the start of each of the server's processes on a machine without a GPU.

Mends two things when they are imported, and imports nothing itself:
torchvision beside a CPU build of torch lacks operators it registers shape rules for;
torch without a GPU refuses the pinned memory that adapters are put in.
"""

import importlib.abc
import sys
from typing import Any


def _define_nms() -> None:
    import torch

    for name in ("nms", "qnms"):
        try:
            getattr(torch.ops.torchvision, name)
        except (AttributeError, RuntimeError):
            make: Any = torch.library.Library
            library = make("torchvision", "FRAGMENT")
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _KEPT.append(library)  # its operators go with it


def _ignore_pinning() -> None:
    import torch

    if torch.cuda.is_available():
        return

    def unpinned(make: Any) -> Any:
        def made(*args: Any, **kwargs: Any) -> Any:
            kwargs.pop("pin_memory", None)
            return make(*args, **kwargs)

        return made

    for name in ("empty", "zeros", "ones", "full", "tensor", "arange", "empty_like"):
        setattr(torch, name, unpinned(getattr(torch, name)))
    torch.Tensor.pin_memory = lambda self, *_: self  # type: ignore[method-assign]


_KEPT: list[Any] = []
_BEFORE = {"torchvision": _define_nms, "sglang.srt.lora": _ignore_pinning}


class _Mender(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        mend = _BEFORE.pop(fullname, None)
        if mend is not None:
            mend()


sys.meta_path.insert(0, _Mender())
