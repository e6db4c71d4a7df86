"""Properties of the embedded engine, on a tiny real model."""

import json
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, Qwen2Config, Qwen3Config

from serving import weights
from serving.embedded.engine import TorchEngine
from serving.engine import EngineOptions
from serving.engines import build_engine
from serving.errors import ContextOverflow, EngineError, ModelError, RequestRefused
from serving.renderer import Renderer
from serving.types import Generation, Sampling, Token

from .conftest import OPTIONS, WAIT_S

PROMPT = list(range(3, 90))


def reference_logprobs(
    folder: Path, prompt: list[int], tokens: tuple[int, ...], temperature: float = 1.0
) -> torch.Tensor:
    """Log-probs [T, V] at the tokens' places by transformers in float32."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *tokens]])).logits[0] / temperature
    return torch.log_softmax(logits, -1)[len(prompt) - 1 : -1]


def reference(
    folder: Path, prompt: list[int], tokens: tuple[int, ...], temperature: float = 1.0
) -> list[float]:
    """Log-probs of the tokens by transformers in float32."""
    logprobs = reference_logprobs(folder, prompt, tokens, temperature)
    return [float(row[token]) for row, token in zip(logprobs, tokens, strict=True)]


def run(engine: TorchEngine, prompt: list[int], **fields: object) -> Generation:
    return engine.submit(prompt, Sampling(**fields)).future.result(WAIT_S)  # type: ignore[arg-type]


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_logprobs_equal_transformers(engine: TorchEngine, tiny: Path, temperature: float) -> None:
    """Bug prevented: another norm, rotation or mask than the model was trained with."""
    sampled = run(engine, PROMPT, max_tokens=30, seed=1, temperature=temperature)
    wanted = reference(tiny, PROMPT, sampled.token_ids_T, temperature)
    assert sampled.logprobs_T == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("config", [LlamaConfig, Qwen2Config, Qwen3Config])
def test_other_llama_family_weights_equal_transformers(tmp_path: Path, config: type) -> None:
    """Bug prevented: biases, q/k norms, untied heads or a head size of its own ignored."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        config(
            vocab_size=120,
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=8 if config is not Qwen3Config else 16,
            max_position_embeddings=256,
            tie_word_embeddings=False,
            initializer_range=0.2,
            eos_token_id=1,
        )
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(tmp_path)
    engine = TorchEngine(tmp_path, OPTIONS)
    try:
        sampled = run(engine, PROMPT, max_tokens=12, seed=3)
    finally:
        engine.close()
    wanted = reference(tmp_path, PROMPT, sampled.token_ids_T)
    assert sampled.logprobs_T == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("temperature", [1.0, 0.5, 0.0])
def test_top_logprobs_are_those_of_transformers(
    engine: TorchEngine, tiny: Path, temperature: float
) -> None:
    """Bug prevented: alternatives of the truncated distribution, or of another row's place."""
    told: list[Token] = []
    sampling = Sampling(
        max_tokens=6, seed=2, temperature=temperature, top_p=0.5, top_logprobs=3, ignore_end=True
    )
    beside = engine.submit(PROMPT[:40], Sampling(max_tokens=20, top_logprobs=7, ignore_end=True))
    plain = engine.submit(PROMPT[:30], Sampling(max_tokens=20, ignore_end=True))
    sampled = engine.submit(PROMPT, sampling, told.append).future.result(WAIT_S)
    wanted = reference_logprobs(tiny, PROMPT, sampled.token_ids_T, temperature or 1.0).topk(3)
    for top, ids, values in zip(sampled.tops_T, wanted.indices, wanted.values, strict=True):
        assert [token for token, _ in top] == ids.tolist()
        assert [value for _, value in top] == pytest.approx(values.tolist(), abs=1e-4)
    assert [token.top for token in told] == list(sampled.tops_T)
    assert {len(top) for top in beside.future.result(WAIT_S).tops_T} == {7}
    assert plain.future.result(WAIT_S).tops_T == ()
    for wrong in (-1, 10**6):
        with pytest.raises(RequestRefused) as caught:
            engine.submit(PROMPT, Sampling(top_logprobs=wrong))
        assert caught.value.field == "top_logprobs"


def test_other_architectures_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(ModelError, match=r"runs llama.*gpt2"):
        TorchEngine(tmp_path, OPTIONS)


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "dynamic", "factor": 2.0},
        {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8},
    ],
)
def test_rope_that_depends_on_the_length_is_refused(
    tiny: Path, tmp_path: Path, scaling: dict[str, object]
) -> None:
    """Bug prevented: angles frozen at one length, wrong log-probs at every other."""
    config = json.loads((tiny / "config.json").read_text())
    for name in ("rope_parameters", "rope_scaling"):
        config.pop(name, None)
    config["rope_scaling"] = {**scaling, "original_max_position_embeddings": 1024}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=str(scaling["rope_type"])):
        TorchEngine(tmp_path, OPTIONS)


