"""What computes in less than float32 is still learned in float32."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from envs.errors import MissingDependency
from rl import checkpoint, optimiser
from rl.checkpoint import CheckpointMeta
from rl.methodsettings import AlgorithmConfig
from rl.packing import pack
from rl.precision import Masters
from rl.quantised import GROUP, QuantisedLinear, decode, encode
from rl.settings import GuardsConfig, LoraConfig, OptimConfig, TrainerConfig
from rl.trainer import Trainer
from tests.rl.records import random_samples


def build(
    model: Path, lr: float = 1e-2, lora: LoraConfig | None = None, **settings: Any
) -> Trainer:
    return Trainer(
        model,
        AlgorithmConfig(kl_coef=settings.pop("kl_coef", 0.0)),
        OptimConfig(lr=lr, name=settings.pop("optimiser", "adamw")),
        TrainerConfig.model_validate(
            {"max_logprob_gap": 1e9, "sequence_tolerance": None, "token_budget": 64, **settings}
        ),
        lora or LoraConfig(),
        guards=GuardsConfig(kl_max=None),
    )


def test_small_updates_add_up_in_the_masters(model: Path) -> None:
    """At lr 1e-6 every update is lost in bfloat16 weights: such a trainer stands still for ever."""
    trainer = build(model, lr=1e-6, dtype="bfloat16")
    samples = random_samples(np.random.default_rng(1))
    start = {n: t.clone() for n, t in trainer.policy.trainable_state().items()}
    assert trainer.policy.dtype == torch.bfloat16
    assert all(t.dtype == torch.float32 for t in start.values())
    for version in range(1, 4):
        trainer.step(samples, version=version)
    moved = trainer.policy.trainable_state()
    rounded = dict(trainer.policy.model.named_parameters())
    for name, tensor in moved.items():
        assert float((tensor - start[name]).abs().max()) > 1e-6
        assert torch.equal(tensor.bfloat16(), rounded[name].detach())
    stuck = sum(int(torch.equal(moved[n].bfloat16(), start[n].bfloat16())) for n in moved)
    assert stuck > 0  # bfloat16 alone would not have moved there


def test_gradients_of_micro_batches_add_up_in_float32() -> None:
    """256 + 1 is 256 in bfloat16: of many small micro-batches only the first would count."""
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.bfloat16))
    masters = Masters({"w": weight})
    for factor in (256.0, 1.0, 1.0):
        (weight * factor).sum().backward()  # type: ignore[no-untyped-call]
    gradient = masters.copies["w"].grad
    assert gradient is not None and gradient.item() == 258.0
    assert weight.grad is None


def test_bfloat16_learns_what_float32_learns(model: Path) -> None:
    """The step's gradient points where the one in float32 does; how nearly is the model's matter,
    and this one's weights are large."""
    samples = random_samples(np.random.default_rng(2))
    found = []
    for dtype in ("float32", "bfloat16"):
        trainer = build(model, dtype=dtype)
        kept: list[torch.Tensor] = []

        def keep(*_: object, trainer: Trainer = trainer, kept: list[torch.Tensor] = kept) -> None:
            kept.extend(
                p.grad.flatten().clone() for p in trainer.policy.trainable if p.grad is not None
            )

        trainer.optimizer.register_step_pre_hook(keep)
        trainer.step(samples, version=1)
        found.append(torch.cat(kept))
    assert float(torch.cosine_similarity(found[0], found[1], 0)) > 0.9


def test_resumed_masters_go_on_bit_for_bit(model: Path, tmp_path: Path) -> None:
    """A checkpoint of the rounded weights would forget the last 16 bits of every one."""
    straight = build(model, dtype="bfloat16")
    straight.step(random_samples(np.random.default_rng(3)), version=1)
    checkpoint.save(tmp_path, CheckpointMeta(1, 1, True), straight.state(), keep=1)
    resumed = build(model, dtype="bfloat16")
    resumed.load_state(checkpoint.load_state(tmp_path / "000001"))
    for trainer in (straight, resumed):
        trainer.step(random_samples(np.random.default_rng(4)), version=2)
    for name, tensor in straight.policy.trainable_state().items():
        assert torch.equal(tensor, resumed.policy.trainable_state()[name])
    for name, tensor in straight.policy.weights().items():
        assert torch.equal(tensor, resumed.policy.weights()[name])


# ------------------------------------------------------------- quantised bases


