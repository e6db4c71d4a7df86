"""Each method on a hand-made group: what it gives to which token, what it leaves out and why."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from agents.types import Episode
from rl.advantages import Baselines
from rl.algorithms import METHODS, GroupOutcome, Method, annotate_group, require_signals
from rl.config import sections, validate
from rl.errors import MissingSignalError, SampleError
from rl.methodsettings import AlgorithmConfig, AnyAlgorithm
from rl.settings import RolloutConfig, RunConfig
from rl.types import Hint, Sample, TopK, TurnSignal
from tests.rl.records import episode, turn

ROLLOUT = RolloutConfig(min_group=2)
FIRST = turn([1, 2, 3], [4, 5])
SECOND = turn([1, 2, 3, 4, 5, 6], [7, 8, 9])  # continues FIRST: one sample of nine tokens
OLD = [-0.5, -0.6], [-0.5, -0.6, -0.7]


def settings(name: str, **keys: object) -> AlgorithmConfig:
    return validate({"algorithm": {"name": name, "kl_coef": 0.25, **keys}}).algorithm


def annotate(
    episodes: Sequence[Episode],
    name: str,
    signals: Sequence[TurnSignal] = (),
    baselines: Baselines | None = None,
    **keys: object,
) -> GroupOutcome:
    def source(one: Episode) -> Mapping[int, TurnSignal]:
        return {s.turn: s for s in signals if s.episode_id == one.id}

    return annotate_group(episodes, settings(name, **keys), ROLLOUT, source, baselines)


def group(*rewards: float) -> list[Episode]:
    return [
        episode([turn([1, 2], [3 + i, 4])], reward=r, name=f"g000000.m{i}")
        for i, r in enumerate(rewards)
    ]


def advantages(sample: Sample) -> list[float]:
    """Of the active tokens, in order."""
    return [round(float(a), 4) for a in sample.advantages_L[sample.active_L]]


CHAT = episode([FIRST, SECOND], reward=0.0, name="chat.m0")


def test_every_method_has_a_row_a_model_and_a_default() -> None:
    """A name in one table only would be accepted and then crash."""
    field = RunConfig.model_fields["algorithm"]
    assert {k.model_fields["name"].default for k in sections(field.annotation)} == set(METHODS)
    assert AnyAlgorithm is not None


@pytest.mark.parametrize(
    ("name", "keys", "expected"),
    [
        ("grpo", {}, [0.866, -0.866, -0.866, 0.866]),
        ("grpo", {"norm": "none"}, [0.5, -0.5, -0.5, 0.5]),
        ("dr_grpo", {}, [0.5, -0.5, -0.5, 0.5]),
        ("rloo", {}, [2 / 3, -2 / 3, -2 / 3, 2 / 3]),
        ("gspo", {}, [0.866, -0.866, -0.866, 0.866]),
        ("cispo", {"norm": "none"}, [0.5, -0.5, -0.5, 0.5]),
    ],
)
def test_outcome_methods_give_every_token_its_members_advantage(
    name: str, keys: dict[str, object], expected: list[float]
) -> None:
    """The specification's closed forms, on every sampled token, with the anchor's weight."""
    outcome = annotate(group(1.0, 0.0, 0.0, 1.0), name, **keys)
    assert outcome.outcome == "trained"
    for sample, advantage in zip(outcome.samples, expected, strict=True):
        np.testing.assert_allclose(sample.advantages_L, [0, 0, advantage, advantage], atol=1e-4)
        assert (sample.weights.pg, sample.weights.kl) == (1.0, 0.25)


@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if m.grouped])
@pytest.mark.parametrize(
    ("rewards", "why"), [((1.0,), "too_few_members"), ((1.0, 1.0), "zero_var")]
)
def test_group_that_teaches_nothing_is_named(
    name: str, rewards: tuple[float, ...], why: str
) -> None:
    """A group of one, or of equal rewards, gives no sample: not one with an advantage of 0."""
    outcome = annotate(group(*rewards), name)
    assert outcome.samples == []
    assert outcome.outcome.startswith(why)


def test_missing_logprob_masks_the_token_and_is_counted() -> None:
    """An engine that did not report a number must not have one invented."""
    members = group(1.0, 0.0)
    holed = replace(members[0].turns[0], logprobs_T=(-0.5, float("nan")))
    outcome = annotate([replace(members[0], turns=(holed,)), members[1]], "grpo")
    assert outcome.samples[0].active_L.tolist() == [False, False, True, False]
    assert outcome.skipped == {"missing_logprob": 1}


def test_binary_measures_praise_against_what_is_normal() -> None:
    """Praise for what is already normal teaches little; 0 and silence teach nothing at all."""
    signals = [
        TurnSignal("chat.m0", 0, 1, subject="ada"),
        TurnSignal("chat.m0", 1, 1, subject="ada"),
    ]
    known = Baselines()
    outcome = annotate([CHAT], "binary", signals, known, baseline_decay=0.5)
    assert advantages(outcome.samples[0]) == [1.0, 1.0, 0.5, 0.5, 0.5]
    assert known.values == {"ada": 0.75}
    plain = annotate([CHAT], "binary", signals, baseline="none")
    assert advantages(plain.samples[0]) == [1.0] * 5
    neutral = annotate([CHAT], "binary", [TurnSignal("chat.m0", 0, 0, subject="ada")], known)
    assert (neutral.samples, neutral.outcome) == ([], "no_signal")
    assert neutral.skipped == {"neutral": 1, "not_judged": 1}
    assert known.values == {"ada": 0.75}


def test_judged_turn_leaves_its_neighbour_alone() -> None:
    """One bad reply must not punish the good one before it; an unjudged one is not anchored."""
    outcome = annotate([CHAT], "binary", [TurnSignal("chat.m0", 1, -1)])
    (sample,) = outcome.samples
    assert sample.active_L.tolist() == [False] * 6 + [True] * 3
    assert np.asarray(sample.weights.kl).tolist() == [0.0] * 6 + [0.25] * 3


def test_stepwise_compares_the_same_step_and_falls_back_to_the_group() -> None:
    """Two members at step 0, one at step 1: the lonely one is measured by the outcomes."""
    long = episode([FIRST, SECOND], reward=1.0, name="g000000.m0")
    short = episode([FIRST], reward=0.0, name="g000000.m1")
    signals = [
        TurnSignal("g000000.m0", 0, process=0.0),
        TurnSignal("g000000.m0", 1, process=1.0),
        TurnSignal("g000000.m1", 0, process=1.0),
    ]
    outcome = annotate([long, short], "stepwise", signals, process_coef=0.5)
    half = 1 / 2**0.5  # (1 - 0.75) / std([1, 0.5])
    alone = (1.5 - 0.5) / np.std([1.0, 0.0], ddof=1)
    expected = [half, half, alone, alone, alone]
    np.testing.assert_allclose(advantages(outcome.samples[0]), expected, atol=1e-3)
    np.testing.assert_allclose(advantages(outcome.samples[1]), [-half, -half], atol=1e-3)


def test_step_without_a_process_score_is_masked_not_zero() -> None:
    """A verifier that said nothing is not one that said 0."""
    signals = [TurnSignal("g000000.m0", 0, process=1.0), TurnSignal("g000000.m1", 0, process=0.0)]
    members = [episode([FIRST, SECOND], reward=0.5, name=f"g000000.m{i}") for i in range(2)]
    outcome = annotate(members, "stepwise", signals)
    assert [int(s.active_L.sum()) for s in outcome.samples] == [2, 2]
    assert outcome.skipped == {"no_process_score": 2}


def test_opd_pulls_to_the_hinted_policy_first_token_included() -> None:
    """log π_T - log π_old on exactly the sampled tokens, clipped; no hint, no term."""
    hint = Hint("Use a table.", (-0.4, -0.7, 20.0))
    outcome = annotate([CHAT], "opd", [TurnSignal("chat.m0", 1, hints=(hint,))], clip=5.0)
    (sample,) = outcome.samples
    assert advantages(sample) == [0.1, -0.1, 5.0]
    assert sample.active_L.tolist() == [False] * 6 + [True] * 3
    assert outcome.skipped == {"no_teacher": 1}
    silent = annotate([CHAT], "opd")
    assert (silent.samples, silent.outcome) == ([], "no_teacher")


@pytest.mark.parametrize("name", ["opd", "hybrid"])
def test_teacher_of_another_length_is_refused(name: str) -> None:
    """Shifted by one token, every advantage would belong to its neighbour."""
    hint = Hint("Use a table.", (-0.4, -0.7))
    with pytest.raises(SampleError, match="2 teacher log-probs for 3 sampled tokens"):
        annotate([CHAT], name, [TurnSignal("chat.m0", 1, hints=(hint,))])


def topk(*rows: Sequence[int]) -> TopK:
    return TopK(np.array(rows), np.log(np.full((len(rows), len(rows[0])), 0.2)))


def test_topk_takes_the_hint_that_the_student_can_reach() -> None:
    """Of two hints the one sharing most top tokens with the student's own."""
    far, near = topk([50, 51], [52, 53]), topk([4, 51], [5, 53])
    signal = TurnSignal(
        "chat.m0", 0, hints=(Hint("a", topk=far), Hint("b", topk=near)),
        student_topk_ids_TK=np.array([[4, 9], [5, 9]]),
    )  # fmt: skip
    (sample,) = annotate([CHAT], "opd_topk", [signal]).samples
    assert sample.topk is not None
    assert sample.topk.token_ids_TK.tolist() == near.token_ids_TK.tolist()
    assert sample.topk_at is not None
    assert sample.topk_at.tolist() == [3, 4]
    assert sample.active_L.tolist() == [False] * 3 + [True] * 2 + [False] * 4


