"""Two ranks that each hold half of the policy take the step that one process takes.

Equal up to rounding: which micro-batches are summed first, and in which of two processes, differs.
Clipped gradients agree to 1e-4 of a tensor's largest entry. Weights agree to 2e-4, a fiftieth of
what one step of AdamW moves them (lr 1e-2): it divides by the gradient's own size, so an entry near
0 carries its rounding into the weights undiminished.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rl import checkpoint, sharded, sharding
from rl.checkpoint import CheckpointMeta
from rl.errors import CheckpointError, MismatchError
from rl.methodsettings import AlgorithmConfig
from rl.packing import num_distinct, pack, share_of
from rl.ranks import ALONE, Ranks, share_out
from rl.settings import GuardsConfig, LoraConfig, OptimConfig, TrainerConfig
from rl.trainer import Trainer
from rl.types import Sample, TermWeights
from tests.rl.ranks import Pair
from tests.rl.records import random_samples
from tests.rl.steps import near_policy

STEPS = 3


@pytest.fixture(scope="module")
def together() -> Iterator[Pair]:
    with Pair() as pair:
        yield pair


def build(model: Path, ranks: Ranks, lora: bool = False, **settings: Any) -> Trainer:
    return Trainer(
        model,
        AlgorithmConfig(kl_coef=settings.pop("kl_coef", 0.0)),
        OptimConfig(lr=1e-2, max_grad_norm=settings.pop("max_grad_norm", 0.5)),
        TrainerConfig.model_validate(
            {"max_logprob_gap": 1e9, "sequence_tolerance": None, "token_budget": 64, **settings}
        ),
        LoraConfig(enabled=lora, rank=4),
        guards=GuardsConfig(kl_max=None),
        ranks=ranks,
    )


def batch(step: int, kl: float = 0.0) -> list[Sample]:
    samples = random_samples(np.random.default_rng(100 + step))
    return [replace(s, weights=TermWeights(pg=1.0, kl=kl)) for s in samples]


def train(ranks: Ranks, model: Path, lora: bool, settings: dict[str, Any]) -> dict[str, Any]:
    """Take some steps; return what was measured, the whole weights, and the size of this part."""
    trainer = build(model, ranks, lora, **settings)
    kl = float(settings.get("kl_coef", 0.0))
    gradients: dict[str, np.ndarray] = {}

    def keep(*_: object) -> None:
        for name, p in trainer.policy.model.named_parameters():
            if p.grad is not None:
                gradients[name] = sharding.whole(p.grad).numpy().copy()

    trainer.optimizer.register_step_pre_hook(keep)
    told = [trainer.step(batch(step, kl), version=step + 1).values for step in range(STEPS)]
    for values in told:
        del values["seconds"], values["gradient_s"]
    state = trainer.policy.trainable_state()
    parts = {n: (t.to_local() if ranks.size > 1 else t).numel() for n, t in state.items()}  # type: ignore[attr-defined]
    return {
        "told": told,
        "gradients": gradients,
        "weights": {n: t.numpy() for n, t in trainer.policy.weights().items()},
        "held": sum(parts.values()),
        "all": sum(t.numel() for t in state.values()),
    }


@pytest.mark.parametrize(
    ("lora", "settings"),
    [
        (False, {}),
        (True, {"kl_coef": 0.1}),
        (False, {"kl_coef": 0.1, "recompute_old": "always", "activation_checkpointing": True}),
    ],
)
def test_two_ranks_take_the_step_of_one_process(
    together: Pair, model: Path, lora: bool, settings: dict[str, Any]
) -> None:
    """Gradients summed twice or averaged once too often, clipping by a shard's own norm, a mask or
    a normaliser of a rank's own tokens, weights published in part: each changes a number here."""
    alone = train(ALONE, model, lora, settings)
    first, second = together(train, model, lora, settings)
    assert first["told"] == second["told"]
    for step, (ours, theirs) in enumerate(zip(alone["told"], first["told"], strict=True)):
        assert ours.keys() == theirs.keys()
        rel, absolute = (1e-4, 1e-6) if step == 0 else (1e-3, 5e-5)  # on weights 2e-4 apart
        for name in ours.keys() - {"computed_tokens", "sharing"}:  # cut for two, prompts may repeat
            assert theirs[name] == pytest.approx(ours[name], rel=rel, abs=absolute), name
        assert ours["grad_norm"] > 0.5  # it was clipped
    assert first["weights"].keys() == alone["weights"].keys() and not second["weights"]
    assert first["gradients"].keys() == alone["gradients"].keys()
    for name, gradient in alone["gradients"].items():
        bound = 1e-4 * np.abs(gradient).max()
        np.testing.assert_allclose(first["gradients"][name], gradient, atol=bound, err_msg=name)
    for name, tensor in alone["weights"].items():
        np.testing.assert_allclose(first["weights"][name], tensor, atol=2e-4, err_msg=name)
    assert first["held"] + second["held"] == alone["all"]
    assert abs(first["held"] - second["held"]) < 0.1 * alone["all"]


