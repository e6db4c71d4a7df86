"""Vision-language models: the tree gives what plain transformers gives, images stay files."""

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agents.types import Episode, ImageRef, Turn
from rl.errors import SampleError
from rl.packing import num_distinct, pack
from rl.samples import merge
from rl.settings import LoraConfig
from rl.types import Sample, TermWeights
from tests.rl.records import episode, turn
from tests.rl.test_precision import build

TEXT = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "pad_token_id": 0,
}
IMAGE, START, END, VIDEO = 90, 91, 92, 93
IDS = {
    "image_token_id": IMAGE,
    "vision_start_token_id": START,
    "vision_end_token_id": END,
    "video_token_id": VIDEO,
}
ROPE = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0}


def qwen3() -> Any:
    from transformers import Qwen3VLConfig

    return Qwen3VLConfig(
        text_config={**TEXT, "head_dim": 8, "rope_parameters": {**ROPE, "mrope_interleaved": True}},
        vision_config={
            "depth": 2,
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_heads": 2,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 32,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
        },
        **IDS,
    )


def qwen2_5() -> Any:
    from transformers import Qwen2_5_VLConfig

    return Qwen2_5_VLConfig(
        text_config={**TEXT, "rope_parameters": ROPE},
        vision_config={
            "depth": 2,
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_heads": 2,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 32,
            "window_size": 56,
            "fullatt_block_indexes": [1],
        },
        **IDS,
    )