def test_seeded_tokens_do_not_depend_on_the_batch(engine: TorchEngine, tmp_path: Path) -> None:
    """Bug prevented: one shared random generator, rows mixed up on joining and leaving."""
    prompts = [PROMPT[i : i + 20 + 9 * i] for i in range(6)]
    alone = [run(engine, p, max_tokens=10 + 5 * i, seed=i) for i, p in enumerate(prompts)]
    engine.load(*_same_weights(engine, tmp_path))  # drops the prefix cache
    tickets = [
        engine.submit(p, Sampling(max_tokens=10 + 5 * i, seed=i)) for i, p in enumerate(prompts)
    ]
    for one, ticket in zip(alone, tickets, strict=True):
        together = ticket.future.result(WAIT_S)
        assert together.token_ids_T == one.token_ids_T
        assert together.logprobs_T == pytest.approx(one.logprobs_T, abs=1e-4)


def test_equal_prompts_at_once_are_computed_once(engine: TorchEngine) -> None:
    """Bug prevented: the prompt of a group computed once per member."""
    tickets = [engine.submit(PROMPT, Sampling(max_tokens=4, seed=i)) for i in range(8)]
    cached = sorted(ticket.future.result(WAIT_S).num_cached for ticket in tickets)
    assert cached == [0] + [len(PROMPT) - 1] * 7
    assert engine.stats()["prefilled_tokens"] == len(PROMPT) - 1


def test_reused_prefixes_give_the_same_logprobs(engine: TorchEngine, tiny: Path) -> None:
    """Bug prevented: keys and values copied at the wrong positions or from the wrong row."""
    first = run(engine, PROMPT, max_tokens=20, seed=5)
    longer = [*PROMPT, *first.token_ids_T, 40, 41, 42]
    branch = [*PROMPT[:50], 7, 8, 9]
    for prompt, at_least in ((longer, len(PROMPT) + 19), (branch, 50), (longer, 80)):
        second = run(engine, prompt, max_tokens=10, seed=6)
        assert second.num_cached >= at_least
        wanted = reference(tiny, prompt, second.token_ids_T)
        assert second.logprobs_T == pytest.approx(wanted, abs=1e-4)


def test_many_more_requests_than_slots(engine: TorchEngine, tiny: Path) -> None:
    """Bug prevented: rows evicted while in use; a cache that cannot grow past its first size."""
    prompts = [[3 + (i * 7 + j) % 200 for j in range(5 + 23 * i)] for i in range(24)]
    tickets = [engine.submit(p, Sampling(max_tokens=25, seed=i)) for i, p in enumerate(prompts)]
    for i in (0, 11, 22, 23):
        sampled = tickets[i].future.result(120)
        wanted = reference(tiny, prompts[i], sampled.token_ids_T)
        assert sampled.logprobs_T == pytest.approx(wanted, abs=1e-4)
    assert all(ticket.future.result(120).token_ids_T for ticket in tickets)
    assert engine.stats()["finished"] == 24


def test_what_lies_beyond_a_row_is_never_read(engine: TorchEngine) -> None:
    """Bug prevented: memory that was never written, masked, still turning scores into NaN."""
    assert not engine._cache._k.any() and not engine._cache._v.any()
    tickets = [engine.submit(PROMPT[: 9 * i + 1], Sampling(max_tokens=9)) for i in range(8)]
    for ticket in tickets:
        assert all(value <= 0 for value in ticket.future.result(WAIT_S).logprobs_T)


def test_score_equals_sampling(engine: TorchEngine) -> None:
    sampled = run(engine, PROMPT, max_tokens=15, seed=2, temperature=0.8)
    ids = [*PROMPT, *sampled.token_ids_T]
    scores = engine.score([ids, [5], PROMPT], temperature=0.8).result(WAIT_S)
    assert scores[0][len(PROMPT) - 1 :] == pytest.approx(sampled.logprobs_T, abs=1e-4)
    assert scores[1] == []
    assert scores[2] == pytest.approx(scores[0][: len(PROMPT) - 1], abs=1e-4)


def _same_weights(engine: TorchEngine, folder: Path) -> tuple[Path, int]:
    params = {name: tensor.clone() for name, tensor in engine._model.params.items()}
    return weights.publish(params, folder, engine.version + 1), engine.version + 1


def _changed_weights(tiny: Path, folder: Path, version: int) -> Path:
    state = load_file(tiny / "model.safetensors")
    name = "model.layers.1.mlp.down_proj.weight"
    return weights.publish({name: state[name] + 0.5}, folder, version)


