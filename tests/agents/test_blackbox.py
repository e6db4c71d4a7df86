"""A program of its own plays through base URL and sandbox commands; its turns are the recorded."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.blackbox import Gateway, play_command
from agents.episode import Assignment, EpisodeLimits
from agents.types import Episode, StopReason
from envs.sandbox.pool import SandboxPool
from envs.terminal.env import TerminalEnv
from envs.types import Task
from serving.models import resolve
from serving.renderer import Renderer
from serving.server import PolicyServer
from serving.types import Sampling
from tests.serving.scripted import ScriptedEngine

TASK = Task(
    "terminal/test/hello", "terminal", "test", "train", "Write hi into /workspace/hello.",
    data={"checks": [{"kind": "file", "path": "hello", "text": "hi\n", "how": "text"}]},
)  # fmt: skip
AGENT = """
import json, os, subprocess, sys, urllib.request
messages = [{"role": "user", "content": os.environ["CLAWGYM_INSTRUCTION"]}]
while True:
    body = {"model": os.environ["CLAWGYM_MODEL"], "messages": messages, "max_tokens": 40,
            "temperature": float(sys.argv[1])}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
         "Content-Type": "application/json"})
    message = json.load(urllib.request.urlopen(request))["choices"][0]["message"]
    messages.append({"role": "assistant", "content": message["content"]})
    if message["content"] == "done":
        break
    subprocess.run(["docker", "run", "-d", "image", "sleep", "2h"], check=True)
    ran = subprocess.run(["docker", "exec", "-w", "/workspace", "-e", "WORD=hi", "name", "bash",
                          "-c", message["content"]], capture_output=True, text=True)
    messages.append({"role": "user", "content": f"{ran.returncode}: {ran.stdout}"})
"""
Play = Callable[..., Episode]


@pytest.fixture(scope="module")
def pool(terminal_image: str) -> Iterator[SandboxPool]:
    with SandboxPool(run_id="test-blackbox") as sandboxes:
        yield sandboxes


@pytest.fixture
def play(pool: SandboxPool, tmp_path: Path) -> Play:
    renderer = Renderer(resolve("tiny"))
    (tmp_path / "agent.py").write_text(AGENT)

    def run(*texts: str, command: str = "", time_limit_s: float = 60.0) -> Episode:
        engine = ScriptedEngine(renderer, *texts)
        given = command or f"{sys.executable} {tmp_path}/agent.py 0.7"
        assignment = Assignment("run/e1", "g", TASK, Sampling(temperature=1.0))
        limits = EpisodeLimits(time_limit_s=time_limit_s)
        with PolicyServer(engine, renderer, api_key="secret", model_name="tiny") as server:
            gateway = Gateway(server.base_url, "secret")
            env = TerminalEnv([TASK], pool)
            try:
                episode = asyncio.run(play_command(env, given, gateway, assignment, limits))
            finally:
                env.close()
        run.prompts = engine.prompts  # type: ignore[attr-defined]
        return episode

    return run


def test_its_turns_are_token_exact_and_graded(play: Play) -> None:
    """Bugs prevented: a black-box agent trained on tokens it never sampled, or at a temperature it
    did not sample at; commands that run on this machine instead of in the sandbox."""
    episode = play("echo $WORD > hello; id -un", "false", "done")
    assert (episode.stop_reason, episode.reward, episode.error) == (StopReason.SOLVED, 1.0, "")
    assert episode.temperature == 0.7
    assert [turn.text for turn in episode.turns] == ["echo $WORD > hello; id -un", "false", "done"]
    assert [turn.prompt_ids_P for turn in episode.turns] == play.prompts  # type: ignore[attr-defined]
    for turn, following in zip(episode.turns, episode.turns[1:], strict=False):
        said = (*turn.prompt_ids_P, *turn.token_ids_T)
        assert following.prompt_ids_P[: len(said)] == said
    assert [turn.observation for turn in episode.turns] == ["0: agent\n", "1: ", ""]


def test_a_program_that_never_asks_is_no_reward(play: Play) -> None:
    episode = play("x", command="echo no such agent; exit 3")
    assert (episode.stop_reason, episode.reward) == (StopReason.ENV_ERROR, None)
    assert "ended with 3 and never asked the policy: no such agent" in episode.error


def test_time_ends_it_with_all_it_started(play: Play, tmp_path: Path) -> None:
    """Bug prevented: a program's children live on and go on asking the policy."""
    child = f"(sleep 4; touch {tmp_path}/late) & "
    episode = play(
        "echo hi > hello",
        command=f"{child} {sys.executable} {tmp_path}/agent.py 1.0",
        time_limit_s=3.0,
    )
    assert episode.stop_reason in (StopReason.SOLVED, StopReason.TIME_LIMIT)
    assert episode.reward == 1.0 and len(episode.turns) >= 1
    asyncio.run(asyncio.sleep(2))
    assert not (tmp_path / "late").exists()


def test_what_cannot_be_trained_on_is_named(play: Play, tmp_path: Path) -> None:
    agent = (
        (tmp_path / "agent.py").read_text().replace('"max_tokens"', '"top_p": 0.5, "max_tokens"')
    )
    (tmp_path / "agent.py").write_text(agent)
    episode = play("done")
    assert episode.stop_reason is StopReason.ENV_ERROR and "top_p" in episode.error


def test_docker_words_it_does_not_know_are_refused(play: Play, tmp_path: Path) -> None:
    words = "docker build . ; echo code $?; docker stop x; echo then $?; in-sandbox id -un; exit 4"
    episode = play("x", command=words)
    assert "code 125" in episode.error and "then 0" in episode.error and "agent" in episode.error