@pytest.fixture(scope="module", params=["qwen2.5-vl", "qwen3-vl"])
def seeing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random vision-language model with its image processor."""
    from transformers import AutoModelForImageTextToText
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    torch.manual_seed(0)
    config = qwen3() if request.param == "qwen3-vl" else qwen2_5()
    folder = tmp_path_factory.mktemp(request.param.replace(".", "_"))
    AutoModelForImageTextToText.from_config(config).save_pretrained(folder)
    Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=84 * 84).save_pretrained(folder)
    return folder


def picture(folder: Path, name: str, seed: int, height: int, width: int) -> tuple[Path, str, int]:
    """A picture; its path, digest and number of placeholders."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    path = folder / f"{name}.png"
    Image.fromarray(rng.integers(0, 255, (height, width, 3), np.uint8)).save(path)
    return path, hashlib.sha256(path.read_bytes()).hexdigest(), (height // 28) * (width // 28)


def seen(folder: Path, size: int = 3) -> list[Sample]:
    """Replies to two screens that are told in the same words; half of them after a second one."""
    rng = np.random.default_rng(3)
    screens = [picture(folder, f"s{i}", i, 56, 84) for i in range(2)]
    later = picture(folder, "later", 9, 84, 28)
    samples = []
    for number in range(2 * size):
        ids, images = [1, 2, START], []
        for path, digest, length in [screens[number % 2], later][: 1 + number % 3 % 2]:
            images.append(ImageRef(str(path), digest, len(ids), length))
            ids += [IMAGE] * length + [END, 7, 8, START]
        prompt = len(ids)
        ids += rng.integers(3, 80, 5).tolist()
        trained = np.arange(len(ids)) >= prompt
        samples.append(
            Sample(
                episode_id=f"g0.m{number}",
                group_id="g0",
                token_ids_L=np.asarray(ids, np.int64),
                trained_L=trained,
                old_logprobs_L=np.where(trained, -4.0, np.nan),
                versions_L=np.where(trained, 0, -1),
                advantages_L=np.where(trained, (-1.0) ** number, 0.0),
                weights=TermWeights(pg=1.0),
                images=tuple(images),
            )
        )
    return samples


def plain_logprobs(folder: Path, samples: list[Sample]) -> list[np.ndarray]:
    """One sequence at a time, with the library's own attention, positions and images."""
    from PIL import Image
    from transformers import AutoImageProcessor, AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    processor = AutoImageProcessor.from_pretrained(folder)
    found = []
    with torch.no_grad():
        for sample in samples:
            ids = torch.from_numpy(sample.token_ids_L)[None]
            made = processor(
                images=[Image.open(i.path) for i in sample.images], return_tensors="pt"
            )
            logits = model(ids, mm_token_type_ids=(ids == IMAGE).int(), **made).logits[0]
            logprobs = torch.log_softmax(logits, -1)
            at = np.flatnonzero(sample.trained_L)
            found.append(logprobs[at - 1, sample.token_ids_L[at]].numpy())
    return found


@pytest.mark.parametrize("checkpointing", [False, True])
def test_tree_with_images_equals_one_sequence_at_a_time(
    seeing: Path, tmp_path: Path, checkpointing: bool
) -> None:
    """Two screens told in the same words share no node past them; the same screen is computed once.
    Positions counted by depth, or features given to the wrong nodes, give other numbers."""
    samples = seen(tmp_path)
    policy = build(seeing, activation_checkpointing=checkpointing).policy
    wanted = plain_logprobs(seeing, samples)
    (batch,) = pack(samples, 4096)
    assert batch.num_nodes == num_distinct(samples) < sum(len(s.token_ids_L) for s in samples)
    assert len({image.digest for image in batch.images}) == 3
    logprobs_E = policy.score(batch).logprobs_E
    logprobs_E.sum().backward()  # type: ignore[no-untyped-call]
    for index in range(len(samples)):
        own = logprobs_E[batch.sample_E == index].detach().numpy()
        np.testing.assert_allclose(own, wanted[index], atol=2e-4)
    other = [replace(s, images=()) for s in samples]
    assert num_distinct(other) < batch.num_nodes  # without images they would look the same


@pytest.mark.parametrize("lora", [False, True])
def test_language_is_trained_and_the_tower_is_not(seeing: Path, tmp_path: Path, lora: bool) -> None:
    """A step with images learns; what sees stays as it was, and everything is exported."""
    trainer = build(seeing, lr=1e-3, lora=LoraConfig(enabled=lora, rank=4))
    assert not any("visual" in name for name in trainer.policy.trainable_state())
    samples = seen(tmp_path)
    values = trainer.step(samples, version=1).values
    assert values["trained_tokens"] == 5 * len(samples) and values["grad_norm"] > 0
    out = tmp_path / "out"
    trainer.policy.save_pretrained(out)
    after = plain_logprobs_of(out, seeing, samples)
    (batch,) = pack(samples, 4096)
    with torch.no_grad():
        logprobs_E = trainer.policy.score(batch).logprobs_E.numpy()
    for index in range(len(samples)):
        np.testing.assert_allclose(logprobs_E[batch.sample_E == index], after[index], atol=2e-4)


def plain_logprobs_of(out: Path, seeing: Path, samples: list[Sample]) -> list[np.ndarray]:
    (out / "preprocessor_config.json").write_text((seeing / "preprocessor_config.json").read_text())
    return plain_logprobs(out, samples)


def test_image_that_is_gone_or_another_is_a_named_error(seeing: Path, tmp_path: Path) -> None:
    """A screenshot that was overwritten must not be learned from in the other's name."""
    samples = seen(tmp_path)
    trainer = build(seeing)
    path = Path(samples[0].images[0].path)
    kept = path.read_bytes()
    path.write_bytes(kept + b"x")
    with pytest.raises(SampleError, match="not the one that was sampled from"):
        trainer.step(samples, version=1)
    path.unlink()
    with pytest.raises(SampleError, match="No such file"):
        trainer.step(samples, version=1)
    path.write_bytes(kept)
    short = replace(samples[0].images[0], length=5)
    with pytest.raises(SampleError, match="placeholders"):
        trainer.step([replace(samples[0], images=(short,))], version=1)


def test_image_tokens_cannot_carry_loss(tmp_path: Path) -> None:
    """A placeholder was never sampled: nothing can be learned from its probability."""
    (sample, *_) = seen(tmp_path)
    with pytest.raises(ValueError, match="cannot be trained"):
        replace(sample, trained_L=np.ones_like(sample.trained_L))


def test_images_travel_by_reference_through_the_store_and_the_merge(tmp_path: Path) -> None:
    """An episode of a hundred screenshots stays small in store and batch; a turn whose screen was
    replaced in history is a branch of its own."""
    path, digest, length = picture(tmp_path, "one", 1, 56, 84)
    image = ImageRef(str(path), digest, 1, length)
    first = replace(turn([1, *[IMAGE] * length, 2], [3, 4]), images=(image,))
    history = [1, *[IMAGE] * length, 2, 3, 4]
    after = replace(image, start=len(history))
    second = replace(turn([*history, *[IMAGE] * length, 5], [6]), images=(image, after))
    other = replace(second, images=(replace(image, digest="0" * 64), after))
    played = episode([first, second, other])
    row = json.dumps(played.to_json())
    assert len(row) < 4000 and digest in row
    assert Episode.from_json(json.loads(row)) == played
    assert Turn.from_json(json.loads(json.dumps(asdict(first)))) == first
    samples, classes = merge(played)
    assert [s.images for s in samples] == [(image, after), other.images]
    assert sum(classes.values()) == 2 and classes["exact"] == 1
    old = played.to_json()
    for row_ in old["turns"]:
        del row_["images"]  # as an older program wrote it
    assert Episode.from_json(json.loads(json.dumps(old))).turns[0].images == ()
