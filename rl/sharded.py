"""Checkpoints that several ranks write together (``torch.distributed.checkpoint``).

Each rank writes its own parts into ``checkpoints/<step>/shards``; what is no tensor goes into
``rest.pt`` beside them. Any number of ranks reads it again, one included: parts are put together as
the reader's own are cut. Left out: what one process writes (``rl.checkpoint``).
"""

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import torch

from rl import checkpoint
from rl.checkpoint import CheckpointMeta
from rl.errors import CheckpointError, RlError
from rl.ranks import Ranks
from rl.trainer import Trainer

T = TypeVar("T")
SHARDS, REST = "shards", "rest.pt"
_WEIGHTS, _MOMENTS = "weights", "moments"


def save(folder: Path, meta: CheckpointMeta, trainer: Trainer, keep: int) -> Path:
    """Write ``folder/<step>`` together; all ranks call it, and see the same failure.

    Raises:
        NoSpaceError, CheckpointError: see ``rl.checkpoint.save``.
    """
    from torch.distributed.checkpoint import state_dict_saver as saver

    ranks = trainer.ranks
    tensors, rest = _flat(trainer.state())
    with ExitStack() as stack:
        part = _agreed(
            ranks,
            lambda: (
                stack.enter_context(checkpoint.writing(folder, meta, keep)) if ranks.first else None
            ),
        )
        _with_errors(lambda: saver.save(tensors, checkpoint_id=part / SHARDS), part)
        if ranks.first:
            torch.save(rest, part / REST)
    return folder / f"{meta.step:06d}"


def is_sharded(path: Path) -> bool:
    """Whether several ranks wrote a checkpoint."""
    return (path / SHARDS).is_dir()


def load(path: Path, trainer: Trainer) -> None:
    """Have a trainer go on from a checkpoint, whoever wrote it; all its ranks call this.

    Raises:
        CheckpointError: a file is missing or damaged.
        RunError: it belongs to another model.
    """
    if not is_sharded(path):
        trainer.load_state(checkpoint.load_state(path))
        return
    try:
        rest = torch.load(path / REST, weights_only=True)
        layout = _layout(path / SHARDS)
    except (OSError, RuntimeError, EOFError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    trainer.load_state(_read(path, trainer, layout, rest))


def load_weights(path: Path, trainer: Trainer) -> None:
    """Take the weights of a checkpoint alone. Raises as ``load``."""
    if not is_sharded(path):
        trainer.policy.load_trainable(checkpoint.load_state(path)[_WEIGHTS])
        return
    layout = {n: t for n, t in _layout(path / SHARDS).items() if n.startswith(f"{_WEIGHTS}/")}
    state = _read(path, trainer, layout, {"optimizer": {"state": {}}})
    trainer.policy.load_trainable(state[_WEIGHTS])


def _with_errors(call: Callable[[], Any], path: Path) -> None:
    """Call; what the library raises past ``Exception`` becomes its first cause.

    Raises:
        OSError, RlError, CheckpointError: the first that a rank met.
    """
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        call()
    except CheckpointException as error:
        cause = next(iter(error.failures.values()))[0]
        if isinstance(cause, OSError | RlError):
            raise cause from error
        raise CheckpointError(f"{path}: {' '.join(str(cause).split())[:300]}") from error


def _read(path: Path, trainer: Trainer, layout: dict[str, Any], rest: dict[str, Any]) -> Any:
    """Return a trainer's state, in parts as its own are cut."""
    from torch.distributed.checkpoint import state_dict_loader as loader

    own = trainer.policy.trainable_state()
    tensors = {}
    for name, size in layout.items():
        kind, _, what = name.partition("/")
        if kind == _WEIGHTS:
            like = own.get(what)
        else:
            like = trainer.policy.trainable[int(what.partition("/")[0])]
        if like is not None and like.shape == size:
            tensors[name] = torch.empty_like(like).detach()
        else:
            tensors[name] = torch.empty(size)
    alone = trainer.ranks.size == 1
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")
            _with_errors(
                lambda: loader.load(tensors, checkpoint_id=path / SHARDS, no_dist=alone),
                path,
            )
    except (OSError, RuntimeError, ValueError, EOFError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    return _nested(tensors, rest)


def _layout(shards: Path) -> dict[str, torch.Size]:
    """Return the shape of every tensor of a checkpoint."""
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    metadata = FileSystemReader(shards).read_metadata()
    return {
        name: getattr(entry, "size", torch.Size())
        for name, entry in metadata.state_dict_metadata.items()
    }


def _flat(state: dict[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return a trainer's tensors by name, and the rest of its state."""
    tensors = {f"{_WEIGHTS}/{name}": tensor for name, tensor in state["weights"].items()}
    optimizer = state["optimizer"]
    left: dict[int, dict[str, Any]] = {}
    for index, values in optimizer["state"].items():
        for key, value in values.items():
            if isinstance(value, torch.Tensor):
                tensors[f"{_MOMENTS}/{index}/{key}"] = value
            else:
                left.setdefault(index, {})[key] = value
    rest = {name: value for name, value in state.items() if name != "weights"}
    return tensors, {**rest, "optimizer": {**optimizer, "state": left}}


def _nested(tensors: dict[str, torch.Tensor], rest: dict[str, Any]) -> dict[str, Any]:
    """Return what ``_flat`` took apart."""
    weights: dict[str, torch.Tensor] = {}
    moments = {index: dict(values) for index, values in rest["optimizer"]["state"].items()}
    for name, tensor in tensors.items():
        kind, _, what = name.partition("/")
        if kind == _WEIGHTS:
            weights[what] = tensor
        else:
            index, _, key = what.partition("/")
            moments.setdefault(int(index), {})[key] = tensor
    return {
        **rest,
        "weights": weights,
        "optimizer": {**rest["optimizer"], "state": moments},
    }


def _agreed(ranks: Ranks, call: Callable[[], T]) -> Any:
    """Call on every rank; return the first rank's value, or raise the first failure on all."""
    value: T | None = None
    failure: Exception | None = None
    try:
        value = call()
    except RlError as error:
        failure = error
    told = ranks.gather((value, failure))
    if failed := [error for _, error in told if error is not None]:
        raise failure or failed[0]
    return told[0][0]
