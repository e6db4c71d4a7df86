"""What verifiers leave behind: rewards are values, everything else an error with a name."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.errors import VerifierError
from envs.terminal.formats.rewards import (
    BootstrapFailed,
    RewardEmpty,
    RewardMissing,
    RewardUnreadable,
    SummaryMissing,
    harbor_rewards,
    harbor_verdict,
    pytest_summary,
    require_bootstrap,
    terminal_bench_verdict,
)

HEAD = "=========== short test summary info ============\n"
CURL = "curl: (6) Could not resolve host: astral.sh\n"


@pytest.mark.parametrize(
    ("reward_json", "reward_txt", "error"),
    [
        (None, None, RewardMissing),
        (None, b"", RewardEmpty),
        (b"", b"1", RewardEmpty),
        (None, b" \n", RewardUnreadable),
        (None, b"nan", RewardUnreadable),
        (None, b"-inf", RewardUnreadable),
        (None, b"1e999", RewardUnreadable),
        (None, b"yes", RewardUnreadable),
        (None, b"1 0", RewardUnreadable),
        (None, b"\xff", RewardUnreadable),
        (b"{", None, RewardUnreadable),
        (b"1", None, RewardUnreadable),
        (b"[1]", None, RewardUnreadable),
        (b'{"reward": "1"}', None, RewardUnreadable),
        (b'{"reward": null}', None, RewardUnreadable),
        (b'{"reward": NaN}', None, RewardUnreadable),
        (b'{"reward": 1e309}', None, RewardUnreadable),
        (b'{"reward": 1' + b"0" * 400 + b"}", None, RewardUnreadable),
        (b'{"reward": 1, "other": NaN}', None, RewardUnreadable),
        (b'{"a":' * 100_000, None, RewardUnreadable),
        (b"\xff", None, RewardUnreadable),
    ],
)
def test_what_is_no_reward_is_an_error_of_its_name(
    reward_json: bytes | None, reward_txt: bytes | None, error: type[VerifierError]
) -> None:
    """Bug prevented: a verifier that did not get to its end, scored 0."""
    with pytest.raises(error):
        harbor_rewards(reward_json, reward_txt)


def test_json_counts_before_text() -> None:
    assert harbor_rewards(b'{"reward": 0.5}', b"1") == {"reward": 0.5}
    assert harbor_rewards(b'{"a": true, "b": 0}', None) == {"a": 1.0, "b": 0.0}
    assert harbor_rewards(None, b"\t0.25 \n") == {"reward": 0.25}


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_number_is_read_back_exactly_or_refused(number: float) -> None:
    for data in ((json.dumps({"reward": number}).encode(), None), (None, repr(number).encode())):
        if math.isfinite(number):
            assert harbor_rewards(*data) == {"reward": number}
        else:
            with pytest.raises(RewardUnreadable):
                harbor_rewards(*data)


@given(st.one_of(st.none(), st.binary(max_size=60)), st.one_of(st.none(), st.binary(max_size=60)))
def test_any_bytes_are_rewards_or_a_verifier_error(
    reward_json: bytes | None, reward_txt: bytes | None
) -> None:
    try:
        rewards = harbor_rewards(reward_json, reward_txt)
    except VerifierError:
        return
    assert all(math.isfinite(value) for value in rewards.values())


def test_which_key_is_the_reward() -> None:
    assert harbor_verdict({"reward": 1.0, "speed": 0.2}).reward == 1.0
    assert harbor_verdict({"accuracy": 0.5}).reward == 0.5
    for ambiguous in ({}, {"a": 1.0, "b": 1.0}):
        with pytest.raises(RewardMissing):
            harbor_verdict(ambiguous)
    for outside in (-0.1, 1.5):
        with pytest.raises(RewardUnreadable):
            harbor_verdict({"reward": outside})


@pytest.mark.parametrize(
    "output",
    [
        CURL,
        "E: Unable to locate package curl\n",
        "/tests/test.sh: line 9: uvx: command not found\n",
        "/tests/test.sh: line 7: /root/.local/bin/env: No such file or directory\n",
        "error: No interpreter found for Python 3.13 in managed installations\n",
        "/usr/bin/python3: No module named pytest\n",
        "ERROR: Could not find a version that satisfies the requirement pytest==8.4.1\n",
    ],
)
def test_a_failed_bootstrap_that_wrote_0_is_no_0(output: str) -> None:
    """Bug prevented: a package index that is away for an hour teaches that nothing works."""
    with pytest.raises(BootstrapFailed, match="no test was run"):
        harbor_verdict({"reward": 0.0}, f"Get:1 ...\n{output}")
    with pytest.raises(BootstrapFailed):
        terminal_bench_verdict(output)


def test_tests_that_ran_keep_their_0() -> None:
    """Bug prevented: an agent that prints an installer's error escapes its 0."""
    ctrf = json.dumps({"results": {"summary": {"tests": 3, "failed": 3}}}).encode()
    assert harbor_verdict({"reward": 0.0}, CURL, ctrf).reward == 0.0
    assert harbor_verdict({"reward": 0.0}, f"{CURL}{HEAD}FAILED t.py::a").reward == 0.0
    assert harbor_verdict({"reward": 0.0}, f"{CURL}=== 1 failed in 0.1s ===").reward == 0.0
    assert harbor_verdict({"reward": 0.0}, "wrong answer\n").reward == 0.0
    assert harbor_verdict({"reward": 1.0}, CURL).reward == 1.0
    for broken in (b"", b"{", b"[]", b'{"results": {"summary": {"tests": 0}}}'):
        with pytest.raises(BootstrapFailed):
            require_bootstrap(CURL, broken)


