"""Every ending has one reason; the machine's failures have no reward."""

import asyncio
import pickle

import pytest

from agents.episode import Assignment, EpisodeLimits, play
from agents.shell import ShellAgent
from agents.types import Episode, StopReason
from envs.errors import EnvError, SandboxLost, VerifierError
from serving.errors import ContextOverflow, PolicyTimeout
from serving.types import Sampling
from tests.agents.worlds import TASK, CounterWorld, TalkingPolicy


def run(world: CounterWorld, policy: TalkingPolicy, limits: EpisodeLimits | None = None) -> Episode:
    assignment = Assignment("e1", "g1", TASK, Sampling(seed=10, temperature=0.5), seed=4)
    return asyncio.run(play(world, ShellAgent(), policy, assignment, limits))


@pytest.mark.parametrize(
    ("replies", "finish", "stop", "reward"),
    [
        (["up"], "stop", StopReason.SOLVED, 1.0),
        (["down"], "stop", StopReason.STEP_LIMIT, 0.0),
        ([""], "stop", StopReason.PARSE_ERROR, 0.0),
        (["up"], "length", StopReason.PARSE_ERROR, 0.0),
        (["up", "up", "up"], "stop", StopReason.SOLVED, 1.0),
        (["up", ContextOverflow("too long")], "stop", StopReason.CONTEXT_LIMIT, 0.0),
    ],
)
def test_agent_endings_have_a_reward(
    replies: list[str | Exception], finish: str, stop: StopReason, reward: float
) -> None:
    """What the agent does wrong costs what the task says and is trainable."""
    episode = run(CounterWorld(), TalkingPolicy(replies, finish))
    assert (episode.stop_reason, episode.reward) == (stop, reward)
    assert episode.error == ""


@pytest.mark.parametrize(
    ("error", "stop"),
    [
        (SandboxLost("container gone"), StopReason.SANDBOX_LOST),
        (VerifierError("no verdict"), StopReason.ENV_ERROR),
    ],
)
def test_world_failures_have_no_reward(error: EnvError, stop: StopReason) -> None:
    """A dead container must never be scored 0."""
    episode = run(CounterWorld(error), TalkingPolicy(["up", "boom"]))
    assert episode.stop_reason == stop
    assert episode.reward is None
    assert episode.error == f"{type(error).__name__}: {error}"
    assert len(episode.turns) == 1


def test_policy_outage_has_no_reward_and_the_first_cause() -> None:
    """The root of the chain is what a person needs, not the wrapper."""
    try:
        raise PolicyTimeout("no answer") from ConnectionError("refused")
    except PolicyTimeout as outage:
        episode = run(CounterWorld(), TalkingPolicy([outage]))
    assert episode.stop_reason == StopReason.POLICY_ERROR
    assert episode.reward is None
    assert episode.error == "ConnectionError: refused"


def test_a_time_out_is_named_by_what_was_waited_for() -> None:
    """Bug prevented: "CancelledError: ", which is all that the root of a time-out says."""
    outage = PolicyTimeout("no answer from http://127.0.0.1:1 in 300 s")
    outage.__cause__ = TimeoutError()
    outage.__cause__.__cause__ = asyncio.CancelledError()
    episode = run(CounterWorld(), TalkingPolicy([outage]))
    assert episode.error == "PolicyTimeout: no answer from http://127.0.0.1:1 in 300 s"


def test_time_limit_still_grades_the_state_reached() -> None:
    """After a time-out the work done so far counts."""
    world = CounterWorld()
    episode = run(world, TalkingPolicy(["up"]), EpisodeLimits(time_limit_s=0.0))
    assert episode.stop_reason == StopReason.TIME_LIMIT
    assert world.graded == 1


def test_parse_errors_in_a_row_end_it_and_a_good_reply_resets_the_count() -> None:
    """Two bad, one good, two bad: the count starts over."""
    policy = TalkingPolicy(["", "", "up", "", ""])
    episode = run(CounterWorld(), policy, EpisodeLimits(max_parse_errors=3))
    assert episode.stop_reason == StopReason.STEP_LIMIT
    assert [bool(t.parse_error) for t in episode.turns] == [True, True, False, True, True]


def test_tokens_are_recorded_as_sampled_and_turns_have_their_own_seeds() -> None:
    """Ids, log-probs and versions are written down once; equal seeds would repeat a reply."""
    policy = TalkingPolicy(["up"])
    episode = run(CounterWorld(), policy)
    first = episode.turns[0]
    assert (first.prompt_ids_P, first.token_ids_T) == ((1, 2), (7, 8))
    assert (first.logprobs_T, first.versions_T) == ((-0.1, -0.2), (3, 3))
    assert [s.seed for s in policy.samplings] == [10, 11, 12]
    assert episode.temperature == 0.5
    assert episode.oldest_version == 3


def test_conversation_holds_replies_and_observations_in_order() -> None:
    """The model sees its own words and the world's answer, alternating."""
    policy = TalkingPolicy(["up"])
    run(CounterWorld(), policy)
    roles = [m["role"] for m in policy.heard[-1]]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert policy.heard[-1][3]["content"] == "1"


def test_episode_survives_json_and_pickle() -> None:
    """Episodes cross processes and the disk."""
    episode = run(CounterWorld(), TalkingPolicy(["up"]))
    assert Episode.from_json(episode.to_json()) == episode
    assert pickle.loads(pickle.dumps(episode)) == episode
