"""Simulated users: the conversation, its verdict, and that equal seeds speak equally."""

import pickle
from dataclasses import replace
from typing import Any

import gymnasium
import pytest

from envs import registry
from envs.chat.compose import SMALL_TALK, compose
from envs.chat.env import ChatEnv
from envs.chat.request import Request
from envs.chat.session import Plan
from envs.check import check_env
from envs.errors import TaskError
from envs.types import Task, TaskLimits, Verdict

QUESTION = Request("Capital of Peru?", "Lima", ("Lima is the capital of Peru.",))
NEXT = Request("Capital of Chile?", "Santiago", ("Santiago is the capital of Chile.",))
ASIDE = Request("My cat walked over the keyboard.", aside=True)
GOOD = "Lima is the capital of Peru."
BOLD = "**Lima** is the capital of Peru."
ALL_BAD = "**Lima**, step by step:\n1. Peru\n2. \\boxed{Lima}"


def session(*requests: Request, persona: str = "student", number: int = 0, **limits: int) -> Task:
    asked = requests or (QUESTION,)
    return Task(
        f"chat/{persona}/test",
        "chat",
        persona,
        "train",
        asked[0].text,
        image="",
        limits=TaskLimits(**{"max_steps": 10, **limits}),
        data={
            "persona": persona,
            "session": number,
            "requests": [request.to_json() for request in asked],
        },
    )


def start(task: Task, seed: int = 0, **options: Any) -> ChatEnv:
    env = ChatEnv([task], **options)
    env.reset(seed=seed, options={"task": task})
    return env


def test_a_good_first_reply_earns_1_and_the_user_leaves_content() -> None:
    env = start(session())
    seen, reward, terminated, truncated, info = env.step(GOOD)
    assert (reward, terminated, truncated, int(seen["left"])) == (1.0, True, False, 1)
    assert info["move"] == "leave" and info["first_reply_clean"]
    assert info["verdict"] == env.grade() and info["verdict"].solved
    assert info["hint"] == "" and info["violated"] == ()


def test_the_verdict_is_the_share_met_by_the_first_reply_whatever_follows() -> None:
    """Bug prevented: mending a reply after a correction pays as much as knowing the user."""
    env = start(session())
    _, reward, terminated, _, info = env.step(BOLD)
    assert reward == pytest.approx(2 / 3) and not terminated
    assert info["violated"] == ("no_bold",) and info["move"] == "correct"
    assert info["hint"] == "Write without any bold text."
    _, reward, terminated, _, info = env.step(GOOD)
    assert (reward, terminated) == (0.0, True)
    assert not info["first_reply_clean"]
    assert info["verdict"].failed == ("no_bold",)
    assert info["verdict"].reward == pytest.approx(2 / 3)


def test_hints_name_only_what_the_user_spoke_of_and_stay_out_of_the_observation() -> None:
    for seed in range(20):
        env = start(session(), seed)
        seen, reward, *_, info = env.step(ALL_BAD)
        assert reward == 0.0 and len(info["violated"]) == 3
        assert 1 <= info["hint"].count(".") <= 2
        assert info["hint"] not in seen["message"]
        assert set(seen) == {"message", "left"}


def test_patience_ends_in_giving_up() -> None:
    env = start(session())
    moves = [env.step(BOLD)[4]["move"] for _ in range(3)]
    assert moves == ["correct", "correct", "give_up"]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(GOOD)


def test_a_user_does_not_say_the_same_sentence_twice_to_one_reply() -> None:
    for seed in range(40):
        env = start(session(persona="teacher"), seed)
        said = [env.step("Lima is the capital.")[0]["message"] for _ in range(3)]
        assert len({message.split(". ")[-1] for message in said}) == 3


def test_a_content_user_goes_on_and_small_talk_is_not_judged() -> None:
    env = start(session(QUESTION, ASIDE, NEXT))
    seen, *_, info = env.step(GOOD)
    assert info["move"] == "small_talk" and seen["message"].endswith(ASIDE.text)
    seen, _, terminated, _, info = env.step("**Poor cat!**")
    assert info["move"] == "ask" and seen["message"].endswith(NEXT.text)
    assert info["met"] == {} and not terminated
    assert env.step("Santiago is the capital of Chile.")[4]["move"] == "leave"


