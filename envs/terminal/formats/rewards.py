"""What the verifiers of the formats leave behind, read by the official rules.

    VerifierError
    ├── RewardMissing        neither reward.json nor reward.txt, or no key that is the reward
    ├── RewardEmpty          the file that counts holds no byte
    ├── RewardUnreadable     not a number, not finite, not JSON, not UTF-8, outside [0, 1]
    ├── BootstrapFailed      the reward is 0 because the tests could not be started
    └── SummaryMissing       pytest printed no short summary (Terminal-Bench's ``parse_error``)

Every one is an infrastructure error: the episode is left out, not scored 0.

Where official graders have a fault the default is theirs, and the safe way is an option that says
so: ``empty_is_error`` below. One departure is the default: ``BootstrapFailed``, which the official
harness scores 0.
"""

import json
import math
import re
from collections.abc import Mapping

from envs.errors import VerifierError
from envs.types import Verdict

PASSING = ("PASSED", "XFAIL", "SKIPPED")
FAILING = ("FAILED", "XPASS", "ERROR")
SUMMARY = re.compile(r"=+\s*short test summary info\s*=+", re.IGNORECASE)
RAN = re.compile(
    r"=+\s*short test summary info\s*=+|^=*\s*\d+ (?:passed|failed|errors?|skipped)\b", re.I | re.M
)
BROKEN_BOOTSTRAP = re.compile(
    r"^(?:curl: \(\d+\)|E: (?:Unable to|Failed to fetch|Could not|Package .* has no)"
    r"|error: (?:No interpreter found|Failed to (?:fetch|download|resolve)|Request failed)"
    r"|ERROR: (?:Could not find a version|No matching distribution|Could not install)"
    r"|W: Failed to fetch|Temporary failure resolving|Could not resolve host"
    r"|.*\b(?:uvx?|pip3?|pytest|curl|wget|apt-get|npm): (?:command )?not found"
    r"|.*/\.local/bin/env: No such file or directory"
    r"|.*No module named pytest$"
    r"|.*No interpreter found for Python)",
    re.M,
)


class RewardMissing(VerifierError):
    """No reward file was written, or no key in it is the reward."""


class RewardEmpty(VerifierError):
    """The reward file that counts is empty."""


class RewardUnreadable(VerifierError):
    """The reward file holds no finite number in [0, 1]."""


class BootstrapFailed(VerifierError):
    """The tests were never started, and the script wrote 0 all the same."""


class SummaryMissing(VerifierError):
    """The test output has no pytest summary."""


# ----------------------------------------------------------------- Harbor


def harbor_rewards(reward_json: bytes | None, reward_txt: bytes | None) -> dict[str, float]:
    """Return all rewards by name. ``reward.json`` counts where it exists, else ``reward.txt``.

    Args:
        reward_json: the file's bytes; None when it does not exist.
        reward_txt: likewise. One number, which becomes ``{"reward": number}``.

    Raises:
        RewardMissing, RewardEmpty, RewardUnreadable: see the module.

    Example:
        >>> harbor_rewards(None, b" 1\\n")
        {'reward': 1.0}
    """
    if reward_json is not None:
        return _json_rewards(reward_json)
    if reward_txt is None:
        raise RewardMissing("neither reward.json nor reward.txt was written")
    if not reward_txt:
        raise RewardEmpty("reward.txt is empty")
    try:
        return {"reward": _finite(float(reward_txt.decode("utf-8")), "reward.txt")}
    except ValueError as error:
        raise RewardUnreadable(f"reward.txt holds no number: {reward_txt[:80]!r}") from error


def _json_rewards(data: bytes) -> dict[str, float]:
    if not data:
        raise RewardEmpty("reward.json is empty")
    try:
        rows = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise RewardUnreadable(f"reward.json is no JSON: {error}") from error
    if not isinstance(rows, dict):
        raise RewardUnreadable(f"reward.json holds no object: {data[:80]!r}")
    return {key: _finite(value, f"reward.json, {key!r}") for key, value in rows.items()}