def test_topk_of_different_width_share_a_sample() -> None:
    """A teacher that returned fewer tokens for one turn: padded with what cannot be drawn."""
    signals = [
        TurnSignal("chat.m0", 0, hints=(Hint("a", topk=topk([4, 51], [5, 53])),)),
        TurnSignal("chat.m0", 1, hints=(Hint("b", topk=topk([7], [8], [9])),)),
    ]
    (sample,) = annotate([CHAT], "opd_topk", signals).samples
    assert sample.topk is not None
    assert np.isneginf(sample.topk.logprobs_TK[2:, 1]).all()


def test_hybrid_adds_both_and_carries_one_alone() -> None:
    """A turn with only one signal carries only that one."""
    hint = Hint("Use a table.", (-0.4, -0.6))
    both = [
        TurnSignal("chat.m0", 0, score=-1, hints=(hint,)),
        TurnSignal("chat.m0", 1, score=1),
    ]
    outcome = annotate([CHAT], "hybrid", both, rl_weight=2.0, opd_weight=10.0, baseline="none")
    assert advantages(outcome.samples[0]) == [-1.0, -2.0, 2.0, 2.0, 2.0]
    taught = annotate([CHAT], "hybrid", [replace(both[0], score=None)], opd_weight=10.0)
    assert advantages(taught.samples[0]) == [1.0, 0.0]
    neither = annotate([CHAT], "hybrid")
    assert (neither.samples, neither.outcome) == ([], "no_signal")


