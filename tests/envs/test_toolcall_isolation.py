"""Tools that never return, crash or die: contained, named, and the world as it was before."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from envs.errors import SetupError
from envs.toolcall.action import Action, call
from envs.toolcall.env import ToolCallEnv
from envs.toolcall.failures import FailureKind
from envs.toolcall.isolation import MAX_RESULT_CHARS, IsolatedWorld
from envs.toolcall.world import ToolError
from envs.toolcall.worlds import table
from envs.types import Task

PATH = "tests.envs.toolcall_worlds:BadWorld"


@pytest.fixture
def world() -> Iterator[IsolatedWorld]:
    with closing(IsolatedWorld(PATH, {"start": 10}, timeout_s=10.0)) as made:
        yield made


def failure(world: IsolatedWorld, name: str) -> tuple[FailureKind, str]:
    with pytest.raises(ToolError) as caught:
        world.call(name, {})
    return caught.value.kind, caught.value.message


def test_calls_go_through(world: IsolatedWorld) -> None:
    assert "count" in world.tools and world.policy == "Count."
    assert [world.call("count", {}) for _ in range(2)] == [11, 12]
    assert world.state() == {"count": 12}


@pytest.mark.parametrize("name", ["sleep", "spin"])
def test_a_tool_that_never_returns_is_ended_and_nothing_was_done(name: str) -> None:
    with closing(IsolatedWorld(PATH, {"start": 10}, timeout_s=4.0)) as world:
        world.call("count", {})
        kind, message = failure(world, name)
        assert kind is FailureKind.TIMED_OUT and "within 4 s" in message
        assert world.state() == {"count": 11}
        assert world.call("count", {}) == 12


@pytest.mark.parametrize(("name", "words"), [("crash", "boom"), ("die", "broke"), ("odd", "JSON")])
def test_a_tool_that_crashes_is_named(world: IsolatedWorld, name: str, words: str) -> None:
    world.call("count", {})
    kind, message = failure(world, name)
    assert kind is FailureKind.TOOL_ERROR and words in message
    assert world.state() == {"count": 11}


def test_a_refusal_is_the_tools_own_and_stays(world: IsolatedWorld) -> None:
    assert failure(world, "refuse") == (FailureKind.TOOL_ERROR, "no")
    assert world.violations == ("asked",) and world.state() == {"count": 11}


def test_a_huge_result_is_cut_before_it_travels(world: IsolatedWorld) -> None:
    assert len(world.call("huge", {})) <= MAX_RESULT_CHARS


def test_a_world_that_does_not_start_is_an_error_of_the_world() -> None:
    with pytest.raises(SetupError, match="start"):
        IsolatedWorld(PATH, {}, 1.0)
    with pytest.raises(SetupError, match="nowhere"):
        IsolatedWorld("nowhere:World", {}, 1.0)


def test_closing_twice_is_harmless_and_ends_the_process() -> None:
    world = IsolatedWorld(PATH, {"start": 0}, 1.0)
    world.close()
    world.close()
    with pytest.raises((SetupError, OSError)):
        world.state()


def test_an_episode_survives_a_tool_that_never_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table.WORLDS, "bad", "tests.envs.toolcall_worlds:BadWorldApart")
    data = {
        "world": "bad",
        "start": 0,
        "user": {"opening": "Count once."},
        "oracle": [{"tool_calls": [{"name": "count", "arguments": {}}]}, {"content": "Done."}],
    }
    task = Task("toolcall/bad/0", "toolcall", "bad", "train", "Count once.", image="", data=data)
    with closing(ToolCallEnv([task])) as env:
        env.reset()
        *_, info = env.step(call("spin").to_text())
        assert info["num_failures"] == {"timed_out": 1} and info["process"][0]["valid"]
        env.step(call("count").to_text())
        assert env.step(Action("Done.").to_text())[1] == 1.0