def test_finish_solved_ends_at_the_first_reply_that_meets_every_wish() -> None:
    assert not start(session(QUESTION, NEXT)).step(GOOD)[2]
    assert start(session(QUESTION, NEXT), finish="solved").step(GOOD)[2]


def test_now_and_then_a_user_changes_the_topic_without_a_word_on_the_form() -> None:
    """A distractor: the next state says nothing of what was wrong."""
    moves = []
    for seed in range(200):
        seen, *_, info = start(session(QUESTION, NEXT, persona="home_cook"), seed).step(
            "Lima in Peru is 3 miles wide."
        )
        moves.append(info["move"])
        if info["move"] == "change_topic":
            assert info["hint"] == "" and info["violated"] == ("metric_units",)
            assert seen["message"].endswith(NEXT.text)
    assert 25 <= moves.count("change_topic") <= 75
    assert moves.count("change_topic") + moves.count("correct") == 200


def test_wishes_drift_with_the_session() -> None:
    before, after = session(persona="manager", number=19), session(persona="manager", number=20)
    reply = "Lima is the capital of Peru."
    assert start(before).step(reply)[1] == 0.5
    assert start(after).step(reply)[1] == 1.0
    assert Plan.of(before).wishes != Plan.of(after).wishes


def test_a_limit_truncates_and_keeps_the_verdict() -> None:
    env = start(session(max_steps=2))
    env.step(BOLD)
    seen, _, terminated, truncated, info = env.step(BOLD)
    assert (terminated, truncated, int(seen["left"])) == (False, True, 0)
    assert info["verdict"].reward == pytest.approx(2 / 3)


def test_silence_is_graded_0() -> None:
    env = start(session())
    assert env.grade() == Verdict(
        0.0,
        failed=("on_topic", "no_bold", "no_numbered_list", "no_boxed_answer"),
        detail="says nothing to the request",
    )


def test_equal_seeds_and_replies_give_equal_messages_and_other_seeds_others() -> None:
    task = session(QUESTION, ASIDE, NEXT)

    def play(seed: int) -> list[object]:
        env = start(task, seed)
        return [env.step(reply)[0]["message"] for reply in (ALL_BAD, BOLD, GOOD)]

    assert play(3) == play(3)
    assert len({str(play(seed)) for seed in range(10)}) >= 8


def test_a_reply_without_bytes_does_no_harm() -> None:
    env = start(session(), render_mode="ansi")
    env.step("a\ud800b")
    assert "assistant: a?b" in (env.render() or "")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "no session"),
        ({"persona": "studnt", "requests": []}, "no persona 'studnt'"),
        ({"persona": "student", "requests": []}, "begins with a question"),
        ({"persona": "student", "requests": [ASIDE.to_json()]}, "begins with a question"),
        ({"persona": "student", "requests": [{"txt": 1}]}, "not a request"),
        ({"persona": "student", "session": "x", "requests": []}, "no session"),
    ],
)
def test_a_task_with_a_mistake_is_an_error(data: dict[str, Any], message: str) -> None:
    env = ChatEnv([session()])
    env.reset()
    with pytest.raises(TaskError, match=message):
        env.reset(options={"task": replace(session(), data=data)})
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(GOOD)


def test_steps_need_a_reset() -> None:
    env = ChatEnv([session()])
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(GOOD)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.grade()


def test_composing_what_cannot_be_is_an_error() -> None:
    with pytest.raises(TaskError, match="at_most_words"):
        compose(QUESTION, ["at_most_words(1)"])
    assert compose(ASIDE, ["json_only"]) == SMALL_TALK


def test_the_registry_makes_it_as_a_rollout_worker_does() -> None:
    """Bug prevented: an environment without sandboxes starts a pool, or refuses one."""

    class NoProvider:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"a conversation asked its sandboxes for {name}")

    provider: Any = NoProvider()
    env = registry.make("chat", tasks=[session()], sandboxes=provider, finish="solved")
    env.reset()
    assert env.step(GOOD)[2]
    env.close()
    env.close()
    with pytest.raises(TypeError, match="colour"):
        registry.make("chat", [session()], colour=1)


def test_the_registered_environment_conforms() -> None:
    registry.register()
    report = check_env(gymnasium.make("clawgym/Chat-v0"), num_tasks=4)
    report.raise_if_failed()
    assert len(report.passed) == 8


def test_plans_cross_processes() -> None:
    plan = Plan.of(session(QUESTION, ASIDE))
    assert pickle.loads(pickle.dumps(plan)) == plan
