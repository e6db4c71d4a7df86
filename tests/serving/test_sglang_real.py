"""The SGLang engine against the real server, which ``scripts/sglang`` starts on this machine.

Opt-in: the server's environment is several GB. ``scripts/sglang setup`` makes it; then
``pytest -m sglang``.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from serving import weights
from serving.conformance import Terms, check_engine
from serving.engine import EngineOptions
from serving.errors import EngineError
from serving.sglang.engine import SglangEngine
from serving.sglang.fleet import Limits
from serving.sglang.http import ServerRefused, SglangServer
from serving.types import Generation, Sampling, Token

from .conftest import WAIT_S
from .sglang_cases import adapter, changed, until
from .sglang_protocol import CHECKS, check_protocol
from .test_torch_engine import reference

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.sglang, pytest.mark.slow]
PROMPT = list(range(3, 90))
START_S = 600
LORA = ["--enable-lora", "--max-lora-rank", "16", "--lora-target-modules", "q_proj", "v_proj"]
LIMITS = Limits(reply_s=300, server_s=60, change_s=120)
LACKING = {
    "logprobs_equal_score_at_other_temperatures": "a prompt's log-probs are of temperature 1 only"
}
NO_SEEDS = dict.fromkeys(
    (
        "equal_seeds_give_equal_tokens",
        "stop_strings_end_the_reply",
        "pause_and_resume_lose_nothing",
        "replies_obey_a_schema",
    ),
    "it compares two replies of one seed, which servers without a GPU ignore",
)
CPU_LORA = ["--lora-backend", "torch_native"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    made = list((ROOT / ".venv-sglang").glob(".clawgym-*"))
    assert made, "scripts/sglang setup makes the real server's environment; run it first"
    flags = [*LORA, *([] if torch.cuda.is_available() else CPU_LORA)]
    process = subprocess.Popen(
        [ROOT / "scripts/sglang", "tiny", *flags],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "SGLANG_READY_S": str(START_S)},
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline().strip()
        assert line.startswith("http://"), "the server did not come up; see its output above"
        yield line
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@pytest.fixture(scope="module")
def engine(url: str, tiny: Path) -> Iterator[SglangEngine]:
    engine = SglangEngine([url], tiny, limits=LIMITS)
    yield engine
    engine.close()


def run(engine: SglangEngine, prompt: list[int], **fields: Any) -> Generation:
    return engine.submit(prompt, Sampling(**fields)).future.result(120)


def check(tiny: Path, prompt: list[int], sampled: Generation, temperature: float = 1.0) -> None:
    wanted = reference(tiny, prompt, sampled.token_ids_T, temperature)
    assert sampled.logprobs_T == pytest.approx(wanted, abs=1e-3)


@pytest.mark.parametrize("name", CHECKS)
def test_it_does_what_the_double_does(url: str, tiny: Path, name: str) -> None:
    """Bug prevented: a double that was right for another version of the server."""
    check_protocol(url, tiny, name)


def test_it_conforms(url: str, tiny: Path) -> None:
    """The whole contract; what a CPU server cannot do is named."""

    def make() -> SglangEngine:
        asyncio.run(first_weights(url, tiny))
        return SglangEngine([url], tiny, EngineOptions(max_len=1024), limits=LIMITS)

    lacking = {**LACKING, **({} if torch.cuda.is_available() else NO_SEEDS)}
    terms = Terms(tiny, tolerance=5e-3, wait_s=180)
    try:
        report = check_engine(make, terms, lacking=lacking)
        print(report)
        report.raise_if_failed()
    finally:
        asyncio.run(first_weights(url, tiny))


async def first_weights(url: str, tiny: Path) -> None:
    """Put a server back to where it started, once what was cancelled there has ended."""
    server = SglangServer(url)
    body = {"model_path": str(tiny), "weight_version": "0", "flush_cache": True}
    try:
        await server.post("/continue_generation", {})
        for attempt in range(60):
            try:
                await server.post("/update_weights_from_disk", body, 120)
                return
            except ServerRefused:  # requests are still running
                if attempt == 59:
                    raise
                await asyncio.sleep(1)
    finally:
        await server.close()


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("streamed", [False, True])
def test_logprobs_are_of_the_contracts_distribution(
    engine: SglangEngine, tiny: Path, streamed: bool, temperature: float
) -> None:
    told: list[Token] = []
    sampling = Sampling(max_tokens=20, temperature=temperature, ignore_end=True, top_logprobs=2)
    ticket = engine.submit(PROMPT, sampling, told.append if streamed else None)
    sampled = ticket.future.result(600)
    if streamed:
        assert tuple(token.id for token in told) == sampled.token_ids_T
    assert (len(sampled.token_ids_T), sampled.finish_reason) == (20, "length")
    assert [len(top) for top in sampled.tops_T] == [2] * 20
    base = engine.version
    if base == 0:
        check(tiny, PROMPT, sampled, temperature or 1.0)


def test_scores_equal_transformers(engine: SglangEngine, tiny: Path) -> None:
    assert engine.version == 0
    (scored,) = engine.score([PROMPT]).result(120)
    assert scored == pytest.approx(reference(tiny, PROMPT[:1], tuple(PROMPT[1:])), abs=1e-3)


def test_the_end_of_the_context(engine: SglangEngine) -> None:
    sampled = run(engine, [5] * (engine.max_len - 3), max_tokens=50, ignore_end=True)
    assert (sampled.finish_reason, len(sampled.token_ids_T)) == ("length", 3)
    assert len(engine.score([[5] * engine.max_len]).result(120)[0]) == engine.max_len - 1


@pytest.mark.parametrize("streamed", [False, True])
def test_cancel_frees_the_servers_slot(engine: SglangEngine, streamed: bool) -> None:
    told: list[Token] = []
    sampling = Sampling(max_tokens=1500, ignore_end=True)
    ticket = engine.submit(PROMPT, sampling, told.append if streamed else None)
    until(lambda: told if streamed else engine.stats()["running"], 60)
    time.sleep(0.5)
    ticket.cancel()
    sampled = ticket.future.result(WAIT_S)
    assert sampled.finish_reason == "cancelled" and 0 < len(sampled.token_ids_T) < 1500
    until(lambda: engine.stats()["servers"][0]["loads"][0]["num_running_reqs"] == 0, 30)


def test_pause_and_cancel(engine: SglangEngine) -> None:
    told: list[Token] = []
    sampling = Sampling(max_tokens=1500, ignore_end=True)
    ticket = engine.submit(PROMPT, sampling, told.append)
    until(lambda: told, 60)
    engine.pause()
    time.sleep(0.5)
    known = len(told)
    time.sleep(0.5)
    assert len(told) == known
    ticket.cancel()
    assert ticket.future.result(10).finish_reason == "cancelled"
    engine.resume()
    assert run(engine, PROMPT, max_tokens=3, ignore_end=True).finish_reason == "length"
    until(lambda: engine.stats()["servers"][0]["loads"][0]["num_running_reqs"] == 0, 30)


def test_an_adapter_counts(engine: SglangEngine, tmp_path: Path) -> None:
    plain = engine.score([PROMPT]).result(120)
    engine.load_adapter("ann", adapter(tmp_path / "1", 1), 1)
    engine.load_adapter("ann", adapter(tmp_path / "2", 2), 2)
    assert engine.score([PROMPT], adapter="ann").result(120) != plain
    sampled = run(engine, PROMPT, max_tokens=5, adapter="ann", ignore_end=True)
    assert set(sampled.versions_T) == {2}
    engine.unload_adapter("ann")
    assert engine.score([PROMPT]).result(120) == [pytest.approx(plain[0], abs=1e-4)]


def test_publication_under_streams(engine: SglangEngine, tiny: Path, tmp_path: Path) -> None:
    """Last, since it changes the weights: none cut, versions rise, no stale prefix is found."""
    run(engine, PROMPT, max_tokens=2)  # its prefix is in the server's cache
    tokens: list[list[Token]] = [[] for _ in range(8)]
    sampling = Sampling(max_tokens=60, ignore_end=True)
    tickets = [
        engine.submit([*PROMPT, 5 + i], sampling, told.append) for i, told in enumerate(tokens)
    ]
    until(lambda: all(len(told) > 5 for told in tokens), 300)
    engine.load(changed(tiny, tmp_path, 1, 1.5), 1)
    for ticket in tickets:
        sampled = ticket.future.result(600)
        assert len(sampled.token_ids_T) == 60 and sampled.finish_reason == "length"
        assert list(sampled.versions_T) == sorted(sampled.versions_T)
        assert (sampled.versions_T[0], sampled.versions_T[-1]) == (0, 1)
    newer = changed_model(tiny, tmp_path / "newer", 1.5)
    sampled = run(engine, PROMPT, max_tokens=10, ignore_end=True)
    check(newer, PROMPT, sampled)
    name = "model.norm.weight"
    state = load_file(newer / "model.safetensors")
    engine.load(weights.publish({name: state[name] * 2}, tmp_path, 2), 2)
    twice = changed_model(newer, tmp_path / "twice", 1.0, {name: state[name] * 2})
    check(twice, PROMPT, run(engine, PROMPT, max_tokens=10, ignore_end=True))
    bad = tmp_path / "bad.safetensors"
    bad.write_text("no weights")
    with pytest.raises(EngineError):
        engine.load(bad, 3)
    check(twice, PROMPT, run(engine, PROMPT, max_tokens=10, ignore_end=True))


def changed_model(
    source: Path, folder: Path, scale: float, other: dict[str, torch.Tensor] | None = None
) -> Path:
    """A model folder with the weights ``changed`` publishes."""
    folder.mkdir()
    for file in source.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    state = load_file(source / "model.safetensors")
    state = {name: tensor * scale if "norm" in name else tensor for name, tensor in state.items()}
    weights.publish({**state, **(other or {})}, folder, 1).rename(folder / "model.safetensors")
    return folder
