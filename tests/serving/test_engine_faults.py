"""What one caller does wrong never reaches the engine's thread nor another caller's request."""

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest
import torch

from serving import weights
from serving.embedded.engine import TorchEngine
from serving.embedded.scoring import ScoreJob
from serving.engine import EngineOptions
from serving.errors import EngineError, RequestRefused
from serving.types import MIN_TEMPERATURE, Sampling

from .conftest import WAIT_S

PROMPT = list(range(3, 60))
LONG = [[5] * 1000] * 6  # six batches to score


def test_a_cancelled_score_leaves_the_engine_alive(engine: TorchEngine) -> None:
    """Bug prevented: setting the result of a cancelled future killed the thread."""
    assert engine.score(LONG).cancel()
    assert engine.score([PROMPT]).result(WAIT_S)
    assert engine.submit(PROMPT, Sampling(max_tokens=2)).future.result(WAIT_S).token_ids_T
    assert engine.stats()["closed"] is False


def test_closing_fails_scores_that_are_queued(engine: TorchEngine) -> None:
    """Bug prevented: a score nobody would ever run, waited for without end."""
    future = engine.score(LONG)
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        future.result(WAIT_S)
    assert engine.stats()["closed"] is True


class Killed(BaseException):
    """Not an Exception: nothing in the engine catches it."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_thread_refuses_and_fails_what_waits(engine: TorchEngine) -> None:
    """Bug prevented: requests hang on an engine whose thread has ended, health says ready."""

    def die(*_: object) -> None:
        raise Killed

    waiting = [engine.submit(PROMPT, Sampling(max_tokens=1500, ignore_end=True))]
    waiting.append(engine.submit(PROMPT, Sampling(max_tokens=9), die))
    for ticket in waiting:
        with pytest.raises(EngineError, match="closed"):
            ticket.future.result(WAIT_S)
    engine._thread.join(60)
    assert engine.stats()["closed"] is True
    for ask in (lambda: engine.submit(PROMPT, Sampling()), lambda: engine.score([PROMPT])):
        with pytest.raises(EngineError, match="closed"):
            ask()
    with pytest.raises(EngineError, match="closed"):
        engine.pause()


@pytest.mark.parametrize(
    "temperature", [1e-39, 1e-42, MIN_TEMPERATURE / 2, -1.0, float("nan"), float("inf")]
)
def test_temperatures_that_overflow_are_refused(engine: TorchEngine, temperature: float) -> None:
    """Bug prevented: logits / 1e-39 are infinite; the NaN failed every request in flight."""
    for ask in (
        lambda: engine.submit(PROMPT, Sampling(temperature=temperature)),
        lambda: engine.score([PROMPT], temperature),
    ):
        with pytest.raises(RequestRefused) as caught:
            ask()
        assert caught.value.field == "temperature"


def test_the_least_temperature_still_samples(engine: TorchEngine) -> None:
    """Bug prevented: a bound under which numbers still overflow."""
    sampling = Sampling(max_tokens=8, temperature=MIN_TEMPERATURE, ignore_end=True)
    sampled = engine.submit(PROMPT, sampling).future.result(WAIT_S)
    scores = engine.score([PROMPT], MIN_TEMPERATURE).result(WAIT_S)[0]
    assert all(torch.tensor([*sampled.logprobs_T, *scores]).isfinite())


def test_requests_cancelled_while_paused_end(engine: TorchEngine) -> None:
    """Bug prevented: abandoned requests kept until the engine is resumed."""
    begun = threading.Event()
    running = engine.submit(
        PROMPT, Sampling(max_tokens=1900, ignore_end=True), lambda *_: begun.set()
    )
    assert begun.wait(60)
    engine.pause()
    queued = engine.submit(PROMPT, Sampling(max_tokens=5))
    for ticket in (running, queued):
        ticket.cancel()
        assert ticket.future.result(WAIT_S).finish_reason == "cancelled"
    assert engine.stats()["paused"] is True


def test_a_failing_callback_fails_its_request_alone(engine: TorchEngine) -> None:
    """Bug prevented: one closed stream fails all requests in flight."""

    def burst(*_: object) -> None:
        raise ValueError("burst")

    good = [
        engine.submit(PROMPT, Sampling(max_tokens=300, seed=i, ignore_end=True)) for i in range(2)
    ]
    bad = engine.submit(PROMPT, Sampling(max_tokens=300, ignore_end=True), burst)
    with pytest.raises(EngineError, match="burst"):
        bad.future.result(WAIT_S)
    assert [len(ticket.future.result(WAIT_S).token_ids_T) for ticket in good] == [300, 300]
    assert engine.stats()["failed"] == 1


@pytest.fixture
def shifted(engine: TorchEngine, tmp_path: Path) -> Iterator[Path]:
    name = "model.layers.1.mlp.down_proj.weight"
    yield weights.publish({name: engine._model.params[name] + 0.5}, tmp_path, 1)


def test_scores_come_of_one_version(engine: TorchEngine, shifted: Path) -> None:
    """Bug prevented: a load between two batches, the first half scored by the old weights."""
    job = ScoreJob(LONG, 1.0)
    assert job.run(engine._model, 0)
    engine.load(shifted, 1)
    assert not job.run(engine._model, 1)
    wanted = engine.score([LONG[0]]).result(WAIT_S)[0]
    for scores in job.future.result(0):
        assert scores == pytest.approx(wanted, abs=1e-4)


def test_a_cancelled_score_computes_nothing_more(engine: TorchEngine) -> None:
    """Bug prevented: batches scored for a client that has left."""
    job = ScoreJob(LONG, 1.0)
    assert job.run(engine._model, 0)
    job.future.cancel()
    assert not job.run(engine._model, 0)
    with pytest.raises(CancelledError):
        job.future.result(0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_slots", 0),
        ("max_slots", 100_000_000),
        ("prefill_tokens", 0),
        ("cached_slots", -1),
        ("threads", 10**9),
        ("max_len", 1),
    ],
)
def test_options_that_cannot_work_are_refused(field: str, value: int) -> None:
    """Bug prevented: an engine that hangs without slots, or asks for all memory."""
    with pytest.raises(ValueError, match=rf"{field} must be .* not {value}"):
        EngineOptions(**{field: value})


def test_an_unknown_kind_of_weights_is_refused() -> None:
    with pytest.raises(ValueError, match="fp32 or int8, not 'int4'"):
        EngineOptions(weights="int4")
