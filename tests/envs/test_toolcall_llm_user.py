"""A model behind a URL plays the user of a tool-call task; verdicts stay with the rules."""

from collections.abc import Iterator

import pytest

from envs.errors import EnvError
from envs.toolcall.action import Action
from envs.toolcall.env import ToolCallEnv
from envs.toolcall.llm_user import LEAVES
from envs.toolcall.tasks import load_tasks
from envs.types import Task
from envs.voice import USER_URL, Voice
from tests.envs.voice_server import Server, answering, message

ASK = Action("Which order do you mean?").to_text()


@pytest.fixture
def server() -> Iterator[Server]:
    with answering() as server:
        yield server


def asking() -> Task:
    """A task whose user knows something, wants two things, and is told something."""
    tasks = [task for task in load_tasks() if task.data.get("told")]
    return next(task for task in tasks if task.data["user"].get("facts"))


def test_the_model_is_told_the_plan_and_its_words_are_heard(server: Server) -> None:
    """Bug prevented: a user who does not know what it wants, or tells it to the agent at once."""
    task = asking()
    env = ToolCallEnv([task], voice=Voice(server.url))
    seen, _ = env.reset(seed=1)
    server.answer = message("The newest one.")
    heard, _, terminated, _, info = env.step(ASK)
    assert (heard["message"], info["move"], terminated) == ("The newest one.", "answer", False)
    system, asked = server.asked[0]["messages"]
    for fact in task.data["user"]["facts"]:
        assert fact["says"] in system["content"]
        assert fact["says"] not in seen["message"]
    assert seen["message"] in asked["content"] and "Which order" in asked["content"]
    env.step(ASK)
    assert (
        asked["content"].split("The next message")[0].strip()
        in (server.asked[1]["messages"][1]["content"])
    )
    env.close()


def test_the_user_leaves_with_a_word_and_rules_judge(server: Server) -> None:
    """Bug prevented: a goodbye of the model's that counts as success."""
    env = ToolCallEnv([asking()], voice=Voice(server.url))
    env.reset(seed=1)
    server.answer = message(f"Thank you. {LEAVES}")
    heard, reward, terminated, truncated, info = env.step(ASK)
    assert (heard["message"], reward, terminated, truncated) == ("Thank you.", 0.0, True, False)
    assert not info["verdict"].solved
    env.close()


def test_the_tasks_own_solution_is_right_whatever_the_model_says(server: Server) -> None:
    """Bug prevented: a verdict that depends on the model's words."""
    task = asking()
    env = ToolCallEnv([task], voice=Voice(server.url))
    env.reset(seed=1)
    server.answer = message("All right.")
    for action in env.oracle(task):
        env.step(action)
    assert env.grade().solved
    env.close()


def test_an_outage_is_no_reward(server: Server) -> None:
    server.status = 500
    env = ToolCallEnv([asking()], voice=Voice(server.url))
    env.reset(seed=1)
    with pytest.raises(EnvError, match="500"):
        env.step(ASK)
    env.close()


def test_silence_needs_no_model_and_the_variable_names_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(USER_URL, server.url)
    env = ToolCallEnv([asking()])
    env.reset(seed=1)
    heard, _, _, _, info = env.step(Action("").to_text())
    assert heard["message"] and info["move"] == "ask_again" and not server.asked
    env.step(ASK)
    assert len(server.asked) == 1
    env.close()