# ----------------------------------------------------------------- Terminal-Bench 1


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("PASSED tests/t.py::a\nFAILED tests/t.py::b - x - y", {"a": True, "b - x": False}),
        ("FAILED t.py::b[1 - 2] - assert 0", {"b[1 - 2]": False}),
        ("FAILED t.py::b", {"b": False}),
        ("PASSED t.py::a - b", {"a - b": True}),
        ("XFAIL t.py::a\nSKIPPED t.py::b\nXPASS t.py::c\nERROR t.py::d",
         {"a": True, "b": True, "c": False, "d": False}),
        ("PASSED one.py::x\nFAILED two.py::x", {"x": False}),
        ("FAILED one.py::x\nPASSED two.py::x", {"x": True}),
        ("PASSED t.py::C::m", {"C::m": True}),
        ("ERROR t.py", {"t.py": False}),
        ("PASSED: t.py::a", {"a": True}),
        ("  PASSED t.py::a", {"a": True}),
        ("SKIPPED [1] t.py:3: why", {"[1] t.py:3: why": True}),
        ("PASSED\npassed t.py::a\nUNKNOWN t.py::a\nPASSED t.py::\n== 1 passed ==", {}),
    ],
)  # fmt: skip
def test_the_summary_is_read_by_the_official_rules(lines: str, expected: dict[str, bool]) -> None:
    assert pytest_summary(f"PASSED before.py::z\n{HEAD}{lines}\n") == expected


def test_only_the_first_header_splits() -> None:
    text = f"noise =Short Test Summary Info= PASSED a.py::a\n{HEAD}PASSED b.py::b"
    assert pytest_summary(text) == {"a": True, "b": True}


def test_no_summary_is_an_error_and_an_empty_one_is_resolved_officially() -> None:
    with pytest.raises(SummaryMissing):
        terminal_bench_verdict("collected 3 items")
    assert terminal_bench_verdict(HEAD).solved
    with pytest.raises(SummaryMissing, match="names no test"):
        terminal_bench_verdict(HEAD, empty_is_error=True)


def test_one_failure_is_a_0() -> None:
    verdict = terminal_bench_verdict(f"{HEAD}PASSED t.py::a\nFAILED t.py::b - no")
    assert (verdict.reward, verdict.passed, verdict.failed) == (0.0, ("a",), ("b",))
    assert terminal_bench_verdict(f"{HEAD}PASSED t.py::a").solved