def test_weights_loaded_in_mid_request(engine: TorchEngine, tiny: Path, tmp_path: Path) -> None:
    """Bug prevented: requests aborted by a load; one version for all tokens; a stale cache."""
    begun = threading.Event()
    ticket = engine.submit(
        PROMPT, Sampling(max_tokens=1500, seed=1, ignore_end=True), lambda *_: begun.set()
    )
    assert begun.wait(30)
    engine.load(_changed_weights(tiny, tmp_path, 3), 3)
    sampled = ticket.future.result(120)
    versions = sampled.versions_T
    assert sampled.finish_reason == "length" and len(versions) == 1500
    assert set(versions) == {0, 3} and list(versions) == sorted(versions)

    fresh = run(engine, PROMPT, max_tokens=10, seed=1)
    assert fresh.num_cached == 0  # nothing computed under the old weights was reused
    reloaded = engine.score([[*PROMPT, *fresh.token_ids_T]]).result(WAIT_S)[0]
    assert fresh.logprobs_T == pytest.approx(reloaded[len(PROMPT) - 1 :], abs=1e-4)
    old = reference(tiny, PROMPT, fresh.token_ids_T)
    assert fresh.logprobs_T != pytest.approx(old, abs=1e-2)


def test_bad_weights_are_refused_and_the_old_ones_kept(
    engine: TorchEngine, tiny: Path, tmp_path: Path
) -> None:
    before = run(engine, PROMPT, max_tokens=5, seed=1)
    good = load_file(tiny / "model.safetensors")
    norm, embed = "model.norm.weight", "model.embed_tokens.weight"
    bad = [
        {norm: good[norm] * 2, "model.other.weight": torch.zeros(3)},
        {norm: good[norm] * 2, embed: torch.zeros(3, 3)},
        {norm: good[norm] * float("nan")},
    ]
    for version, state in enumerate(bad, start=1):
        with pytest.raises(EngineError, match="old weights kept"):
            engine.load(weights.publish(state, tmp_path, version), version)
    (tmp_path / "torn.safetensors").write_bytes(b"\x10\0\0\0")
    for path in (tmp_path / "torn.safetensors", tmp_path / "absent"):
        with pytest.raises(EngineError, match="cannot read"):
            engine.load(path, 9)
    engine.load(_changed_weights(tiny, tmp_path, 5), 5)
    with pytest.raises(EngineError, match="older"):
        engine.load(_changed_weights(tiny, tmp_path, 4), 4)
    assert engine.version == 5
    assert before.versions_T == (0,) * len(before.versions_T)


def test_pause_stops_and_resume_goes_on(engine: TorchEngine) -> None:
    engine.pause()
    ticket = engine.submit(PROMPT, Sampling(max_tokens=3, seed=1))
    engine.score([PROMPT]).result(WAIT_S)  # the thread answers, decoding stands still
    assert not ticket.future.done() and engine.stats()["steps"] == 0
    engine.pause()
    engine.resume()
    assert ticket.future.result(WAIT_S).token_ids_T


def test_cancelling_frees_the_slot(tiny: Path) -> None:
    engine = TorchEngine(tiny, EngineOptions(threads=1, max_slots=1, cached_slots=1))
    try:
        begun = threading.Event()
        long = engine.submit(
            PROMPT, Sampling(max_tokens=1900, seed=4, ignore_end=True), lambda *_: begun.set()
        )
        waiting = engine.submit(PROMPT, Sampling(max_tokens=1900))
        begun.wait(30)
        waiting.cancel()
        long.cancel()
        long.cancel()
        assert long.future.result(WAIT_S).finish_reason == "cancelled"
        assert waiting.future.result(WAIT_S).token_ids_T == ()
        assert run(engine, PROMPT, max_tokens=2).finish_reason in ("length", "stop")
        assert engine.stats()["running"] == 0
    finally:
        engine.close()


def test_a_short_request_does_not_wait_for_a_long_one(engine: TorchEngine) -> None:
    """Bug prevented: static batches, where all wait for the longest."""
    begun = threading.Event()
    long = engine.submit(
        PROMPT, Sampling(max_tokens=1900, seed=4, ignore_end=True), lambda *_: begun.set()
    )
    begun.wait(30)
    run(engine, PROMPT, max_tokens=3)
    assert not long.future.done()
    long.cancel()


def test_the_end_of_the_context_is_length(tiny: Path) -> None:
    engine = TorchEngine(tiny, EngineOptions(threads=1, max_slots=2, cached_slots=0, max_len=100))
    try:
        sampled = run(engine, PROMPT, max_tokens=500, temperature=0, ignore_end=True)
        assert sampled.finish_reason == "length"
        assert len(PROMPT) + len(sampled.token_ids_T) == 100
        with pytest.raises(ContextOverflow, match="holds 100"):
            run(engine, list(range(3, 103)))
        for prompt in ([], [99999], [-1]):
            with pytest.raises(RequestRefused):
                run(engine, prompt)
    finally:
        engine.close()


