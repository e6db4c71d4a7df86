"""Images of a vision-language model under training: read from their files when they are computed.

A sample names its images by path and digest and holds placeholders where the processor put them.
Here the files become features of the frozen vision tower, and nodes of the tree get the positions
that the model gives them (one dimension, or three where it counts time, height and width). Left
out: training of the tower, video, and how a prompt with images is rendered (``serving``).
"""

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from agents.types import ImageRef
from rl.errors import RunError, SampleError
from rl.packing import PackedBatch

NOT_LANGUAGE = r".*(visual|vision|connector|multi_modal_projector).*"
TOWERS = ("visual", "vision_model", "vision_tower", "connector", "multi_modal_projector")


def sees(folder: Path) -> bool:
    """Whether a model folder holds a vision-language model."""
    try:
        return "vision_config" in json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return False


class Vision:
    """What turns files into what a vision-language model takes beside token ids.

    Args:
        folder: of the model; its image processor is loaded with the first image.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processor: Any = None

    @staticmethod
    def freeze(model: Any) -> None:
        """Leave everything but the language model as it is."""
        for name in TOWERS:
            if (tower := getattr(model.model, name, None)) is not None:
                tower.requires_grad_(False)

    def see(self, base: Any, batch: PackedBatch) -> dict[str, Any]:
        """Return what a batch's forward takes for its images.

        Raises:
            SampleError: a file is missing, is not what was recorded, or fills another number of
                placeholders.
            RunError: the model has no way to be given features.
        """
        device = base.get_input_embeddings().weight.device
        inputs = {name: value.to(device) for name, value in self._read(batch.images).items()}
        with torch.no_grad():
            features = base.model.get_image_features(**inputs, return_dict=True)
        sizes = [len(part) for part in features.pooler_output]
        wanted = [image.length for image in batch.images]
        if sizes != wanted:
            raise SampleError(f"images fill {sizes} placeholders, their samples hold {wanted}")
        grids = inputs.get("image_grid_thw")
        return {
            "mm_encoder_outputs": {"image": features},
            "position_ids": self._positions(base, batch, grids).to(device),
        }

    def _read(self, images: Sequence[ImageRef]) -> dict[str, torch.Tensor]:
        from PIL import Image

        if self._processor is None:
            self._processor = _processor(self.folder)
        opened = []
        for image in images:
            try:
                data = Path(image.path).read_bytes()
            except OSError as error:
                raise SampleError(f"image {image.path}: {error.strerror}") from error
            if hashlib.sha256(data).hexdigest() != image.digest:
                raise SampleError(f"image {image.path} is not the one that was sampled from")
            opened.append(Image.open(io.BytesIO(data)).convert("RGB"))
        made = self._processor(images=opened, return_tensors="pt")
        return {name: made[name] for name in ("pixel_values", "image_grid_thw") if name in made}

    def _positions(self, base: Any, batch: PackedBatch, grids: torch.Tensor | None) -> torch.Tensor:
        """Return the position of every node: its depth, [1, N], or [3, 1, N] from the model."""
        depths_N = torch.from_numpy(batch.positions_N)
        if not hasattr(base.model, "get_rope_index") or grids is None:
            return depths_N[None]
        positions_3N = depths_N.expand(3, -1).clone()
        placeholder = torch.zeros(batch.num_nodes, dtype=torch.int32)
        for image in batch.images:
            placeholder[image.start : image.start + image.length] = 1
        at = {image.start: number for number, image in enumerate(batch.images)}
        for path in batch.paths:
            nodes_L = torch.from_numpy(path)
            own = [at[node] for node in path.tolist() if node in at]
            positions_31L, _ = base.model.get_rope_index(
                torch.from_numpy(batch.token_ids_N)[nodes_L][None],
                placeholder[nodes_L][None],
                image_grid_thw=grids.cpu()[own],
            )
            positions_3N[:, nodes_L] = positions_31L[:, 0]
        return positions_3N[:, None]


def _processor(folder: Path) -> Any:
    from transformers import AutoImageProcessor

    try:
        return AutoImageProcessor.from_pretrained(folder)
    except (OSError, ValueError, ImportError) as error:
        raise RunError(f"{folder}: its image processor cannot be loaded: {error}") from error