def test_sft_imitates_what_was_solved() -> None:
    """Cross-entropy alone: no ratio, no anchor, no log-prob needed."""
    outcome = annotate(group(1.0, 0.0), "sft")
    (sample,) = outcome.samples
    assert (sample.weights.ce, sample.weights.pg, sample.weights.kl) == (1.0, 0.0, 0.0)
    assert outcome.skipped == {"unsolved": 1}


@pytest.mark.parametrize(("name", "trained"), [("grpo", 1), ("binary", 0), ("opd", 0)])
def test_truncated_reply_is_trained_by_outcome_alone(name: str, trained: int) -> None:
    """A cut reply got its outcome; whether it was good as a reply nobody knows."""
    cut = episode([turn([1, 2], [3, 4], finish="length")], reward=1.0, name="g000000.m0")
    signals = [TurnSignal("g000000.m0", 0, 1, hints=(Hint("x", (-1.0, -1.0)),))]
    outcome = annotate([cut, group(1.0, 0.0)[1]], name, signals)
    cut_samples = [s for s in outcome.samples if s.episode_id == "g000000.m0"]
    assert len(cut_samples) == trained


@pytest.mark.parametrize("name", ["binary", "opd", "opd_topk", "hybrid", "stepwise"])
def test_method_without_its_signal_does_not_start(name: str) -> None:
    """A run without a judge or teacher would train on nothing for hours and say it was done."""
    with pytest.raises(MissingSignalError, match=f"algorithm={name} needs"):
        require_signals(settings(name), None)
    require_signals(settings("grpo"), None)


def test_unknown_score_is_refused() -> None:
    """A judge on a scale of ten must not be read as praise."""
    with pytest.raises(ValueError, match="score 7"):
        TurnSignal("chat.m0", 0, score=7)


def test_worked_example_of_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/adding-an-algorithm.md is run as it stands: file, settings, row."""
    text = (Path(__file__).parents[2] / "docs" / "adding-an-algorithm.md").read_text()
    method, model, row = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    module = ModuleType("rank")
    exec(compile(method, "rl/methods/rank.py", "exec"), module.__dict__)
    exec(compile(model, "rl/methodsettings.py", "exec"), module.__dict__)
    for name, made in eval("{" + row + "}", {"Method": Method, "rank": module}).items():
        monkeypatch.setitem(METHODS, name, made)
    chosen = module.RankConfig(scale=2.0, kl_coef=0.0)
    outcome = annotate_group(group(0.9, 0.1, 0.1, 0.3), chosen, ROLLOUT)
    assert [s.advantages_L.max() or s.advantages_L.min() for s in outcome.samples] == [
        2.0, -4 / 3, -4 / 3, 2 / 3,
    ]  # fmt: skip
    assert annotate_group(group(1.0, 1.0), chosen, ROLLOUT).outcome == "zero_variance"
    assert len(method.splitlines()) <= 60
