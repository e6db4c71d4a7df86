"""Public SWE rows as records, and verdicts that are swebench's own on real-looking logs."""

import json
from pathlib import Path
from typing import Any

import pytest

from envs.errors import TaskError, VerifierError
from envs.swe.formats.official import NoTestOutput, report, verdict
from envs.swe.formats.rows import Row, image_names, parse_row, read_rows

ROW: dict[str, Any] = {
    "instance_id": "own__words-1",
    "repo": "own/words",
    "base_commit": "0" * 40,
    "version": "1.0",
    "problem_statement": "Words are not counted.",
    "patch": "diff",
    "test_patch": "diff",
    "FAIL_TO_PASS": '["t.py::test_a", "t.py::test_b"]',
    "PASS_TO_PASS": ["t.py::test_c"],
    "image": "own/words:1",
    "eval_script": "pytest -rA",
    "log_parser": "parse_log_pytest",
    "eval_type": "pass_and_fail",
}


def log(a: str, b: str, c: str, code: int = 0, extra: str = "") -> str:
    lines = [f"{state} t.py::test_{name}" for name, state in zip("abc", (a, b, c), strict=True)]
    return "\n".join(
        ["+ : '>>>>> Start Test Output'", ">>>>> Start Test Output", extra, *lines,
         ">>>>> End Test Output", f">>>>> Test Exit Code: {code}", ""]
    )  # fmt: skip


def test_formats_are_told_apart() -> None:
    assert parse_row(ROW).kind == "swe-bench-5"
    old = {k: v for k, v in ROW.items() if k not in ("image", "eval_script", "log_parser")}
    assert parse_row(old).kind == "swe-bench"
    smith = {k: ROW[k] for k in ("instance_id", "repo", "patch", "FAIL_TO_PASS", "PASS_TO_PASS")}
    made = parse_row({**smith, "image_name": "i"})
    assert (made.kind, made.reversed, made.image) == ("swe-smith", True, "i")
    config = {"python": "3.9", "install": "pip install .", "test_cmd": "pytest -rA",
              "log_parser": "parse_log_pytest"}  # fmt: skip
    rebench = parse_row({**old, "install_config": config})
    assert (rebench.kind, rebench.log_parser) == ("swe-rebench", "parse_log_pytest")
    assert image_names(parse_row(old))[1] == "swebench/sweb.eval.x86_64.own_1776_words-1:latest"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"FAIL_TO_PASS": "t.py"}, "FAIL_TO_PASS"),
        ({"PASS_TO_PASS": [1]}, "PASS_TO_PASS"),
        ({"repo": 3}, "repo=3"),
        ({"install_config": {"python": "3.9"}}, "install_config lacks install"),
        ({"base_commit": None}, "base_commit"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW) + "\n" + json.dumps({**ROW, **change}) + "\n")
    with pytest.raises(TaskError, match=rf"row 2: {reason}"):
        read_rows(path)
    path.write_text(json.dumps([ROW, ROW]))
    with pytest.raises(TaskError, match="twice: own__words-1"):
        read_rows(path)


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        (log("PASSED", "PASSED", "PASSED"), 1.0),
        (log("PASSED", "XFAIL", "SKIPPED"), 1.0),
        (log("PASSED", "SKIPPED", "PASSED"), 0.0),
        (log("FAILED", "FAILED", "PASSED", 1), 0.0),
        (log("PASSED", "PASSED", "FAILED", 1), 0.0),
        (log("PASSED", "ERROR", "PASSED", 1), 0.0),
        (log("PASSED", "PASSED", "PASSED").replace("PASSED t.py::test_c", ""), 0.0),
    ],
)
def test_the_verdict_is_the_official_one(text: str, reward: float) -> None:
    """Bug prevented: rules of our own that drift from the ones results are compared by."""
    row = parse_row(ROW)
    assert report(row, text)["resolved"] is bool(reward)
    assert verdict(row, text).reward == reward


def test_no_run_of_the_tests_is_no_zero() -> None:
    row: Row = parse_row(ROW)
    for text in ("Killed", log("PASSED", "PASSED", "PASSED", code=1), ">>>>> Patch Apply Failed"):
        with pytest.raises(NoTestOutput):
            verdict(row, text)
    with pytest.raises(VerifierError, match="no report"):
        verdict(parse_row({**ROW, "log_parser": "none_such"}), log("PASSED", "PASSED", "PASSED"))