def _finite(value: object, where: str) -> float:
    """Return a number as a float; true is 1, as officially. Raises ``RewardUnreadable``."""
    if not isinstance(value, int | float):
        raise RewardUnreadable(f"{where}: {value!r:.80} is no number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RewardUnreadable(f"{where}: {number} is not finite")
    return number


def harbor_verdict(
    rewards: Mapping[str, float], output: str = "", ctrf: bytes | None = None
) -> Verdict:
    """Return the verdict on a Harbor trial: the key ``reward``, or the only key there is.

    Args:
        rewards: from ``harbor_rewards``.
        output: what the test script printed.
        ctrf: bytes of ``/logs/verifier/ctrf.json``, if it was written.

    Raises:
        RewardMissing: several keys and none is ``reward``, or no key.
        RewardUnreadable: outside [0, 1].
        BootstrapFailed: see ``require_bootstrap``.
    """
    if "reward" not in rewards and len(rewards) != 1:
        raise RewardMissing(f"keys {sorted(rewards)}: none is 'reward', and not exactly one")
    reward = rewards["reward"] if "reward" in rewards else next(iter(rewards.values()))
    if not 0 <= reward <= 1:
        raise RewardUnreadable(f"reward {reward} is outside [0, 1]")
    if reward == 0:
        require_bootstrap(output, ctrf)
    detail = ", ".join(f"{key}={value:g}" for key, value in rewards.items())
    return Verdict(reward, detail=detail)


def require_bootstrap(output: str, ctrf: bytes | None = None) -> None:
    """Raise ``BootstrapFailed`` when an installer failed and no test was run after it.

    A test report that counts tests, or a pytest summary, shows that tests ran; then nothing is
    looked for. Without either, a line an installer prints when it fails is taken at its word. An
    agent that spoils the installers so loses its episode, not its score.
    """
    if _counts_tests(ctrf) or RAN.search(output):
        return
    if found := BROKEN_BOOTSTRAP.search(output):
        line = output[found.start() :].splitlines()[0]
        raise BootstrapFailed(f"no test was run: {line[:200]}")


def _counts_tests(ctrf: bytes | None) -> bool:
    try:
        return bool(json.loads(ctrf or b"{}")["results"]["summary"]["tests"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


# ----------------------------------------------------------------- Terminal-Bench 1


def pytest_summary(output: str) -> dict[str, bool]:
    """Return test name → passed, from a terminal that pytest wrote to.

    Read from after the first summary header. A name is what follows the first ``::``, so tests of
    one name in two files are one, and the later line counts. Only lines that begin with FAILED lose
    their last `` - …``; XFAIL and SKIPPED are passes, XPASS is none.

    Raises:
        SummaryMissing: there is no header.

    Example:
        >>> pytest_summary("== short test summary info ==\\nFAILED t.py::a - assert 0")
        {'a': False}
    """
    parts = SUMMARY.split(output, maxsplit=1)
    if len(parts) < 2:
        raise SummaryMissing("the test output has no short test summary")
    results: dict[str, bool] = {}
    for line in parts[1].splitlines():
        kept = line.rpartition(" - ")[0] or line if line.startswith("FAILED") else line
        status, _, rest = _words(kept)
        name = rest.split("::", 1)[-1]
        if name and status in PASSING + FAILING:
            results[name] = status in PASSING
    return results


def _words(line: str) -> tuple[str, str, str]:
    parts = line.split(maxsplit=1)
    return (parts[0].strip(":"), " ", parts[1].strip()) if len(parts) == 2 else ("", "", "")


def terminal_bench_verdict(output: str, *, empty_is_error: bool = False) -> Verdict:
    """Return the verdict on a Terminal-Bench 1 trial: 1 when every test of the summary passed.

    Args:
        output: the whole pane after ``run-tests.sh``.
        empty_is_error: a summary that names no test counts as resolved officially; True refuses it.

    Raises:
        SummaryMissing: no summary, or an empty one under ``empty_is_error``.
        BootstrapFailed: no summary, and an installer failed.
    """
    try:
        results = pytest_summary(output)
    except SummaryMissing:
        require_bootstrap(output)
        raise
    if not results and empty_is_error:
        raise SummaryMissing("the short test summary names no test")
    failed = tuple(name for name, passed in results.items() if not passed)
    passed = tuple(name for name, passed in results.items() if passed)
    return Verdict(float(not failed), passed, failed, f"{len(failed)} of {len(results)} failed")
