"""The memory plan counts what the trainer really holds."""

from pathlib import Path

import pytest
import torch

from rl import memory
from rl.config import validate
from rl.model import Policy
from rl.settings import LoraConfig


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
    assert plain is not None and anchored is not None and thrifty is not None
    assert anchored.total - plain.total == anchored.reference == plain.weights
    assert plain.total - thrifty.total == plain.activations - thrifty.activations > 0
    assert "kv cache" in str(plain)


def test_a_model_that_says_nothing_has_no_plan(tmp_path: Path) -> None:
    """No number is made up for files that cannot be read."""
    assert memory.needed(validate({}), tmp_path) is None
    torch.save({}, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text("{}")
    assert memory.needed(validate({}), tmp_path) is None