def test_stop_strings_end_the_reply(engine: TorchEngine, renderer: Renderer) -> None:
    whole = renderer.decode(run(engine, PROMPT, max_tokens=40, seed=9).token_ids_T)
    stop = whole[12:15]
    sampled = run(engine, PROMPT, max_tokens=40, seed=9, stop=(stop,))
    assert sampled.finish_reason == "stop"
    assert renderer.decode(sampled.token_ids_T).endswith(stop)


def test_a_closed_engine_fails_what_is_left(tiny: Path) -> None:
    engine = TorchEngine(tiny, OPTIONS)
    ticket = engine.submit(PROMPT, Sampling(max_tokens=1900))
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        ticket.future.result(10)
    with pytest.raises(EngineError, match="closed"):
        engine.submit(PROMPT, Sampling())


def test_engines_by_name(tiny: Path) -> None:
    with pytest.raises(ModelError, match="did you mean 'torch'"):
        build_engine("torsh", tiny)
    with pytest.raises(ModelError, match="sglang_url=http"):
        build_engine("sglang", tiny)


def test_int8_is_near_and_requantised_by_a_load(tiny: Path, tmp_path: Path) -> None:
    """Bug prevented: old quantised weights under a new version; rows that change each other."""
    options = EngineOptions(threads=1, max_slots=8, cached_slots=2, weights="int8")
    engine = TorchEngine(tiny, options)
    try:
        assert engine.stats()["weights"] == "int8"
        engine.load(_changed_weights(tiny, tmp_path, 1), 1)
        alone = run(engine, PROMPT, max_tokens=30, seed=4, ignore_end=True)
        prompts = [PROMPT[: 20 + 9 * i] for i in range(6)]
        beside = [engine.submit(p, Sampling(max_tokens=30, ignore_end=True)) for p in prompts]
        again = run(engine, PROMPT, max_tokens=30, seed=4, ignore_end=True)
        assert again.token_ids_T == alone.token_ids_T
        assert all(ticket.future.result(WAIT_S) for ticket in beside)
        ids = [*PROMPT, *alone.token_ids_T]
        scores = engine.score([ids]).result(WAIT_S)[0]
        assert scores[len(PROMPT) - 1 :] == pytest.approx(alone.logprobs_T, abs=1e-3)
    finally:
        engine.close()
    exact = TorchEngine(tiny, OPTIONS)
    try:
        exact.load(_changed_weights(tiny, tmp_path, 1), 1)
        wanted = exact.score([ids]).result(WAIT_S)[0]
    finally:
        exact.close()
    assert scores == pytest.approx(wanted, abs=0.2)
    assert scores != wanted


@pytest.mark.model
def test_int8_error_on_the_real_model(smollm: Path) -> None:
    """Bug prevented: a kernel that saturates, whose log-probs are of no model at all."""
    texts = [
        "The capital of France is Paris. It lies on the Seine and has two million people.",
        "def fib(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n",
        "<|im_start|>user\nCount the lines.<|im_end|>\n<|im_start|>assistant\nwc -l *<|im_end|>\n",
    ]
    tokenizer = AutoTokenizer.from_pretrained(smollm)
    ids = [tokenizer.encode(text) for text in texts]
    scores = []
    for kind in ("fp32", "int8"):
        options = EngineOptions(threads=1, max_slots=1, cached_slots=0, weights=kind)
        engine = TorchEngine(smollm, options)
        try:
            scores.append(
                torch.tensor([x for row in engine.score(ids).result(WAIT_S) for x in row])
            )
        finally:
            engine.close()
    error = (scores[1] - scores[0]).abs()
    assert 0 < error.mean() < 0.15 and error.max() < 1.5


@pytest.mark.model
def test_the_real_model_equals_transformers(smollm: Path) -> None:
    """Nothing here depends on time but the wait: on a busy machine two threads that spin for one
    another may take minutes, so there is one. The error is 1.3e-5, with one thread or two."""
    renderer = Renderer(smollm)
    prompt = list(
        renderer.render([{"role": "user", "content": "What is the capital of France?"}]).ids_P
    )
    engine = TorchEngine(smollm, EngineOptions(threads=1))
    try:
        sampled = run(engine, prompt, max_tokens=24, seed=0)
        greedy = run(engine, prompt, max_tokens=12, temperature=0)
    finally:
        engine.close()
    wanted = reference(smollm, prompt, sampled.token_ids_T)
    assert sampled.logprobs_T == pytest.approx(wanted, abs=1e-4)
    assert "Paris" in renderer.decode(greedy.token_ids_T)
