"""The SGLang engine against a double of its server: tokens are real, servers die on demand."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from serving import weights
from serving.engine import EngineOptions
from serving.engines import build_engine
from serving.errors import ContextOverflow, EngineError, ModelError, RequestRefused
from serving.sglang_engine import SglangEngine
from serving.sglang_fleet import Limits
from serving.sglang_routing import BLOCK, PrefixTable
from serving.torch_engine import TorchEngine
from serving.types import Generation, Sampling, Token

from .sglang_double import SglangDouble

PROMPT = list(range(3, 90))
LIMITS = Limits(reply_s=60, server_s=5, change_s=20, probe_every_s=0.1, cancel_s=2)


@pytest.fixture
def double(tiny: Path) -> Iterator[SglangDouble]:
    with SglangDouble(tiny) as double:
        yield double


@pytest.fixture
def engine(tiny: Path, double: SglangDouble) -> Iterator[SglangEngine]:
    engine = SglangEngine([double.url], tiny, limits=LIMITS)
    yield engine
    engine.close()


@pytest.fixture
def two(tiny: Path) -> Iterator[tuple[SglangEngine, list[SglangDouble]]]:
    with SglangDouble(tiny) as first, SglangDouble(tiny) as second:
        engine = SglangEngine([first.url, second.url], tiny, limits=LIMITS)
        yield engine, [first, second]
        engine.close()


def run(engine: SglangEngine, prompt: list[int], **fields: Any) -> Generation:
    return engine.submit(prompt, Sampling(**fields)).future.result(30)


def until(what: Callable[[], object], timeout_s: float = 10.0) -> None:
    end = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def changed(tiny: Path, folder: Path, version: int, scale: float = 1.1) -> Path:
    """All weights, some of them others than before."""
    state = load_file(tiny / "model.safetensors")
    state = {name: tensor * scale if "norm" in name else tensor for name, tensor in state.items()}
    return weights.publish(state, folder, version)


def own(tiny: Path, prompt: list[int], update: Path | None = None, **fields: Any) -> Generation:
    """What our embedded engine samples."""
    engine = TorchEngine(tiny, EngineOptions(threads=1))
    try:
        if update is not None:
            engine.load(update, 1)
        return engine.submit(prompt, Sampling(**fields)).future.result(30)
    finally:
        engine.close()


class Stream:
    """Collects the tokens of a streamed reply."""

    def __init__(self, engine: SglangEngine, prompt: list[int], **fields: Any) -> None:
        self.tokens: list[Token] = []
        self.ticket = engine.submit(prompt, Sampling(**fields), self.tokens.append)

    def result(self) -> Generation:
        generation = self.ticket.future.result(60)
        assert tuple(token.id for token in self.tokens) == generation.token_ids_T
        assert tuple(token.logprob for token in self.tokens) == generation.logprobs_T
        return generation


# sampling


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
def test_tokens_are_the_servers(tiny: Path, streamed: bool, incremental: bool) -> None:
    """Bug prevented: a cumulative event counted twice, or log-probs shifted by one."""
    fields = {"max_tokens": 40, "seed": 5, "temperature": 0.7, "top_logprobs": 2}
    with SglangDouble(tiny, incremental=incremental) as double:
        engine = SglangEngine([double.url], tiny, limits=LIMITS)
        try:
            if streamed:
                stream = Stream(engine, PROMPT, **fields)
                sampled = stream.result()
                assert tuple(token.top for token in stream.tokens) == sampled.tops_T
            else:
                sampled = run(engine, PROMPT, **fields)
        finally:
            engine.close()
    wanted = own(tiny, PROMPT, **fields)
    assert sampled.token_ids_T == wanted.token_ids_T
    assert sampled.logprobs_T == pytest.approx(wanted.logprobs_T, abs=1e-5)
    assert [[i for i, _ in top] for top in sampled.tops_T] == [
        [i for i, _ in top] for top in wanted.tops_T
    ]
    assert sampled.finish_reason == wanted.finish_reason
    assert set(sampled.versions_T) == {0}


def test_what_is_sent(engine: SglangEngine, double: SglangDouble) -> None:
    """Bug prevented: a server's default (top_k, seed 42 for all) that truncates or repeats."""
    run(engine, PROMPT, max_tokens=3)
    run(engine, PROMPT, max_tokens=3, stop=("a", "b"), ignore_end=True)
    first, second = double.bodies
    assert first["input_ids"] == PROMPT and first["return_logprob"] and not first["stream"]
    assert first["sampling_params"]["top_k"] == 1 << 30
    assert first["sampling_params"]["sampling_seed"] != second["sampling_params"]["sampling_seed"]
    assert second["sampling_params"]["stop"] == ["a", "b"]
    assert second["sampling_params"]["ignore_eos"] is True
    assert len(first["rid"]) == len(second["rid"]) and first["rid"] != second["rid"]