@pytest.mark.parametrize(("bits", "levels"), [("int8", 127), ("int4", 7)])
def test_codes_stand_for_the_nearest_number(bits: Any, levels: int) -> None:
    """A nibble in the wrong half, a scale of the wrong group: other weights than the model's. The
    width here is no multiple of a group."""
    weight = torch.randn(6, 2 * GROUP + 10, generator=torch.Generator().manual_seed(0))
    codes, scales = encode(weight, bits)
    back = decode(codes, scales, bits, weight.shape[1])
    reach = weight.abs().amax(1, keepdim=True)
    assert back.shape == weight.shape
    assert bool(((back - weight).abs() <= reach / levels / 2 + 1e-6).all())
    again, _ = encode(back, bits)
    assert torch.equal(again, codes)
    size = codes.numel() * codes.element_size()
    assert size == (weight.numel() if bits == "int8" else 6 * 3 * GROUP // 2)


@pytest.mark.parametrize("bits", ["int8", "int4"])
def test_quantised_layer_computes_with_its_numbers(bits: Any) -> None:
    """Forward and backward equal those of a plain layer with the dequantised weight."""
    torch.manual_seed(0)
    plain = torch.nn.Linear(40, 24)
    layer = QuantisedLinear(plain, bits)
    plain.weight.data = layer.dequantised()
    inputs = [torch.randn(5, 40, requires_grad=True)]
    inputs.append(inputs[0].detach().clone().requires_grad_())
    for module, given in zip((plain, layer), inputs, strict=True):
        module(given).square().sum().backward()
    torch.testing.assert_close(inputs[1].grad, inputs[0].grad)
    assert [name for name, _ in layer.named_parameters()] == ["bias"]


@pytest.mark.parametrize("bits", ["int8", "int4"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adapters_are_trained_over_a_quantised_base(
    model: Path, tmp_path: Path, bits: Any, dtype: str
) -> None:
    """Only adapters move, the anchor is the quantised start, and what is published and exported
    computes what was trained: an engine with the unquantised base samples from another policy."""
    from transformers import AutoModelForCausalLM

    lora = LoraConfig(enabled=True, rank=4, quantize=bits)
    trainer = build(model, lora=lora, dtype=dtype, kl_coef=0.1)
    assert all("lora_" in name for name in trainer.policy.trainable_state())
    kinds = [type(m).__name__ for m in trainer.policy.model.modules()]
    assert kinds.count("QuantisedLinear") == 14  # seven in each of two layers, not the head
    samples = random_samples(np.random.default_rng(5))
    first = trainer.step(samples, version=1).values["loss"]
    assert trainer.step(samples, version=1).values["loss"] < first
    trainer.policy.save_pretrained(tmp_path)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    published = trainer.policy.weights()
    assert published.keys() == {n for n in plain.state_dict() if n != "lm_head.weight"}
    tolerance = 1e-4 if dtype == "float32" else 0.2
    with torch.no_grad():
        for batch in pack(samples, 4096):
            got_E = trainer.policy.score(batch).logprobs_E.numpy()
            for index in np.unique(batch.sample_E):
                sample = samples[index]
                logits = plain(torch.from_numpy(sample.token_ids_L)[None]).logits[0]
                logprobs = torch.log_softmax(logits / sample.temperature, -1)
                at = np.flatnonzero(sample.trained_L)
                wanted = logprobs[at - 1, sample.token_ids_L[at]].numpy()
                np.testing.assert_allclose(got_E[batch.sample_E == index], wanted, atol=tolerance)


# ------------------------------------------------------------- optimisers


def test_eight_bit_optimiser_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is started, and with what to install."""
    monkeypatch.setattr(optimiser.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="pip install torchao"):
        optimiser.require(OptimConfig(name="adamw8bit"))
    with pytest.raises(MissingDependency, match="pip install torchao"):
        optimiser.make([torch.nn.Parameter(torch.zeros(1))], OptimConfig(name="adamw8bit"))
    optimiser.require(OptimConfig())


def test_rate_reaches_an_optimiser_that_holds_it_in_a_tensor() -> None:
    """torchao compiles its step around the tensor and refuses, or worse, ignores another one."""
    rate = torch.tensor(0.5)
    plain = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    for lr in (rate, 0.1):
        plain.param_groups[0]["lr"] = lr
        optimiser.set_rate(plain, 0.25)
        assert float(plain.param_groups[0]["lr"]) == 0.25
    assert float(rate) == 0.25


def test_products_of_bfloat16_factors_are_near_and_are_switched_off_again(model: Path) -> None:
    """A trainer that leaves the process in the fast mode makes every later exact one inexact."""
    samples = random_samples(np.random.default_rng(1))
    (batch,) = pack(samples, 4096)

    def scored(**settings: Any) -> np.ndarray:
        policy = build(model, **settings).policy
        with torch.no_grad():
            return policy.score(batch).logprobs_E.numpy()

    exact = scored()
    np.testing.assert_allclose(scored(products="bfloat16"), exact, atol=0.3)
    np.testing.assert_array_equal(scored(), exact)
    assert torch.get_float32_matmul_precision() == "highest"
