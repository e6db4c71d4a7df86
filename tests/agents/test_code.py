"""The agent of code as a tool: what of a reply is run, what is an answer."""

import asyncio

import pytest

from agents import registry
from agents.code import CodeAgent
from agents.episode import Assignment, play
from agents.protocol import ParseError
from agents.types import StopReason
from envs import registry as envs
from envs.images import ensure
from envs.toolcall.code.env import ANSWER
from envs.toolcall.code.tasks import load_tasks
from serving.types import Sampling
from tests.agents.test_toolcall import reply
from tests.agents.worlds import TalkingPolicy


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("print(1)", "print(1)"),
        ("```python\nx = 1\nprint(x)\n```", "x = 1\nprint(x)"),
        ("answer: 3/4", "answer: 3/4"),
        ("Answer: {1, 2}", "answer: {1, 2}"),
        ("x = 1\nanswer: int = 2", "x = 1\nanswer: int = 2"),
        ("<think>so</think>\n2 + 2", "2 + 2"),
    ],
)
def test_plain_replies(text: str, action: str) -> None:
    assert CodeAgent().parse(reply(text)) == action


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("I add.\n```python\n1+1\n```\nAnswer: 3", "1+1"),
        ("It printed 2.\n\n**Answer:** 2", "answer: 2"),
        ("Final answer: 5", "answer: 5"),
    ],
)
def test_fenced_replies(text: str, action: str) -> None:
    """An answer given before its cell was run is a guess: the cell counts."""
    assert CodeAgent("fenced").parse(reply(text)) == action


@pytest.mark.parametrize("text", ["", "two ```python\n1\n``` and ```python\n2\n```", "I think so."])
def test_what_holds_neither_is_told_so(text: str) -> None:
    with pytest.raises(ParseError):
        CodeAgent("fenced").parse(reply(text))


def test_an_oracle_is_what_the_agent_would_say() -> None:
    """Bug prevented: a demonstration that the parser turns into something else."""
    agent = registry.make("code")
    for task in load_tasks():
        for said in (task.data["cell"], f"answer: {task.data['answer']}"):
            assert agent.parse(reply(said)) == said
    assert ANSWER.match("answer: 1") and not ANSWER.match(load_tasks()[0].data["cell"])


@pytest.mark.docker
def test_the_episode_loop_plays_it_with_replies_of_any_kind() -> None:
    """Words, a wrong block, a cell, an answer: one turn each, and the verifier's reward."""
    ensure("python")
    task = next(task for task in load_tasks() if task.family == "digits")
    said = ["I think.", "```python\n1 / 0\n```", f"```python\n{task.data['cell']}\n```",
            f"So it is.\nAnswer: {task.data['answer']}"]  # fmt: skip
    policy, env = TalkingPolicy(said), envs.make("code", [task])
    assignment = Assignment("e1", "g1", task, Sampling(seed=1), seed=4)
    try:
        episode = asyncio.run(play(env, CodeAgent("fenced"), policy, assignment))
    finally:
        env.close()
    assert [bool(turn.parse_error) for turn in episode.turns] == [True, False, False, False]
    assert "ZeroDivisionError" in episode.turns[1].observation
    assert task.data["answer"] in episode.turns[2].observation
    assert (episode.reward, episode.stop_reason) == (1.0, StopReason.SOLVED)