def test_requests_that_cannot_be_served(engine: SglangEngine) -> None:
    for prompt in ([], [99999], [-1]):
        with pytest.raises(RequestRefused):
            run(engine, prompt)
    with pytest.raises(ContextOverflow):
        run(engine, [5] * engine.max_len)
    for fields, field in (
        ({"max_tokens": 0}, "max_tokens"),
        ({"top_p": 0.0}, "top_p"),
        ({"temperature": -1.0}, "temperature"),
        ({"adapter": "none"}, "adapter"),
        ({"json_schema": "{"}, "json_schema"),
    ):
        with pytest.raises(RequestRefused) as refused:
            run(engine, PROMPT, **fields)
        assert refused.value.field == field


def test_the_end_of_the_context_is_length(engine: SglangEngine) -> None:
    """Bug prevented: a request the server refuses because prompt and limit exceed its context."""
    sampled = run(engine, [5] * (engine.max_len - 4), max_tokens=500, ignore_end=True)
    assert (sampled.finish_reason, len(sampled.token_ids_T)) == ("length", 4)


def test_scores_are_the_engines(engine: SglangEngine, double: SglangDouble) -> None:
    rows = [PROMPT, PROMPT[:5], [7]]
    wanted = double.engine.score(rows).result(30)
    scored = engine.score(rows).result(30)
    assert [len(row) for row in scored] == [86, 4, 0]
    for row, want in zip(scored, wanted, strict=True):
        assert row == pytest.approx(want, abs=1e-5)
    with pytest.raises(RequestRefused, match="temperature 1 only"):
        engine.score(rows, temperature=0.5)


def test_a_callback_that_fails_is_its_own_requests_error(engine: SglangEngine) -> None:
    def broken(token: Token) -> None:
        raise ValueError("mine")

    ticket = engine.submit(PROMPT, Sampling(max_tokens=50), broken)
    with pytest.raises(EngineError, match="ValueError: mine"):
        ticket.future.result(30)
    assert run(engine, PROMPT, max_tokens=3).finish_reason in ("length", "stop")


# cancelling and pausing


@pytest.mark.parametrize("streamed", [False, True])
def test_cancel_gives_what_was_sampled(
    engine: SglangEngine, double: SglangDouble, streamed: bool
) -> None:
    double.token_delay_s = 0.01
    told: list[Token] = []
    sampling = Sampling(max_tokens=1500, ignore_end=True)
    ticket = engine.submit(PROMPT, sampling, told.append if streamed else None)
    until(lambda: double.engine.stats()["sampled_tokens"] >= 5)
    ticket.cancel()
    ticket.cancel()
    sampled = ticket.future.result(10)
    assert sampled.finish_reason == "cancelled"
    assert 0 < len(sampled.token_ids_T) < 1500
    until(lambda: double.num_running == 0)  # bug prevented: a slot that samples for nobody


def test_cancel_in_a_pause_frees_the_slot_after_it(
    engine: SglangEngine, double: SglangDouble
) -> None:
    """Bug prevented: the server forgets an abort that comes while it is paused."""
    double.token_delay_s = 0.01
    sampling = Sampling(max_tokens=1500, ignore_end=True)
    before = engine.submit(PROMPT, sampling, lambda token: None)
    until(lambda: double.engine.stats()["sampled_tokens"] >= 5)
    engine.pause()
    during = engine.submit(PROMPT, sampling)
    before.cancel()
    during.cancel()
    assert before.future.result(10).finish_reason == "cancelled"
    assert during.future.result(10).token_ids_T == ()
    assert len(double.bodies) == 1  # the other never left
    engine.resume()
    until(lambda: double.num_running == 0)


