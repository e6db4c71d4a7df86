"""Several SGLang servers behind one engine: doubles that join, fail, die and come back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file

from serving import weights
from serving.engine import EngineOptions
from serving.engines import build_engine
from serving.errors import EngineError, ModelError
from serving.sglang.engine import SglangEngine
from serving.sglang.fleet import Limits
from serving.sglang.routing import BLOCK, PrefixTable
from serving.types import Sampling, Token

from .conftest import WAIT_S
from .sglang_cases import LIMITS, PROMPT, Stream, adapter, changed, own, run, until
from .sglang_double import SglangDouble
from .sglang_protocol import CHECKS, check_protocol


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


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("name", CHECKS)
def test_the_double_does_as_the_server_does(tiny: Path, name: str, incremental: bool) -> None:
    """Bug prevented: an engine that only works against our idea of the server."""
    with SglangDouble(tiny, incremental=incremental, token_delay_s=0.005) as double:
        check_protocol(double.url, tiny, name)


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
    assert [len(ticket.future.result(WAIT_S).token_ids_T) for ticket in tickets] == [60] * 4


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
        sampled = ticket.future.result(WAIT_S)
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
    sampled = engine.submit(PROMPT, sampling).future.result(WAIT_S)
    assert [body["input_ids"] for body in double.bodies] == [PROMPT, PROMPT]
    assert sampled.finish_reason in ("stop", "length") and len(sampled.token_ids_T) > 20
    double.abort_after = 5
    told: list[Token] = []
    with pytest.raises(EngineError, match="schema"):
        engine.submit(PROMPT, sampling, told.append).future.result(WAIT_S)


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
        double.model_path = "/elsewhere"
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
