"""Weights from trainer to engine: a safetensors file, written atomically, read with checks.

``publish`` writes all tensors or only the changed ones under a name with the version. ``read``
gives them to an engine after every name and shape was checked, so that a bad file changes nothing.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor


def publish(state_dict: Mapping[str, "Tensor"], folder: Path, version: int, keep: int = 2) -> Path:
    """Write weights as ``weights-<version>.safetensors`` and return the path.

    Args:
        state_dict: HF name → tensor, all of the model or only what changed.
        folder: where; made if missing.
        version: policy version of these weights.
        keep: newest files kept, this one included; older ones are removed.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: _own(tensor.detach()) for name, tensor in state_dict.items()}
    target = folder / f"weights-{version:08d}.safetensors"
    partial = folder / f".{target.name}.{os.getpid()}"
    try:
        save_file(tensors, partial, metadata={"version": str(version)})
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)
    for old in sorted(folder.glob("weights-*.safetensors"))[:-keep]:
        if old != target:
            old.unlink(missing_ok=True)
    return target


def _own(tensor: "Tensor") -> "Tensor":
    """Return a tensor as it can be written: on the CPU, float32, contiguous, nobody's view."""
    import torch

    ready = tensor.to("cpu", torch.float32).contiguous()
    is_view = ready.untyped_storage().nbytes() != ready.nbytes
    return ready.clone() if is_view else ready


def read(path: Path, params: Mapping[str, "Tensor"]) -> dict[str, "Tensor"]:
    """Return the tensors of a publication after checking them against the model's parameters.

    ``lm_head.weight`` of a model with tied embeddings is left out.

    Raises:
        EngineError: unreadable file, no tensors, an unknown name, another shape, NaN or infinity.
    """
    tensors = read_tensors(path)
    tied = "lm_head.weight" not in params
    if tied and "model.embed_tokens.weight" in tensors:
        tensors.pop("lm_head.weight", None)
    for name, tensor in tensors.items():
        if name not in params:
            raise EngineError(f"{path}: the model has no parameter {name!r}; old weights kept")
        if tensor.shape != params[name].shape:
            raise EngineError(
                f"{path}: {name} is {list(tensor.shape)}, the model has "
                f"{list(params[name].shape)}; old weights kept"
            )
        # a sum finds both at a fifth of the cost; only its own overflow needs the second look
        if not bool(tensor.sum().isfinite()) and not bool(tensor.isfinite().all()):
            raise EngineError(f"{path}: {name} holds NaN or infinity; old weights kept")
    return tensors


def read_tensors(path: Path) -> dict[str, "Tensor"]:
    """Return all tensors of a safetensors file.

    Raises:
        EngineError: unreadable file, or no tensors.
    """
    from safetensors import SafetensorError, safe_open

    tensors: dict[str, Tensor] = {}
    try:
        with safe_open(path, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118  (not a mapping)
                tensors[name] = opened.get_tensor(name)
    except (OSError, SafetensorError) as error:
        raise EngineError(f"cannot read weights {path}: {error}") from error
    if not tensors:
        raise EngineError(f"{path} holds no weights")
    return tensors
