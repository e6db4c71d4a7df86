"""A tiny real model, its engine and its server, shared by the tests of serving."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.embedded.engine import TorchEngine
from serving.engine import EngineOptions
from serving.models import resolve
from serving.renderer import Renderer
from serving.server import PolicyServer

WAIT_S = 300  # for any answer: a machine with other work may take a hundred times as long
OPTIONS = EngineOptions(threads=1, max_slots=8, cached_slots=8, prefill_tokens=64)


@pytest.fixture(scope="session")
def tiny() -> Path:
    return resolve("tiny")


@pytest.fixture(scope="session")
def smollm() -> Path:
    return resolve("smollm2-135m")


@pytest.fixture
def engine(tiny: Path) -> Iterator[TorchEngine]:
    engine = TorchEngine(tiny, OPTIONS)
    yield engine
    engine.close()


@pytest.fixture
def renderer(tiny: Path) -> Renderer:
    return Renderer(tiny)


@pytest.fixture
def server(engine: TorchEngine, renderer: Renderer) -> Iterator[PolicyServer]:
    with PolicyServer(engine, renderer, api_key="secret", model_name="tiny") as server:
        yield server
