"""What environments say of a step, in one form."""

import numpy as np

from agents.consequence import MAX_CHARS, consequence, missing
from envs.types import Verdict


def test_each_environments_way_of_saying_that_an_action_failed() -> None:
    shell = {"output": "x", "exit_code": 1}
    assert consequence({}, shell, {}).failure == ""  # an exit code may be an answer
    assert "in time" in consequence({}, shell, {"timed_out": True}).failure
    assert consequence({}, {"error": "no element 9"}, {}).failure == "no element 9"
    calls = {"failures": ["wrong_type", "unknown_tool"], "process": [{"score": 1.0}, {"score": 0}]}
    found = consequence({}, {}, calls)
    assert (found.failure, found.process) == ("wrong_type, unknown_tool", 0.5)
    assert consequence({}, {}, {"cell": "error"}).failure == "the cell ended with error"
    assert consequence({}, {}, {"cell": "ok", "failures": [], "process": []}).process is None


def test_screens_score_by_visible_change() -> None:
    before = {"tree": "[1] button", "screenshot": np.zeros((2, 2, 3), np.uint8)}
    assert consequence(before, dict(before), {}).process == 0.0
    assert consequence(before, {**before, "tree": "[1] menu"}, {}).process == 1.0
    other = {**before, "screenshot": np.ones((2, 2, 3), np.uint8)}
    assert consequence(before, other, {}).process == 1.0
    assert consequence({}, before, {}).process is None


def test_a_verdict_is_told_only_when_something_is_missing() -> None:
    assert missing(Verdict(1.0, passed=("a",))) == ""
    assert missing(Verdict(0.0, failed=("a", "b"), detail="2 lines")) == "a, b; 2 lines"
    detail = "file a.txt: missing"
    assert missing(Verdict(0.0, failed=("file a.txt",), detail=detail)) == detail
    long = consequence({}, {}, {"verdict": Verdict(0.0, detail="x" * 1000 + "end")}).verdict
    assert len(long) == MAX_CHARS + 1 and long.endswith("end")
