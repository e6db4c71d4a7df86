"""Fixtures shared by all tests. Without an engine a docker test fails with the remedy: a skip
would let a broken sandbox pass unseen."""

import os
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import settings

# The same examples every time, so that a failure means a change; new ones are looked for with
# HYPOTHESIS_PROFILE=explore.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

collect_ignore = ["data"]  # tasks bring tests of their own, which are no tests of ours


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kills", type=int, default=3, help="kill -9 of a live run, in the test that does so"
    )


@pytest.fixture(scope="session")
def terminal_image() -> str:
    """The terminal family's image, built when it is missing; fails with the remedy if it cannot."""
    from envs.errors import MissingDependency
    from envs.images import ensure

    try:
        return ensure("terminal")
    except MissingDependency as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def state(tmp_path, monkeypatch) -> Iterator[None]:
    """Leases and snapshots in a folder of the test's own."""
    monkeypatch.setenv("CLAWGYM_STATE", str(tmp_path / "state"))
    yield


@pytest.fixture
def run_id() -> Iterator[str]:
    """A run of the test's own; whatever it left is removed afterwards."""
    from envs.sandbox.reaper import reap

    name = f"test-{uuid.uuid4().hex[:8]}"
    yield name
    reap(name, force=True)
