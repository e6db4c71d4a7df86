"""A model behind a URL plays the user: its words reach the assistant, its outage no reward."""

import random
import time
from collections.abc import Iterator

import pytest

from envs.chat.criteria import find
from envs.chat.env import ChatEnv
from envs.chat.llm_user import LLMUser, prompt
from envs.chat.personas import find as find_persona
from envs.chat.request import Request
from envs.chat.session import Move, RulesUser, Situation
from envs.errors import EnvError
from envs.voice import USER_URL
from tests.envs.test_chat import BOLD, GOOD, NEXT, QUESTION, session
from tests.envs.voice_server import Server, answering, message


@pytest.fixture
def server() -> Iterator[Server]:
    with answering() as server:
        yield server


def env_of(user: LLMUser, *requests: Request) -> ChatEnv:
    env = ChatEnv([session(*requests)], user=user)
    env.reset(seed=2)
    return env


def test_its_words_are_the_observation_and_the_rules_still_judge(server: Server) -> None:
    env = env_of(LLMUser(server.url, "m", "secret"))
    seen, reward, *_, info = env.step(BOLD)
    assert seen["message"] == "Please, no bold."
    assert reward == pytest.approx(2 / 3) and info["violated"] == ("no_bold",)
    asked = server.asked[0]
    assert (asked["path"], asked["model"]) == ("/v1/chat/completions", "m")
    text = asked["messages"][1]["content"]
    assert "Write without any bold text." in text
    assert QUESTION.text in text and BOLD in text
    assert server.keys == ["Bearer secret"]


def test_questions_are_asked_word_by_word(server: Server) -> None:
    server.answer = message(" Good. And now: \n")
    seen, *_ = env_of(LLMUser(server.url), QUESTION, NEXT).step(GOOD)
    assert seen["message"] == f"Good. And now: {NEXT.text}"
    assert NEXT.text not in server.asked[0]["messages"][1]["content"]


@pytest.mark.parametrize(
    ("status", "answer", "says"),
    [
        (500, b"out of memory", "answered 500: out of memory"),
        (200, b"<html>", "answered no message"),
        (200, b'{"choices": []}', "answered no message"),
        (200, message(None), "empty message"),
        (200, message("  "), "empty message"),
        (200, message("x" * (1 << 20)), "answered over"),
    ],
)
def test_an_answer_that_is_no_message_is_an_error(
    server: Server, status: int, answer: bytes, says: str
) -> None:
    server.status, server.answer = status, answer
    with pytest.raises(EnvError, match=says):
        env_of(LLMUser(server.url)).step(BOLD)


def test_a_silent_and_a_dripping_server_are_given_up_in_time(server: Server) -> None:
    """Bug prevented: a time-out per read lets a server that sends a byte now and then hold on."""
    server.drip = True
    began = time.monotonic()
    with pytest.raises(EnvError, match=r"did not answer in 0\.5 s"):
        env_of(LLMUser(server.url, timeout_s=0.5)).step(BOLD)
    server.drip, server.wait_s = False, 1.0
    with pytest.raises(EnvError, match=r"did not answer in 0\.5 s"):
        env_of(LLMUser(server.url, timeout_s=0.5)).step(BOLD)
    assert time.monotonic() - began < 20


def test_a_server_that_is_not_there_is_an_error() -> None:
    with pytest.raises(EnvError, match="cannot be reached"):
        env_of(LLMUser("http://127.0.0.1:9/v1")).step(BOLD)
    with pytest.raises(EnvError, match="cannot be reached"):
        env_of(LLMUser("no url")).step(BOLD)


@pytest.mark.parametrize("move", list(Move))
def test_every_move_has_a_prompt_in_the_users_language(move: Move) -> None:
    persona = find_persona("gardener_de")
    situation = Situation(
        persona, move, (find("language(de)"),), corrections=("No.",), question="Q?"
    )
    system, asked = prompt(situation)
    assert "in German" in system["content"]
    assert "Q?" not in asked["content"] and persona.name not in asked["content"]
    assert RulesUser().say(situation, random.Random(0))


def test_the_environment_variable_names_the_url(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(USER_URL, server.url)
    monkeypatch.setenv("CLAWGYM_USER_MODEL", "big")
    env = ChatEnv([session()])
    env.reset(seed=1)
    env.step(BOLD)
    assert server.asked[0]["model"] == "big"
    assert "hidden" not in repr(LLMUser("u", api_key="hidden"))