def refuse(ranks: Ranks, model: Path, samples: list[Sample]) -> str:
    trainer = build(model, ranks, max_logprob_gap=0.1)
    with pytest.raises(MismatchError) as caught:
        trainer.step(samples, version=0)
    assert trainer.step(batch(0), version=1).values["trained_tokens"] > 0
    return str(caught.value)


def test_ranks_refuse_a_batch_with_one_voice(together: Pair, model: Path) -> None:
    """Only one rank's tokens are off; a rank that went on alone would wait for ever."""
    samples = near_policy(model, random_samples(np.random.default_rng(18)), spread=0.0)
    off = [replace(s, old_logprobs_L=s.old_logprobs_L - 0.9) for s in samples[:4]]
    one, other = together(refuse, model, [*off, *samples[4:]])
    assert one == other and "bound 0.1" in one


def test_micro_batches_are_shared_out_with_as_many_turns_for_all() -> None:
    """One turn more on one rank is a collective call that nobody answers."""
    assert share_out([5, 9, 4], 2) == [[1, None], [0, 2]]
    for sizes in ([1], [3, 3, 3, 3], [9, 1, 1, 1, 1, 1, 1], list(range(1, 12))):
        for ranks in (1, 2, 3, 5):
            shares = share_out(sizes, ranks)
            assert len({len(share) for share in shares}) == 1
            given = sorted(i for share in shares for i in share if i is not None)
            assert given == list(range(len(sizes)))


def test_a_step_is_cut_for_all_ranks_and_groups_stay_whole() -> None:
    """A batch that fits into one micro-batch leaves all ranks but one idle; a group cut for no
    reason computes its prompt twice."""
    samples = batch(0)
    budget = share_of(samples, 4096, 2)
    assert len(pack(samples, 4096)) == 1 and len(pack(samples, budget)) == 2
    assert sum(b.num_nodes for b in pack(samples, budget)) == num_distinct(samples)
    assert share_of(samples, 16, 2) == 16
    assert len(pack(samples[:4], share_of(samples[:4], 4096, 2))) == 2  # one group, two ranks
    assert share_of(samples, 4096, 1) == 4096


# ------------------------------------------------------------- checkpoints


def go_on(
    ranks: Ranks, model: Path, lora: bool, kept: Path | None, first: int, to: Path
) -> list[float]:
    """Continue from a checkpoint, take steps, and leave one behind; return the losses."""
    trainer = build(model, ranks, lora)
    if kept is not None:
        sharded.load(kept, trainer)
        assert trainer.step_index == first
    losses = []
    for step in range(first, first + 2):
        losses.append(trainer.step(batch(step), version=step + 1).values["loss"])
    meta = CheckpointMeta(first + 2, first + 2, True)
    if ranks.size == 1:
        checkpoint.save(to, meta, trainer.state(), keep=9)
    else:
        sharded.save(to, meta, trainer, keep=9)
    return losses


def weights_of(model: Path, lora: bool, path: Path) -> dict[str, torch.Tensor]:
    trainer = build(model, ALONE, lora)
    sharded.load(path, trainer)
    return {n: t.clone() for n, t in trainer.policy.trainable_state().items()}


