"""The SGLang engine against a double of its server, whose tokens are real."""

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from serving import weights
from serving.conformance import check_engine
from serving.engine import EngineOptions
from serving.errors import ContextOverflow, EngineError, RequestRefused
from serving.sglang.engine import SglangEngine
from serving.types import Generation, Sampling, Token

from .conftest import WAIT_S
from .sglang_cases import LIMITS, PROMPT, Stream, adapter, changed, own, run, until
from .sglang_double import SglangDouble

LACKING = {
    "logprobs_equal_score_at_other_temperatures": "a prompt's log-probs are of temperature 1 only"
}


@pytest.fixture
def double(tiny: Path) -> Iterator[SglangDouble]:
    with SglangDouble(tiny) as double:
        yield double


@pytest.fixture
def engine(tiny: Path, double: SglangDouble) -> Iterator[SglangEngine]:
    engine = SglangEngine([double.url], tiny, limits=LIMITS)
    yield engine
    engine.close()


def test_it_conforms(tiny: Path) -> None:
    """The contract every engine obeys, asked over the server's protocol."""
    with contextlib.ExitStack() as doubles:

        def make() -> SglangEngine:
            double = doubles.enter_context(SglangDouble(tiny, token_delay_s=0.001))
            return SglangEngine([double.url], tiny, EngineOptions(max_len=1024), limits=LIMITS)

        check_engine(make, tiny, lacking=LACKING).raise_if_failed()


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
        ({"json_schema": "{"}, "response_format"),
        ({"json_schema": '{"properties": {"a": {"type": "nonsense"}}}'}, "response_format"),
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
    wanted = double.engine.score(rows).result(WAIT_S)
    scored = engine.score(rows).result(WAIT_S)
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
        ticket.future.result(WAIT_S)
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
    assert stream.result().finish_reason == waiting.future.result(WAIT_S).finish_reason == "length"


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


# adapters


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
    scored = engine.score([PROMPT], adapter="ann").result(WAIT_S)
    assert scored != engine.score([PROMPT]).result(WAIT_S)
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
