"""The agent of simulated users, and whole episodes with it."""

import asyncio

import pytest

from agents import registry
from agents.chat import SYSTEM, ChatAgent
from agents.episode import Assignment, play
from agents.protocol import ParseError
from agents.types import Episode, StopReason
from envs.chat.env import ChatEnv
from envs.chat.session import Situation
from envs.chat.tasks import load_tasks
from envs.errors import EnvError
from serving.types import Generation, Reply, Sampling
from tests.agents.worlds import TalkingPolicy

TASK = next(
    task for task in load_tasks() if task.family == "student" and len(task.data["requests"]) == 1
)


def reply(text: str) -> Reply:
    return Reply("r", text, (), Generation((1,), (0.0,), (0,), "stop"))


def run(policy: TalkingPolicy, env: ChatEnv | None = None) -> Episode:
    assignment = Assignment("e1", "g1", TASK, Sampling(seed=1), seed=4)
    return asyncio.run(play(env or ChatEnv([TASK]), ChatAgent(), policy, assignment))


def test_the_registry_gives_it_to_chat() -> None:
    assert registry.make("chat") == ChatAgent()
    assert registry.make("clawgym/Chat-v0", "fenced", False) == ChatAgent()


def test_the_conversation_opens_with_the_users_own_words() -> None:
    seen = {"message": "Hello?", "left": 0}
    assert ChatAgent().begin(TASK, seen) == [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "Hello?"},
    ]
    assert ChatAgent(system="").begin(TASK, seen) == [{"role": "user", "content": "Hello?"}]


def test_a_reply_is_the_action_and_an_empty_one_is_none() -> None:
    assert ChatAgent().parse(reply("  12. \n")) == "12."
    with pytest.raises(ParseError, match="empty"):
        ChatAgent().parse(reply(" \n"))


def test_an_oracle_episode_is_solved() -> None:
    policy = TalkingPolicy(list(ChatEnv([TASK]).oracle(TASK)))
    episode = run(policy)
    assert (episode.stop_reason, episode.reward) == (StopReason.SOLVED, 1.0)
    assert policy.heard[0][1]["content"] == TASK.instruction
    assert episode.family == "student"


def test_a_mended_reply_keeps_the_first_replys_reward() -> None:
    good = ChatEnv([TASK]).oracle(TASK)[0]
    policy = TalkingPolicy([f"{good} **Really.**", good])
    episode = run(policy)
    assert episode.stop_reason is StopReason.SUBMITTED
    assert episode.reward == pytest.approx(2 / 3)
    assert [turn.reward for turn in episode.turns] == [pytest.approx(2 / 3), 0.0]
    assert policy.heard[1][-1]["content"] == episode.turns[0].observation


def test_replies_that_are_all_empty_earn_0() -> None:
    episode = run(TalkingPolicy([""]))
    assert (episode.stop_reason, episode.reward) == (StopReason.PARSE_ERROR, 0.0)


def test_a_user_without_words_is_no_reward() -> None:
    """An outage of the model that plays the user must never be scored."""

    class SilentUser:
        def say(self, situation: Situation, rng: object) -> str:
            raise EnvError("no words")

    episode = run(TalkingPolicy(["It is **12** in total."]), ChatEnv([TASK], user=SilentUser()))
    assert (episode.stop_reason, episode.reward) == (StopReason.ENV_ERROR, None)
    assert episode.error == "EnvError: no words"
