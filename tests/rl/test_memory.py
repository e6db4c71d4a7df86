"""The memory plan counts what the trainer really holds, and refuses what cannot fit."""

import json
import struct
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from rl import memory, plan
from rl.config import RECIPES, resolve, validate
from rl.doctor import fitting_recipe, gpu_recipes
from rl.errors import ConfigError
from rl.memory import GIB, Memory, Place
from rl.model import Policy
from rl.settings import LoraConfig

GPU_RECIPES = sorted(name for _, _, name in gpu_recipes())
# published numbers of the models that recipes name
QWEN3: dict[str, dict[str, Any]] = {
    "Qwen/Qwen3-0.6B": {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "tie_word_embeddings": True,
    },
    "Qwen/Qwen3-1.7B": {
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "tie_word_embeddings": True,
    },
    "Qwen/Qwen3-4B": {
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "tie_word_embeddings": True,
    },
}


@cache
def shapes(name: str) -> dict[str, list[int]]:
    """The tensors of a model, without making any."""
    from transformers import AutoModelForCausalLM, Qwen3Config

    common = {"vocab_size": 151936, "num_key_value_heads": 8, "head_dim": 128}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(Qwen3Config(**common, **QWEN3[name]))
    return {n: list(t.shape) for n, t in model.state_dict().items() if n != "lm_head.weight"}


def written(folder: Path, name: str) -> Path:
    """A model folder whose weights are a header alone: the plan reads no more."""
    header = {n: {"dtype": "BF16", "shape": s, "data_offsets": [0, 0]} for n, s in
              shapes(name).items()}  # fmt: skip
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    common = {"vocab_size": 151936, "num_key_value_heads": 8, "head_dim": 128}
    (folder / "config.json").write_text(json.dumps({**common, **QWEN3[name]}))
    return folder


@pytest.mark.parametrize("lora", [False, True])
def test_plan_counts_the_trainers_parameters(model: Path, lora: bool) -> None:
    """A plan that forgets a part starts a run that ends for lack of memory hours later."""
    config = validate({"lora": {"enabled": lora, "rank": 4}, "algorithm": {"kl_coef": 0.0}})
    plan = memory.needed(config, model)
    assert plan is not None
    policy = Policy(model, LoraConfig(enabled=lora, rank=4))
    trained = sum(p.numel() for p in policy.trainable)
    assert plan.gradients == 4 * trained
    assert plan.optimiser == 8 * trained
    assert plan.weights == 4 * sum(p.numel() for p in policy.model.parameters())


def test_options_move_the_parts_they_are_about(model: Path) -> None:
    """Each option that costs or saves memory shows in the plan, and in its own part alone."""
    plain = memory.needed(validate({"algorithm": {"kl_coef": 0.0}}), model)
    anchored = memory.needed(validate({"algorithm": {"kl_coef": 0.1}}), model)
    thrifty = memory.needed(
        validate({"algorithm": {"kl_coef": 0.0}, "trainer": {"activation_checkpointing": True}}),
        model,
    )
    small = {"algorithm": {"kl_coef": 0.0}, "optim": {"name": "adamw8bit"}}
    eight = memory.needed(validate(small), model)
    assert plain is not None and anchored is not None and thrifty is not None and eight is not None
    assert anchored.total - plain.total == anchored.reference == plain.weights
    assert plain.total - thrifty.total == plain.activations - thrifty.activations > 0
    assert plain.total - eight.total == plain.optimiser - eight.optimiser > 0
    assert "kv cache" in str(plain)


def test_shards_divide_what_stands_and_gather_what_computes(model: Path) -> None:
    """Two ranks hold half each of weights and moments, and whole layers while they compute."""
    values: dict[str, Any] = {"algorithm": {"kl_coef": 0.0}}
    (alone,) = memory.places(validate(values), model, GIB, None)
    (pair,) = memory.places(validate({**values, "trainer": {"ranks": 2}}), model, GIB, None)
    assert abs(pair.needs.optimiser - alone.needs.optimiser) <= 2
    assert pair.needs.gathered > 0 == alone.needs.gathered
    gpus = {"actor": 4, "memory_gib": 80}
    trainer, here = memory.places(validate({**values, "gpus": gpus}), model, GIB, None)
    assert 4 * trainer.needs.gradients == pytest.approx(alone.needs.gradients, abs=4)
    assert trainer.size == 80 * GIB and here.needs.engine == alone.needs.engine