def test_pause_stops_and_resume_goes_on(engine: SglangEngine, double: SglangDouble) -> None:
    double.token_delay_s = 0.005
    stream = Stream(engine, PROMPT, max_tokens=60, ignore_end=True, seed=1)
    until(lambda: stream.tokens)
    engine.pause()
    engine.pause()
    time.sleep(0.2)
    known = len(stream.tokens)
    time.sleep(0.2)
    assert len(stream.tokens) == known and engine.stats()["paused"]
    waiting = engine.submit(PROMPT, Sampling(max_tokens=2))
    time.sleep(0.1)
    assert not waiting.future.done()
    engine.resume()
    engine.resume()
    assert stream.result().finish_reason == waiting.future.result(30).finish_reason == "length"


def test_a_server_left_paused_goes_on(tiny: Path, double: SglangDouble) -> None:
    """Bug prevented: a learner that died in a pause leaves a server that answers nobody."""
    double.paused_by_hand()
    engine = SglangEngine([double.url], tiny, limits=LIMITS)
    assert run(engine, PROMPT, max_tokens=3).token_ids_T
    engine.close()


# publication


def test_load_under_sixteen_streams(
    engine: SglangEngine, double: SglangDouble, tiny: Path, tmp_path: Path
) -> None:
    """Bug prevented: a reply cut, refused, or labelled with one version for all its tokens."""
    double.token_delay_s = 0.0005
    streams = [
        Stream(engine, [*PROMPT, 5 + i], max_tokens=120, ignore_end=True, seed=i) for i in range(16)
    ]
    until(lambda: all(len(stream.tokens) > 5 for stream in streams))
    for version in (1, 2, 3):
        engine.load(changed(tiny, tmp_path, version, 1 + version / 10), version)
    assert engine.version == 3
    for stream in streams:
        sampled = stream.result()
        assert len(sampled.token_ids_T) == 120 and sampled.finish_reason == "length"
        assert sampled.versions_T[0] == 0 and sampled.versions_T[-1] == 3
        assert list(sampled.versions_T) == sorted(sampled.versions_T)
    assert double.calls[:3] == [
        "/pause_generation",
        "/update_weights_from_disk",
        "/continue_generation",
    ]
    assert double.told_version == "3"


def test_new_requests_never_find_old_prefixes(
    engine: SglangEngine, double: SglangDouble, tiny: Path, tmp_path: Path
) -> None:
    """Bug prevented: keys and values of older weights under a later request."""
    run(engine, PROMPT, max_tokens=2)
    engine.load(changed(tiny, tmp_path, 1), 1)
    run(engine, PROMPT, max_tokens=2)
    engine.load(changed(tiny, tmp_path, 1, 1.3), 1)  # other weights, same version
    run(engine, PROMPT, max_tokens=2)
    keys = [body["extra_key"] for body in double.bodies]
    assert len(set(keys)) == 3


def test_partial_updates_add_up(engine: SglangEngine, tiny: Path, tmp_path: Path) -> None:
    """Bug prevented: the second partial update takes back the first."""
    state = load_file(tiny / "model.safetensors")
    names = [name for name in state if "mlp.down_proj" in name]
    first, second = {names[0]: state[names[0]] * 2}, {names[1]: state[names[1]] * 3}
    engine.load(weights.publish(first, tmp_path, 1, keep=1), 1)
    engine.load(weights.publish(second, tmp_path, 2, keep=1), 2)
    whole = weights.publish({**state, **first, **second}, tmp_path / "whole", 1)
    fields = {"max_tokens": 20, "seed": 3, "ignore_end": True}
    assert (
        run(engine, PROMPT, **fields).token_ids_T == own(tiny, PROMPT, whole, **fields).token_ids_T
    )
    assert len(list(tmp_path.glob(".sglang-*"))) == 2


