"""Merging: every output is trained once, and nothing but outputs."""

from hypothesis import given
from hypothesis import strategies as st

from rl.samples import Continuation, merge
from tests.rl.records import episode, turn


def test_exact_continuation_is_one_sequence() -> None:
    """Turn 2's prompt starts with turn 1 whole: one sample, separators untrained."""
    first = turn([1, 2, 3], [4, 5])
    second = turn([1, 2, 3, 4, 5, 9, 9], [6])
    samples, classes = merge(episode([first, second]))
    assert [s.token_ids_L.tolist() for s in samples] == [[1, 2, 3, 4, 5, 9, 9, 6]]
    assert samples[0].trained_L.tolist() == [False] * 3 + [True] * 2 + [False] * 2 + [True]
    assert samples[0].old_logprobs_L[[3, 4, 7]].tolist() == [-0.5, -0.6, -0.5]
    assert classes == {Continuation.EXACT: 1}


def test_changed_history_forks_and_trains_each_output_once() -> None:
    """A client that drops reasoning must not have the same output trained twice."""
    first = turn([1, 2, 3], [4, 5])
    second = turn([1, 2, 3, 5, 9], [6])
    samples, classes = merge(episode([first, second]))
    assert [s.num_trained for s in samples] == [2, 1]
    assert classes == {Continuation.FORKED: 1}


def test_changed_separator_is_told_from_changed_history() -> None:
    """Only tokens between the sampled runs differ: realigned, not forked."""
    first = turn([1, 2, 3], [4, 5])
    second = turn([1, 2, 7, 4, 5, 9], [6])
    assert merge(episode([first, second]))[1] == {Continuation.REALIGNED: 1}


def test_truncated_reply_is_trained_only_on_request() -> None:
    """A cut reply is data for outcome rewards, and masked where the option says so."""
    cut = episode([turn([1, 2], [3, 4], finish="length")])
    assert merge(cut)[0][0].num_trained == 2
    assert merge(cut, train_truncated=False)[0][0].num_trained == 0


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 9), min_size=1), st.lists(st.integers(0, 9), min_size=1)),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_every_sampled_token_is_trained_exactly_once(
    parts: list[tuple[list[int], list[int]]], breaks: list[bool]
) -> None:
    """However the chain breaks, outputs are neither lost nor repeated."""
    history: list[int] = []
    turns = []
    for (tail, output), broken in zip(parts, breaks, strict=False):
        prompt = tail if broken else history + tail
        turns.append(turn(prompt, output))
        history = [*prompt, *output]
    samples, _ = merge(episode(turns))
    trained = [int(t) for s in samples for t in s.token_ids_L[s.trained_L]]
    assert trained == [t for one in turns for t in one.token_ids_T]
