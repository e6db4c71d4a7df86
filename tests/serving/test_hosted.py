"""A server in its engine's event loop: one thread from the request to the engine and back."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from serving.engine import EngineOptions, Host
from serving.errors import EngineError
from serving.renderer import Renderer
from serving.server import PolicyServer
from serving.sglang.engine import SglangEngine

from .sglang_cases import LIMITS
from .sglang_double import SglangDouble

KEY = {"Authorization": "Bearer secret"}
CHAT = {"model": "default", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8}


@pytest.fixture
def engine(tiny: Path) -> Iterator[SglangEngine]:
    with SglangDouble(tiny) as double:
        engine = SglangEngine([double.url], tiny, EngineOptions(max_len=512), limits=LIMITS)
        yield engine
        engine.close()


def _post(url: str, stream: bool = False) -> requests.Response:
    body = {**CHAT, "stream": stream}
    return requests.post(f"{url}/v1/chat/completions", json=body, headers=KEY, timeout=30)


def test_requests_are_answered_in_the_engines_thread(engine: SglangEngine, tiny: Path) -> None:
    """Two loops under one interpreter lock gave 0.7 of the requests per second."""
    assert isinstance(engine, Host)
    seen: set[str] = set()
    submit = engine.submit
    engine.submit = lambda *given: (  # type: ignore[method-assign]
        seen.add(threading.current_thread().name) or submit(*given)  # type: ignore[func-returns-value]
    )
    with PolicyServer(engine, Renderer(tiny), api_key="secret") as server:
        assert _post(server.base_url).status_code == 200
        assert _post(server.base_url, stream=True).text.rstrip().endswith("[DONE]")
    assert seen == {"sglang-engine"}


def test_a_closed_engine_leaves_its_server_able_to_say_so(engine: SglangEngine, tiny: Path) -> None:
    """Bug prevented: the loop ends with the engine, and every client hangs."""
    with PolicyServer(engine, Renderer(tiny), api_key="secret") as server:
        assert _post(server.base_url).status_code == 200
        engine.close()
        answer = _post(server.base_url)
        assert answer.status_code == 500
        assert "closed" in answer.json()["error"]["message"]
        assert requests.get(f"{server.base_url}/health/live", timeout=30).status_code == 200
        assert requests.get(f"{server.base_url}/health/ready", timeout=30).status_code == 503
    until = time.monotonic() + 30
    while any(thread.name == "sglang-engine" for thread in threading.enumerate()):
        assert time.monotonic() < until, "the loop went on after its last guest"
        time.sleep(0.05)


def test_a_server_stops_and_another_takes_its_place(engine: SglangEngine, tiny: Path) -> None:
    for _ in range(2):
        with PolicyServer(engine, Renderer(tiny), api_key="secret") as server:
            assert _post(server.base_url).status_code == 200
        with pytest.raises(requests.ConnectionError):
            _post(server.base_url)


def test_a_closed_engine_hosts_nobody(engine: SglangEngine) -> None:
    engine.close()

    async def work() -> None: ...

    with pytest.raises(EngineError, match="closed"):
        engine.host(work())


def test_blocking_calls_from_the_loop_fail_instead_of_hanging(engine: SglangEngine) -> None:
    """``pause`` waits for the loop; called in it, it would wait for itself."""

    async def work() -> None:
        engine.pause()

    with pytest.raises(RuntimeError, match="thread of its own"):
        engine.host(work()).result(10)