def test_bad_weights_never_reach_a_server(
    engine: SglangEngine, double: SglangDouble, tiny: Path, tmp_path: Path
) -> None:
    """Bug prevented: a server that fails half-way has no old weights to go back to."""
    fields = {"max_tokens": 10, "seed": 3, "ignore_end": True}
    before = run(engine, PROMPT, **fields)
    state = load_file(tiny / "model.safetensors")
    name = next(iter(state))
    bad = {
        "nan": {name: torch.full_like(state[name], float("nan"))},
        "bf16-inf": {name: torch.full_like(state[name], float("inf")).bfloat16()},
        "shape": {name: state[name][:-1].contiguous()},
        "name": {"model.unknown.weight": state[name]},
    }
    files = []
    for kind, tensors in bad.items():
        files.append(tmp_path / f"{kind}.safetensors")
        save_file(tensors, files[-1])
    files.append(tmp_path / "cut.safetensors")
    files[-1].write_bytes((tiny / "model.safetensors").read_bytes()[:-100])
    files.append(tmp_path / "text.safetensors")
    files[-1].write_text("no weights")
    files.append(tmp_path / "absent.safetensors")
    for file in files:
        with pytest.raises(EngineError):
            engine.load(file, 1)
    engine.load(changed(tiny, tmp_path, 2), 2)
    with pytest.raises(EngineError, match="older"):
        engine.load(changed(tiny, tmp_path, 1), 1)
    assert double.calls.count("/update_weights_from_disk") == 1
    assert engine.version == 2 and before.versions_T[0] == 0
    assert not list(tmp_path.glob(".sglang-00000001-*"))


def test_a_server_that_refuses_weights_keeps_serving(
    engine: SglangEngine, double: SglangDouble, tiny: Path, tmp_path: Path
) -> None:
    double.refuse["/update_weights_from_disk"] = "Failed to get weights iterator: no such path"
    with pytest.raises(EngineError, match="no such path"):
        engine.load(changed(tiny, tmp_path, 1), 1)
    assert engine.version == 0
    assert set(run(engine, PROMPT, max_tokens=5).versions_T) == {0}


def test_a_server_that_alone_refuses_weights_is_out(
    two: tuple[SglangEngine, list[SglangDouble]], tiny: Path, tmp_path: Path
) -> None:
    """Bug prevented: two policies behind one version."""
    engine, (_first, second) = two
    second.refuse["/update_weights_from_disk"] = "disk full"
    engine.load(changed(tiny, tmp_path, 1), 1)
    assert [server["alive"] for server in engine.stats()["servers"]] == [True, False]
    assert {v for i in range(8) for v in run(engine, [9, i], max_tokens=2).versions_T} == {1}
    second.refuse.clear()
    until(lambda: all(server["alive"] for server in engine.stats()["servers"]))
    assert second.told_version == "1"


# servers that die


def test_a_killed_servers_streams_go_on_elsewhere(
    two: tuple[SglangEngine, list[SglangDouble]], tiny: Path
) -> None:
    """Bug prevented: a reply cut, or begun again after tokens were shown to the user."""
    engine, doubles = two
    for double in doubles:
        double.token_delay_s = 0.002
    streams = [
        Stream(engine, [5 + i, *PROMPT], max_tokens=100, ignore_end=True, temperature=0)
        for i in range(4)
    ]
    until(lambda: all(len(stream.tokens) > 10 for stream in streams))
    assert all(double.num_running == 2 for double in doubles)  # spread over both
    doubles[0].kill()
    for i, stream in enumerate(streams):
        sampled = stream.result()
        wanted = own(tiny, [5 + i, *PROMPT], max_tokens=100, ignore_end=True, temperature=0)
        assert sampled.token_ids_T == wanted.token_ids_T
        assert sampled.logprobs_T == pytest.approx(wanted.logprobs_T, abs=1e-4)
    stats = engine.stats()
    assert stats["evictions"] == 1 and stats["failed"] == 0 and stats["retries"] >= 2
    assert "127.0.0.1" in stats["servers"][0]["reason"]


def test_a_killed_servers_whole_replies_begin_again(
    two: tuple[SglangEngine, list[SglangDouble]],
) -> None:
    engine, doubles = two
    for double in doubles:
        double.token_delay_s = 0.005
    tickets = [
        engine.submit([5 + i, *PROMPT], Sampling(max_tokens=60, ignore_end=True)) for i in range(4)
    ]
    until(lambda: all(double.num_running == 2 for double in doubles))
    doubles[1].kill()
    assert [len(ticket.future.result(30).token_ids_T) for ticket in tickets] == [60] * 4