def test_a_model_that_says_nothing_has_no_plan(tmp_path: Path) -> None:
    """No number is made up for files that cannot be read."""
    assert memory.needed(validate({}), tmp_path) is None
    torch.save({}, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text("{}")
    assert memory.needed(validate({}), tmp_path) is None
    assert memory.places(validate({}), tmp_path, GIB, None) == []


@pytest.mark.parametrize("name", [*GPU_RECIPES, "cluster"])
@pytest.mark.parametrize("env", ["terminal", "chat"])
def test_recipes_for_gpus_fit_what_they_are_for(name: str, env: str, tmp_path: Path) -> None:
    """A recipe that does not parse, or asks more than its GPU has, is worse than none. That it
    also runs, only such a machine can show."""
    config = resolve([f"env={env}", f"recipe={name}"])
    found = memory.places(config, written(tmp_path, config.model), 64 * GIB, None)
    assert any("GPU" in place.name for place in found)
    for place in found:
        assert place.size is not None and place.needs.total < place.size, str(place)
    if config.gpus.shared:  # the server takes its share whether it needs it or not
        rest = found[0].size or 0
        engine = found[0].needs.engine + found[0].needs.kv_cache
        assert engine < config.engine.memory_share * rest
        assert found[0].needs.total - engine < (1 - config.engine.memory_share) * rest
    assert config.gpus.rollout == len(config.engine.urls)


def test_what_cannot_fit_is_refused_with_what_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends for lack of memory after an hour could have been told so at once."""
    folder = written(tmp_path, "Qwen/Qwen3-4B")
    monkeypatch.setattr(plan, "available_memory", lambda: 200 * GIB)
    monkeypatch.setattr(plan, "total_memory", lambda: 200 * GIB)
    monkeypatch.setattr(plan, "gpu_memory", lambda: 24 * GIB)
    urls = ["http://a:1"]
    values: dict[str, Any] = {
        "model": str(folder),
        "gpus": {"actor": 1},
        "engine": {"name": "sglang", "urls": urls},
    }
    with pytest.raises(
        ConfigError, match=r"does not fit: each of 1 trainer GPUs.*would fit: .*="
    ) as said:
        plan.require_memory(validate(values))
    arguments = str(said.value).split("would fit: ")[1].split()
    assert "lora.enabled=true" in arguments
    config = resolve(
        ["env=terminal", f"model={folder}", "gpus.actor=1", "engine=sglang", f"engine.urls={urls}",
         *arguments]
    )  # fmt: skip
    assert plan.require_memory(config)
    monkeypatch.setattr(plan, "gpu_memory", lambda: 1 * GIB)
    with pytest.raises(ConfigError, match="a smaller model"):
        plan.require_memory(validate(values))
    monkeypatch.setattr(plan, "gpu_memory", lambda: None)
    with pytest.raises(ConfigError, match="this machine has no GPU"):
        plan.require_memory(validate(values))


def test_this_machine_is_refused_only_for_what_stands() -> None:
    """Its plan is an upper bound, and memory that others use comes back: a run that has always
    worked must not be refused for a full cache that it never fills."""
    often = Place("this machine", Memory(weights=4, activations=9), 10)
    never = Place("this machine", Memory(weights=11), 10)
    gpu = Place("each of 2 GPUs", Memory(weights=4, activations=9), 10)
    assert plan.fits([often]) and not plan.fits([never]) and not plan.fits([gpu])
    assert not plan.fits([often], strict=True)


def test_doctor_proposes_the_largest_recipe_that_fits() -> None:
    """Numbers as cards report them: a card of 24 GB says 23.6."""
    assert fitting_recipe(1, 7.8) == "gpu-8gb"
    assert fitting_recipe(1, 23.6) == "gpu-24gb"
    assert fitting_recipe(1, 140.0) == "gpu-80gb"
    assert fitting_recipe(8, 79.1).startswith("gpus-")
    assert fitting_recipe(8, 23.6) == "gpu-24gb"
    assert fitting_recipe(1, 4.0) == ""


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"gpus": {"actor": 2}, "trainer": {"ranks": 3}}, "leave trainer.ranks out"),
        ({"engine": {"name": "sglang"}}, "needs engine.urls"),
        ({"engine": {"name": "sglang", "urls": ["a:1"]}}, "http://HOST:PORT"),
        ({"engine": {"urls": ["http://a:1"]}}, "engine=sglang"),
        ({"gpus": {"rollout": 1}}, "use engine=sglang"),
        (
            {
                "gpus": {"rollout": 1},
                "engine": {"name": "sglang", "urls": ["http://a", "http://b"]},
            },
            "names 2 servers",
        ),
        ({"gpus": {"prm": 1}}, "URL of the judge's server"),
        ({"gpus": {"actor": 1, "shared": True}}, "give the same number"),
        ({"lora": {"quantize": "int8"}}, "needs lora.enabled=true"),
        (
            {"lora": {"quantize": "int8", "enabled": True}, "trainer": {"ranks": 2}},
            "is for one rank",
        ),
        ({"optim": {"name": "adamw8bit"}, "trainer": {"ranks": 2}}, "use optim.name=adamw"),
    ],
)
def test_shares_that_contradict_each_other_are_refused(values: dict[str, Any], says: str) -> None:
    """An option that is not used is not ignored."""
    with pytest.raises(ConfigError) as caught:
        validate(values)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_every_recipe_has_a_word_on_what_it_is_for() -> None:
    for path in RECIPES.glob("*.yaml"):
        assert path.read_text().startswith("# ")