@pytest.mark.parametrize("lora", [False, True])
def test_checkpoints_travel_between_one_process_and_two_ranks(
    together: Pair, model: Path, lora: bool, tmp_path: Path
) -> None:
    """2 ranks → 1 process → 2 ranks, beside a process that never stopped: a moment left at 0, or a
    part loaded into the wrong rows, shows in the next loss. A machine with fewer GPUs can go on."""
    straight = [*go_on(ALONE, model, lora, None, 0, tmp_path / "a")]
    straight += go_on(ALONE, model, lora, tmp_path / "a" / "000002", 2, tmp_path / "a")
    straight += go_on(ALONE, model, lora, tmp_path / "a" / "000004", 4, tmp_path / "a")
    moved = [*together(go_on, model, lora, None, 0, tmp_path / "b")[0]]
    assert sharded.is_sharded(tmp_path / "b" / "000002")
    moved += go_on(ALONE, model, lora, tmp_path / "b" / "000002", 2, tmp_path / "b")
    moved += together(go_on, model, lora, tmp_path / "b" / "000004", 4, tmp_path / "b")[0]
    assert moved == pytest.approx(straight, rel=1e-3, abs=5e-5)
    wanted = weights_of(model, lora, tmp_path / "a" / "000006")
    for name, tensor in weights_of(model, lora, tmp_path / "b" / "000006").items():
        torch.testing.assert_close(tensor, wanted[name], rtol=0, atol=2e-4, msg=name)
    assert json.loads((tmp_path / "b" / "000006" / "meta.json").read_text())["step"] == 6


def damaged(ranks: Ranks, model: Path, path: Path) -> str:
    trainer = build(model, ranks)
    try:
        sharded.load(path, trainer)
    except CheckpointError as error:
        return str(error)
    return ""


def test_damaged_shard_is_a_named_error_on_all_ranks(
    together: Pair, model: Path, tmp_path: Path
) -> None:
    """A rank that loaded well beside one that did not would go on with half a policy."""
    together(go_on, model, False, None, 0, tmp_path)
    path = tmp_path / "000002"
    shard = sorted((path / "shards").glob("*.distcp"))[1]
    shard.write_bytes(shard.read_bytes()[:100])
    assert all(str(path) in said for said in together(damaged, model, path))
    with pytest.raises(CheckpointError, match="000002"):
        sharded.load(path, build(model, ALONE))
    (path / "shards" / ".metadata").write_bytes(b"")
    with pytest.raises(CheckpointError, match="000002"):
        sharded.load(path, build(model, ALONE))


def unwritable(ranks: Ranks, model: Path, folder: Path) -> str:
    trainer = build(model, ranks)
    with pytest.raises(CheckpointError) as caught:
        sharded.save(folder, CheckpointMeta(1, 1, True), trainer, keep=1)
    return str(caught.value)


def test_checkpoint_that_cannot_be_written_fails_on_all_ranks(
    together: Pair, model: Path, tmp_path: Path
) -> None:
    """The first rank alone meets the disk; the others must not wait for it."""
    (tmp_path / "file").write_text("")
    one, other = together(unwritable, model, tmp_path / "file")
    assert "could not be written" in one and one == other


def test_plain_tensors_pass_through() -> None:
    """One process knows nothing of shards."""
    tensor = torch.arange(4.0)
    assert sharding.whole(tensor) is tensor
    assert sharding.as_part_of(tensor, tensor) is tensor


def asked(ranks: Ranks, model: Path) -> list[tuple[Any, Any]]:
    trainer = build(model, ranks)
    found = trainer.likeliest(SEQUENCES, 0.7, 5)
    return [(topk.token_ids_TK, topk.logprobs_TK) for topk in found]


SEQUENCES = [([*range(n, n + 40), *range(50, 50 + n)], n) for n in (1, 4, 7, 2)]


def test_likeliest_tokens_are_those_of_the_plain_model(together: Pair, model: Path) -> None:
    """A teacher one position off teaches the neighbour's tokens; ranks must each give their share,
    in the order asked for."""
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    alone = asked(ALONE, model)
    for (ids, size), (ids_TK, logprobs_TK) in zip(SEQUENCES, alone, strict=True):
        with torch.no_grad():
            logits_TV = plain(torch.tensor([ids])).logits[0, -1 - size : -1]
        top = torch.log_softmax(logits_TV / 0.7, -1).topk(5)
        assert ids_TK.tolist() == top.indices.tolist()
        np.testing.assert_allclose(logprobs_TK, top.values.numpy(), atol=1e-4)
    first, second = together(asked, model)
    for ranks in (first, second):
        for (ids_TK, logprobs_TK), (ids, logprobs) in zip(alone, ranks, strict=True):
            assert (ids_TK == ids).all()
            np.testing.assert_allclose(logprobs_TK, logprobs, atol=1e-4)