def test_a_server_that_comes_back_is_brought_up_to_date(
    two: tuple[SglangEngine, list[SglangDouble]], tiny: Path, tmp_path: Path
) -> None:
    """Bug prevented: a restarted server answers with the weights it was first started with."""
    engine, (first, second) = two
    second.kill()
    until(lambda: not engine.stats()["servers"][1]["alive"])
    update = changed(tiny, tmp_path, 4)
    engine.load(update, 4)
    second.restart()
    until(lambda: engine.stats()["servers"][1]["alive"])
    assert second.told_version == "4"
    first.kill()
    fields = {"max_tokens": 20, "seed": 3, "ignore_end": True}
    sampled = run(engine, PROMPT, **fields)
    assert sampled.token_ids_T == own(tiny, PROMPT, update, **fields).token_ids_T
    assert set(sampled.versions_T) == {4}


def test_without_servers_the_wait_ends_and_says_why(tiny: Path, double: SglangDouble) -> None:
    """Bug prevented: a wait without an end."""
    engine = SglangEngine(
        [double.url], tiny, limits=Limits(reply_s=30, server_s=0.5, probe_every_s=0.1)
    )
    ticket = engine.submit(PROMPT, Sampling(max_tokens=1500, ignore_end=True), lambda token: None)
    until(lambda: double.num_running)
    double.kill()
    with pytest.raises(EngineError, match=r"no server answered.*127\.0\.0\.1"):
        ticket.future.result(20)
    double.restart()
    until(lambda: engine.stats()["servers"][0]["alive"])
    assert run(engine, PROMPT, max_tokens=3).token_ids_T
    engine.close()


def test_an_abort_that_is_not_ours_is_made_good(engine: SglangEngine, double: SglangDouble) -> None:
    """Bug prevented: a server's own abort taken for the end of the reply."""
    for streamed in (True, False):
        double.abort_after, double.token_delay_s = 7, 0.002
        ticket = engine.submit(
            PROMPT,
            Sampling(max_tokens=30, ignore_end=True, temperature=0),
            (lambda token: None) if streamed else None,
        )
        sampled = ticket.future.result(30)
        assert sampled.finish_reason == "length" and len(sampled.token_ids_T) == 30
        first, second = double.bodies[-2:]
        taken = len(second["input_ids"]) - len(PROMPT)
        assert 7 <= taken < 30
        assert second["input_ids"] == [*PROMPT, *sampled.token_ids_T[:taken]]
        assert second["sampling_params"]["max_new_tokens"] == 30 - taken
        assert (
            second["sampling_params"]["sampling_seed"] == first["sampling_params"]["sampling_seed"]
        )


def test_a_schema_is_not_taken_up_half_way(engine: SglangEngine, double: SglangDouble) -> None:
    """Bug prevented: an object begun inside an object after a server was lost."""
    double.abort_after, double.token_delay_s = 5, 0.002
    schema = '{"type": "array", "items": {"type": "integer"}, "minItems": 20, "maxItems": 20}'
    sampling = Sampling(max_tokens=400, json_schema=schema, seed=1)
    sampled = engine.submit(PROMPT, sampling).future.result(30)
    assert [body["input_ids"] for body in double.bodies] == [PROMPT, PROMPT]
    assert sampled.finish_reason in ("stop", "length") and len(sampled.token_ids_T) > 20
    double.abort_after = 5
    told: list[Token] = []
    with pytest.raises(EngineError, match="schema"):
        engine.submit(PROMPT, sampling, told.append).future.result(30)


def test_half_an_update_is_never_served(
    two: tuple[SglangEngine, list[SglangDouble]], tiny: Path, tmp_path: Path
) -> None:
    """Bug prevented: a server that failed while it copied goes on with a mixture of weights."""
    engine, doubles = two
    for double in doubles:
        double.refuse["/update_weights_from_disk"] = "Failed to update weights: no memory"
    with pytest.raises(EngineError, match="no memory"):
        engine.load(changed(tiny, tmp_path, 1), 1)
    assert not any(server["alive"] for server in engine.stats()["servers"])
    for double in doubles:
        double.refuse.clear()
    until(lambda: all(server["alive"] for server in engine.stats()["servers"]))
    assert [double.model_path for double in doubles] == [str(tiny)] * 2
    assert set(run(engine, PROMPT, max_tokens=3).versions_T) == {0}


