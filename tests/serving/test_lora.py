"""Adapters beside one base: equal to peft's own model, never mixed up, never half loaded."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from serving import weights
from serving.embedded.engine import TorchEngine
from serving.engine import EngineOptions
from serving.errors import EngineError, RequestRefused
from serving.types import Generation, Sampling

from .conftest import WAIT_S

PROMPT = list(range(3, 90))
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def make_adapter(base: Path, folder: Path, seed: int = 0, **fields: object) -> Path:
    """Save a random adapter, far from zero, by peft."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    given = {"r": 4, "lora_alpha": 12, "target_modules": ALL, **fields}
    adapted = peft.get_peft_model(model, peft.LoraConfig(**given))  # type: ignore[arg-type]
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.normal_(0, 0.1)
    adapted.save_pretrained(str(folder))
    return folder


def by_peft(base: Path, adapter: Path, prompt: list[int], sampled: Generation) -> list[float]:
    """Log-probs of the sampled tokens by peft's own model."""
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    adapted = peft.PeftModel.from_pretrained(model, str(adapter))
    with torch.no_grad():
        logits = adapted(torch.tensor([[*prompt, *sampled.token_ids_T]])).logits[0]
    rows = torch.log_softmax(logits, -1)[len(prompt) - 1 : -1]
    return [float(row[token]) for row, token in zip(rows, sampled.token_ids_T, strict=True)]


def ask(engine: TorchEngine, adapter: str, prompt: list[int] = PROMPT, **fields: object) -> object:
    given = {"max_tokens": 12, "seed": 1, "ignore_end": True, **fields}
    return engine.submit(prompt, Sampling(adapter=adapter, **given))  # type: ignore[arg-type]


def run(
    engine: TorchEngine, adapter: str, prompt: list[int] = PROMPT, **fields: object
) -> Generation:
    return ask(engine, adapter, prompt, **fields).future.result(WAIT_S)  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"target_modules": ["q_proj", "v_proj"], "r": 3},
        {"target_modules": ["k_proj", "up_proj"], "use_rslora": True},
        {"target_modules": ["down_proj", "o_proj"], "layers_to_transform": [1]},
        {"rank_pattern": {"v_proj": 2}, "alpha_pattern": {"layers.1.mlp.up_proj": 30}},
    ],
)
def test_logprobs_equal_pefts(
    engine: TorchEngine, tiny: Path, tmp_path: Path, fields: dict[str, object]
) -> None:
    """Bug prevented: another scale, a part of a fused matrix at the wrong place."""
    folder = make_adapter(tiny, tmp_path, **fields)
    base = run(engine, "")
    engine.load_adapter("mine", folder, 3)
    sampled = run(engine, "mine")
    assert sampled.logprobs_T == pytest.approx(by_peft(tiny, folder, PROMPT, sampled), abs=1e-4)
    assert set(sampled.versions_T) == {3} and engine.adapters() == {"mine": 3}
    assert sampled.num_cached == 0  # the base's keys and values are not its own
    assert sampled.logprobs_T != pytest.approx(base.logprobs_T, abs=1e-2)
    again = run(engine, "")
    assert (again.token_ids_T, again.versions_T) == (base.token_ids_T, base.versions_T)


