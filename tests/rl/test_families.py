"""Every model family gives, through prefix trees, the numbers that plain transformers gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rl.errors import RunError
from rl.methodsettings import AlgorithmConfig
from rl.model import Policy
from rl.packing import pack
from rl.settings import LoraConfig, OptimConfig, TrainerConfig
from rl.trainer import Trainer
from tests.rl.records import random_samples

SMALL: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
}
LAYERS = ["sliding_attention", "full_attention"] * 2
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {"tie_word_embeddings": True}),
    "qwen2.5": ("Qwen2Config", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3Config", {}),
    "qwen3.5": (
        "Qwen3_5TextConfig",
        {
            "layer_types": ["linear_attention", "full_attention"] * 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
        },
    ),
    "gemma3": ("Gemma3TextConfig", {"sliding_window": 6, "layer_types": LAYERS}),
    "mistral": ("MistralConfig", {"sliding_window": 6}),
}


@pytest.fixture(scope="module", params=list(FAMILIES))
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of a family."""
    import transformers

    name, more = FAMILIES[request.param]
    torch.manual_seed(0)
    config = getattr(transformers, name)(**{**SMALL, **more})
    folder = tmp_path_factory.mktemp(request.param.replace(".", "_"))
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


def plain_logprobs(folder: Path, samples: list[Any]) -> list[np.ndarray]:
    """Log-probs of trained tokens, one sequence at a time, with the library's own attention."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    found = []
    with torch.no_grad():
        for sample in samples:
            ids = torch.from_numpy(sample.token_ids_L)[None]
            logprobs = torch.log_softmax(model(ids).logits[0] / sample.temperature, -1)
            at = np.flatnonzero(sample.trained_L)
            found.append(logprobs[at - 1, sample.token_ids_L[at]].numpy())
    return found


@pytest.mark.parametrize("checkpointing", [False, True])
def test_tree_equals_one_sequence_at_a_time(family: Path, checkpointing: bool) -> None:
    """A window measured in nodes, a recurrent state that leaks between replies, a mask lost when
    activations are computed again: each gives other numbers than the engine's."""
    samples = random_samples(np.random.default_rng(0))
    policy = Policy(family, LoraConfig(), 512, checkpointing)
    wanted = plain_logprobs(family, samples)
    for batch in pack(samples, 4096, policy.shares_prefixes):
        logprobs_E = policy.score(batch).logprobs_E
        logprobs_E.sum().backward()  # type: ignore[no-untyped-call]
        for index in np.unique(batch.sample_E):
            own = logprobs_E[batch.sample_E == index].detach().numpy()
            np.testing.assert_allclose(own, wanted[index], atol=2e-4)


def test_adapters_merge_and_export(family: Path, tmp_path: Path) -> None:
    """What is exported computes what was trained."""
    trainer = Trainer(
        family,
        AlgorithmConfig(kl_coef=0.0),
        OptimConfig(lr=1e-2),
        TrainerConfig(max_logprob_gap=1e9, sequence_tolerance=None),
        LoraConfig(enabled=True, rank=4),
    )
    samples = random_samples(np.random.default_rng(1))
    before = plain_logprobs(family, samples)
    trainer.step(samples, version=1)
    trainer.policy.save_pretrained(tmp_path)
    after = plain_logprobs(tmp_path, samples)
    moved = np.abs(np.concatenate(after) - np.concatenate(before)).max()
    assert moved > 1e-3
    with torch.no_grad():
        for batch in pack(samples, 4096, trainer.policy.shares_prefixes):
            logprobs_E = trainer.policy.score(batch).logprobs_E.numpy()
            for index in np.unique(batch.sample_E):
                own = logprobs_E[batch.sample_E == index]
                np.testing.assert_allclose(own, after[index], atol=2e-4)


def test_attention_that_is_not_computed_here_is_refused(tmp_path: Path) -> None:
    """Soft capping left out is another model; it was once silently so in several trainers."""
    from transformers import AutoModelForCausalLM, Gemma2Config

    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(Gemma2Config(**SMALL)).save_pretrained(tmp_path)
    policy = Policy(tmp_path, LoraConfig())
    (batch,) = pack(random_samples(np.random.default_rng(2)), 4096)
    with pytest.raises(RunError, match="softcap"):
        policy.score(batch)