def test_close_fails_what_is_open(tiny: Path, double: SglangDouble) -> None:
    double.token_delay_s = 0.01
    engine = SglangEngine([double.url], tiny, limits=LIMITS)
    ticket = engine.submit(PROMPT, Sampling(max_tokens=1500, ignore_end=True))
    until(lambda: double.num_running)
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        ticket.future.result(10)
    for call in (lambda: engine.submit(PROMPT, Sampling()), engine.pause):
        with pytest.raises(EngineError, match="closed"):
            call()
    assert engine.stats()["closed"]
    until(lambda: double.num_running == 0)


# adapters


def adapter(folder: Path, seed: int) -> Path:
    """A LoRA adapter on the tiny model, in peft's layout."""
    folder.mkdir()
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    draw = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in range(2):
        for name, width in (("q_proj", 64), ("v_proj", 32)):
            stem = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            tensors[f"{stem}.lora_A.weight"] = torch.randn(4, 64, generator=draw)
            tensors[f"{stem}.lora_B.weight"] = torch.randn(width, 4, generator=draw)
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder


def test_an_adapters_new_version_leaves_replies_in_flight_alone(
    engine: SglangEngine, double: SglangDouble, tmp_path: Path
) -> None:
    """Bug prevented: an unloaded name that the server loads again from its old path."""
    double.token_delay_s = 0.003
    engine.load_adapter("ann", adapter(tmp_path / "1", 1), 1)
    stream = Stream(engine, PROMPT, max_tokens=80, ignore_end=True, adapter="ann")
    until(lambda: len(stream.tokens) > 5)
    engine.load_adapter("ann", adapter(tmp_path / "2", 2), 2)
    assert engine.adapters() == {"ann": 2}
    newer = run(engine, PROMPT, max_tokens=5, ignore_end=True, adapter="ann")
    assert set(newer.versions_T) == {2}
    assert not stream.ticket.future.done() and len(double.lora_paths) == 2
    assert set(stream.result().versions_T) == {1}
    until(lambda: list(double.lora_paths) == ["ann@2.2"])
    scored = engine.score([PROMPT], adapter="ann").result(30)
    assert scored != engine.score([PROMPT]).result(30)
    with pytest.raises(EngineError, match="older"):
        engine.load_adapter("ann", tmp_path / "1", 1)
    with pytest.raises(EngineError, match="peft"):
        engine.load_adapter("bob", tmp_path, 1)
    cut = engine.submit(PROMPT, Sampling(max_tokens=500, ignore_end=True, adapter="ann"))
    until(lambda: double.num_running)
    engine.unload_adapter("ann")
    engine.unload_adapter("ann")
    with pytest.raises(EngineError, match="unloaded"):
        cut.future.result(10)
    until(lambda: not double.lora_paths)
    assert not double.lora_paths and engine.adapters() == {}
    with pytest.raises(RequestRefused, match="not loaded"):
        run(engine, PROMPT, adapter="ann")


def test_a_server_that_comes_back_has_the_adapters(
    engine: SglangEngine, double: SglangDouble, tmp_path: Path
) -> None:
    engine.load_adapter("ann", adapter(tmp_path / "1", 1), 1)
    double.kill()
    double.restart()
    assert set(run(engine, PROMPT, max_tokens=3, adapter="ann").versions_T) == {1}
    assert double.lora_paths


def test_a_server_started_again_unseen_is_found_out(
    double: SglangDouble, tiny: Path, tmp_path: Path
) -> None:
    """Bug prevented: dead and back between two probes, a server serves its first weights."""
    limits = Limits(reply_s=60, server_s=20, probe_every_s=1)
    engine = SglangEngine([double.url], tiny, limits=limits)
    engine.load(changed(tiny, tmp_path, 3), 3)
    for fields in ({"max_tokens": 5}, {"max_tokens": 5, "temperature": 0.5}):
        double.kill()
        double.restart()
        assert double.told_version == "default"
        assert set(run(engine, PROMPT, **fields).versions_T) == {3}
    assert engine.stats()["evictions"] == 2
    engine.close()


# joining


