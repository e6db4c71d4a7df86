"""Statistics of runs against closed forms and counted cases."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.run import statistics
from benchmarks.run.statistics import bootstrap, difference, mcnemar, pass_at_k, wilson


@given(st.integers(1, 9), st.data())
def test_pass_at_k_is_the_share_of_draws_with_a_solution(n, data):
    """Chen et al. 2021, eq. 1, by listing every draw of k of the n samples."""
    solved = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    draws = list(itertools.combinations([i < solved for i in range(n)], k))
    assert pass_at_k(n, solved, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_is_not_the_biased_plug_in():
    """Bug prevented: 1 - (1 - c/n)^k, which is too low."""
    assert pass_at_k(5, 1, 5) == 1.0
    assert pass_at_k(10, 3, 1) == pytest.approx(0.3)
    assert pass_at_k(10, 3, 2) == pytest.approx(1 - (7 / 10) * (6 / 9))
    assert pass_at_k(2000, 1, 1000) == pytest.approx(0.5)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 1, 4), (3, 4, 1), (3, 1, 0), (0, 0, 1)])
def test_pass_at_k_needs_k_samples(n, c, k):
    """Bug prevented: a task with lost samples counted as if it had all of them."""
    with pytest.raises(ValueError, match="not defined"):
        pass_at_k(n, c, k)


def test_wilson_solves_its_quadratic():
    """Its ends are where |rate - p| = z·sqrt(p(1-p)/n); at 0 of n the end is z²/(n + z²)."""
    interval = wilson(0.3, 40)
    for end in (interval.low, interval.high):
        assert abs(0.3 - end) == pytest.approx(statistics._Z * math.sqrt(end * (1 - end) / 40))
    z2 = statistics._Z**2
    assert wilson(0.0, 10).low == 0.0
    assert wilson(0.0, 10).high == pytest.approx(z2 / (10 + z2))
    assert math.isnan(wilson(0.0, 0).value)


@given(st.integers(1, 500), st.data())
def test_wilson_holds_its_own_estimate(n, data):
    """Bug prevented: at 0 of 40 the lower end was 1e-17, and a plot of it an error."""
    interval = wilson(data.draw(st.integers(0, n)) / n, n)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1


def test_bootstrap_of_a_share_has_the_width_of_the_binomial():
    """Percentiles of a resampled share are those of Binomial(n, p) / n."""
    interval = bootstrap([1.0] * 30 + [0.0] * 70)
    half = statistics._Z * math.sqrt(0.3 * 0.7 / 100)
    assert interval.value == pytest.approx(0.3)
    assert interval.low == pytest.approx(0.3 - half, abs=0.012)
    assert interval.high == pytest.approx(0.3 + half, abs=0.012)


def test_tasks_of_one_family_are_one_piece_of_evidence():
    """Bug prevented: ten copies of each task make the interval three times too narrow."""
    values = [float(i % 2) for i in range(20) for _ in range(10)]
    clusters = [i for i in range(20) for _ in range(10)]
    by_task, by_family = bootstrap(values), bootstrap(values, clusters)
    alone = bootstrap([float(i % 2) for i in range(20)])
    assert by_family == alone
    assert (by_family.high - by_family.low) > 2.5 * (by_task.high - by_task.low)


def test_unequal_families_weigh_as_many_tasks_as_they_have():
    interval = bootstrap([1.0, 0.0, 0.0, 0.0], ["a", "b", "b", "b"])
    assert interval.value == 0.25
    assert (interval.low, interval.high) == (0.0, 1.0)


def test_no_interval_is_told_where_clusters_agree():
    """Bug prevented: [0.5, 0.5], or 0 of 2 as [0, 0], reads as certainty."""
    assert str(bootstrap([0.0, 0.0])) == "0.000"
    interval = bootstrap([0.0, 1.0], ["a", "a"])
    assert math.isnan(interval.low)
    assert str(interval) == "0.500"
    assert str(bootstrap([])) == "-"


def test_a_difference_is_paired():
    """Tasks differ far more than runs do: unpaired resamples would hide a constant gain."""
    before = {str(i): i / 20 for i in range(10)}
    after = {name: value + 0.1 + 0.01 * (int(name) % 2) for name, value in before.items()}
    gain = difference(before, after | {"new": 0.0})
    assert gain.value == pytest.approx(0.105)
    assert 0.1 <= gain.low < gain.high <= 0.11


@pytest.mark.parametrize(
    ("before", "after", "p"),
    [(0, 0, 1.0), (5, 0, 2 / 32), (0, 10, 2 / 1024), (3, 3, 1.0), (1, 8, 2 * 10 / 512)],
)
def test_mcnemar_is_the_sign_test_of_discordant_pairs(before, after, p):
    assert mcnemar(before, after) == pytest.approx(p)