def test_rows_of_several_adapters_in_one_step(
    engine: TorchEngine, tiny: Path, tmp_path: Path
) -> None:
    """Bug prevented: a row computed under its neighbour's adapter; prefixes shared across them."""
    folders = {name: make_adapter(tiny, tmp_path / name, i) for i, name in enumerate("abc")}
    for name, folder in folders.items():
        engine.load_adapter(name, folder, 1)
    names = ["a", "", "b", "a", "c", "", "b", "c"]  # of more prompts than prefill takes at once
    prompts = [PROMPT[: 87 - 9 * (i // 2)] for i in range(8)]
    tickets = [
        ask(engine, name, prompt, max_tokens=20 + 3 * i, seed=i)
        for i, (name, prompt) in enumerate(zip(names, prompts, strict=True))
    ]
    for name, prompt, ticket in zip(names, prompts, tickets, strict=True):
        sampled = ticket.future.result(WAIT_S)  # type: ignore[attr-defined]
        if name:
            wanted = by_peft(tiny, folders[name], prompt, sampled)
        else:
            ids = [*prompt, *sampled.token_ids_T]
            wanted = engine.score([ids]).result(WAIT_S)[0][len(prompt) - 1 :]
        assert sampled.logprobs_T == pytest.approx(wanted, abs=1e-4), name


def test_the_base_is_bitwise_the_same_beside_adapters(tiny: Path, tmp_path: Path) -> None:
    """Bug prevented: base rows that change because a neighbour uses an adapter."""
    folder = make_adapter(tiny, tmp_path)
    results = []
    for adapter in ("", "mine"):
        engine = TorchEngine(tiny, EngineOptions(threads=1, max_slots=4, cached_slots=0))
        try:
            engine.load_adapter("mine", folder, 1)
            engine.pause()  # all join in one step
            others = [ask(engine, adapter, PROMPT[i:], max_tokens=40) for i in range(3)]
            base = ask(engine, "", PROMPT[5:], max_tokens=40)
            engine.resume()
            results.append(base.future.result(WAIT_S))  # type: ignore[attr-defined]
            assert all(ticket.future.result(WAIT_S) for ticket in others)  # type: ignore[attr-defined]
        finally:
            engine.close()
    assert results[0] == results[1]


def test_replaced_while_a_reply_streams(engine: TorchEngine, tiny: Path, tmp_path: Path) -> None:
    """Bug prevented: a reply cut by a load; one version for all tokens; keys of the old adapter."""
    first, second = (make_adapter(tiny, tmp_path / str(i), i) for i in range(2))
    engine.load_adapter("mine", first, 1)
    begun = threading.Event()
    long = Sampling(max_tokens=1200, seed=1, ignore_end=True, adapter="mine")
    ticket = engine.submit(PROMPT, long, lambda *_: begun.set())
    assert begun.wait(30)
    engine.load_adapter("mine", second, 4)
    versions = ticket.future.result(120).versions_T
    assert len(versions) == 1200
    assert set(versions) == {1, 4} and list(versions) == sorted(versions)
    fresh = run(engine, "mine")
    assert fresh.num_cached == 0
    assert fresh.logprobs_T == pytest.approx(by_peft(tiny, second, PROMPT, fresh), abs=1e-4)
    assert run(engine, "mine", seed=2).num_cached > 0  # its own keys and values are shared
    assert engine.version == 0


def test_loading_the_same_version_again_drops_its_prefixes(
    engine: TorchEngine, tiny: Path, tmp_path: Path
) -> None:
    """Bug prevented: prefixes keyed by version alone, shared between two files of version 1."""
    for seed in range(2):
        folder = make_adapter(tiny, tmp_path / str(seed), seed)
        engine.load_adapter("mine", folder, 1)
        sampled = run(engine, "mine")
        wanted = by_peft(tiny, folder, PROMPT, sampled)
        assert sampled.logprobs_T == pytest.approx(wanted, abs=1e-4)


def test_unloading_ends_its_requests_and_no_others(
    engine: TorchEngine, tiny: Path, tmp_path: Path
) -> None:
    """Bug prevented: requests that go on under the base, or hang, once their adapter is gone."""
    engine.load_adapter("mine", make_adapter(tiny, tmp_path), 1)
    begun = threading.Event()
    long = Sampling(max_tokens=1900, ignore_end=True, adapter="mine")
    running = engine.submit(PROMPT, long, lambda *_: begun.set())
    other = ask(engine, "", max_tokens=300)
    assert begun.wait(30)
    engine.unload_adapter("mine")
    engine.unload_adapter("mine")
    with pytest.raises(EngineError, match="'mine' was unloaded"):
        running.future.result(WAIT_S)
    assert len(other.future.result(WAIT_S).token_ids_T) == 300  # type: ignore[attr-defined]
    assert engine.adapters() == {} and engine.stats()["running"] == 0
    with pytest.raises(RequestRefused, match="no adapter 'mine'") as caught:
        engine.submit(PROMPT, long)
    assert caught.value.field == "adapter"
    with pytest.raises(RequestRefused):
        engine.score([PROMPT], adapter="mine")


def test_scores_under_an_adapter(engine: TorchEngine, tiny: Path, tmp_path: Path) -> None:
    folder = make_adapter(tiny, tmp_path)
    base = engine.score([PROMPT]).result(WAIT_S)
    engine.load_adapter("mine", folder, 1)
    sampled = run(engine, "mine", temperature=0.7)
    ids = [*PROMPT, *sampled.token_ids_T]
    scores = engine.score([[5], ids], 0.7, adapter="mine").result(WAIT_S)[1]
    assert scores[len(PROMPT) - 1 :] == pytest.approx(sampled.logprobs_T, abs=1e-4)
    assert engine.score([PROMPT]).result(WAIT_S) == base


def _edit_config(**fields: object) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "adapter_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    return edit


def _edit_weights(change: Callable[[dict[str, torch.Tensor]], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "adapter_model.safetensors"
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path)

    return edit


Q_A = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight"
HEAD = "base_model.model.lm_head.lora_A.weight"


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_edit_config(use_dora=True), "use_dora"),
        (_edit_config(bias="all"), "bias='all'"),
        (_edit_config(modules_to_save=["lm_head"]), "modules_to_save"),
        (_edit_config(peft_type="IA3"), "no LoRA adapter"),
        (_edit_config(init_lora_weights="pissa"), "pissa"),
        (_edit_config(a_new_trick=1), "a_new_trick"),
        (_edit_config(r=8), r"layers\.\d\..*is \[4, \d+\], must be \[8"),
        (_edit_config(target_modules=["q_proj", "lm_head"]), "lm_head"),
        (_edit_weights(lambda t: t.update({HEAD: torch.zeros(4, 64)})), "unknown target.*lm_head"),
        (_edit_weights(lambda t: t.update({Q_A: torch.zeros(4, 65)})), r"q_proj is \[4, 65\]"),
        (_edit_weights(lambda t: t.pop(Q_A)), r"lora_A of .*q_proj is missing"),  # type: ignore[arg-type,return-value]
        (_edit_weights(lambda t: t.update({Q_A: t[Q_A] * float("nan")})), "NaN"),
        (_edit_weights(lambda t: t.clear()), "holds no weights"),
        (lambda f: (f / "adapter_model.safetensors").write_bytes(b"\x10\0\0\0"), "cannot read"),
        (lambda f: (f / "adapter_config.json").write_text("{"), "cannot read"),
        (lambda f: (f / "adapter_config.json").unlink(), "cannot read"),
    ],
)
def test_bad_adapters_are_refused_and_the_old_one_kept(
    engine: TorchEngine, tiny: Path, tmp_path: Path, spoil: Callable[[Path], object], reason: str
) -> None:
    """Bug prevented: an option ignored, a file half loaded, an adapter lost by a bad update."""
    good = make_adapter(tiny, tmp_path / "good")
    engine.load_adapter("mine", good, 2)
    before = run(engine, "mine")
    bad = make_adapter(tiny, tmp_path / "bad", 1)
    spoil(bad)
    with pytest.raises(EngineError, match=reason):
        engine.load_adapter("mine", bad, 3)
    with pytest.raises(EngineError, match="older"):
        engine.load_adapter("mine", good, 1)
    assert engine.adapters() == {"mine": 2}
    after = run(engine, "mine")
    assert after.token_ids_T == before.token_ids_T
    assert after.num_cached > 0


def test_new_base_weights_under_an_adapter(engine: TorchEngine, tiny: Path, tmp_path: Path) -> None:
    """Bug prevented: prefixes of an adapter that outlive the base they were computed with."""
    engine.load_adapter("mine", make_adapter(tiny, tmp_path / "a"), 1)
    old = run(engine, "mine")
    state = load_file(tiny / "model.safetensors")
    name = "model.layers.1.mlp.down_proj.weight"
    engine.load(weights.publish({name: state[name] + 0.5}, tmp_path, 1), 1)
    new = run(engine, "mine")
    assert new.num_cached == 0
    ids = [*PROMPT, *new.token_ids_T]
    scores = engine.score([ids], adapter="mine").result(WAIT_S)[0][len(PROMPT) - 1 :]
    assert new.logprobs_T == pytest.approx(scores, abs=1e-4)
    assert new.logprobs_T != pytest.approx(old.logprobs_T, abs=1e-2)