def test_keys_and_options(tiny: Path) -> None:
    with SglangDouble(tiny, api_key="user", admin_key="root", weight_version="7") as double:
        with pytest.raises(ModelError, match="key"):
            SglangEngine([double.url], tiny, limits=LIMITS)
        options = EngineOptions(max_len=128)
        engine = SglangEngine([double.url], tiny, options, "user", "root", LIMITS)
        assert engine.version == 7 and engine.max_len == 128
        assert engine.can == {"adapters", "top_logprobs", "json_schema"}
        assert set(run(engine, PROMPT, max_tokens=2).versions_T) == {7}
        engine.pause()
        engine.resume()
        engine.close()


def test_part_of_unknown_weights_is_refused(tiny: Path, tmp_path: Path) -> None:
    """Bug prevented: an update merged with weights the servers no longer have."""
    with SglangDouble(tiny, weight_version="7") as double:
        engine = SglangEngine([double.url], tiny, limits=LIMITS)
        state = load_file(tiny / "model.safetensors")
        name = next(iter(state))
        with pytest.raises(EngineError, match="Publish all tensors"):
            engine.load(weights.publish({name: state[name]}, tmp_path, 8), 8)
        engine.load(changed(tiny, tmp_path, 8), 8)
        engine.load(weights.publish({name: state[name]}, tmp_path, 9), 9)
        assert engine.version == 9
        engine.close()


def test_build_engine_by_option_or_environment(
    tiny: Path, double: SglangDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelError, match="sglang_url="):
        build_engine("sglang", tiny)
    with pytest.raises(ModelError, match="does not take sglang_url="):
        build_engine("torch", tiny, sglang_url=double.url)
    engine = build_engine("sglang", tiny, sglang_url=f"{double.url}, {double.url}/")
    assert len(engine.stats()["servers"]) == 1
    engine.close()
    monkeypatch.setenv("SGLANG_URL", double.url)
    build_engine("sglang", tiny).close()


def test_no_server_at_start(tiny: Path) -> None:
    with pytest.raises(ModelError, match="no SGLang server answered"):
        SglangEngine(["http://127.0.0.1:9"], tiny, limits=Limits(server_s=0.3))


# routing


def test_a_session_and_a_group_stay_at_one_server() -> None:
    """Bug prevented: each turn's prompt computed from its start at another server."""
    table = PrefixTable()
    system = list(range(5 * BLOCK))
    running = {0: 0, 1: 0, 2: 0}
    homes = set()
    for user in range(30):
        turn = [*system, *([1000 + user] * 6 * BLOCK)]
        home = table.place(turn, running)
        homes.add(home)
        running[home] += 1
        for _ in range(5):
            turn += [7] * 2 * BLOCK
            assert table.place(turn, running) == home
    assert homes == {0, 1, 2}  # the shared system prompt alone does not gather them
    group = [99] * 40
    assert len({table.place(group, {0: 1, 1: 0, 2: 3}) for _ in range(8)}) == 1


def test_a_server_far_busier_gets_no_more() -> None:
    table = PrefixTable()
    prompt = [1] * 4 * BLOCK
    home = table.place(prompt, {0: 0, 1: 0})
    assert table.place(prompt, {home: 40, 1 - home: 2}) == 1 - home
    table.forget(0)
    table.forget(1)
    assert table.place(prompt, {0: 1, 1: 0}) == 1


def test_sessions_meet_their_server(two: tuple[SglangEngine, list[SglangDouble]]) -> None:
    engine, doubles = two
    for user in range(4):
        prompt = [100 + user] * 64
        for _ in range(3):
            prompt += [*run(engine, prompt, max_tokens=8, ignore_end=True).token_ids_T, 9, 9]
        homes = [{body["input_ids"][0] for body in double.bodies} for double in doubles]
        assert (100 + user in homes[0]) != (100 + user in homes[1])


def test_many_threads_submit_at_once(engine: SglangEngine) -> None:
    """Bug prevented: a submit that needs the caller's own event loop, or blocks."""
    results: list[Generation] = []

    def use(i: int) -> None:
        results.append(run(engine, [5 + i, 6, 7], max_tokens=4, ignore_end=True))

    threads = [threading.Thread(target=use, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [len(result.token_ids_T) for result in results] == [4] * 12
