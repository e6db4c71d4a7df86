"""The judge's benchmark: definitions, intervals, messages about bad rows, the whole program."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.judge import Case, Share, UserError, main, measure, read_rows, render


def case(label: int, score: int, confidence: float = 0.9, kind: str = "k") -> Case:
    return Case("x", kind, label, score, confidence, "default", 0.01)


def row(**fields: Any) -> str:
    base: dict[str, Any] = {
        "id": "a", "kind": "tool_failure", "label": -1,
        "history": [{"role": "user", "content": "hi"}],
        "reply": {"role": "assistant", "content": "", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        "next_state": [{"role": "tool", "tool_call_id": "c", "content": '{"exit_code": 3}'}],
    }  # fmt: skip
    return json.dumps({**base, **fields})


def test_wilsons_interval_in_closed_form() -> None:
    low, high = Share(8, 10).interval
    assert low == pytest.approx(0.4902, abs=1e-4) and high == pytest.approx(0.9433, abs=1e-4)
    assert Share(0, 10).interval[0] == 0 and Share(0, 10).interval[1] == pytest.approx(
        0.2775, abs=1e-4
    )
    assert math.isnan(Share(0, 0).value)


def test_each_rate_is_what_its_definition_says() -> None:
    cases = [case(-1, 1), case(-1, 0), case(-1, -1), case(-1, -1), case(1, 1), case(1, -1),
             case(1, 0), case(1, 1), case(0, 1), case(0, 0)]  # fmt: skip
    report = measure(cases)
    shares = {name: (report[name]["hits"], report[name]["of"])
              for name in ("fp", "fn", "fp_strict", "fn_strict")}  # fmt: skip
    assert shares == {"fp": (1, 4), "fn": (1, 4), "fp_strict": (2, 6), "fn_strict": (2, 4)}
    good = report["classes"]["good"]
    assert (good["precision"]["hits"], good["precision"]["of"]) == (2, 4)
    assert (good["recall"]["hits"], good["recall"]["of"]) == (2, 4)
    assert report["kinds"]["k"]["rows"] == 10 and len(report["wrong"]) == 5
    assert "FP strict" in render(report)


def test_the_calibration_error_is_the_mean_gap() -> None:
    cases = [case(1, 1, 0.95)] * 3 + [case(1, -1, 0.95)] + [case(1, 1, 0.55)] * 2
    assert measure(cases)["ece"] == pytest.approx((4 * 0.2 + 2 * 0.45) / 6)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        (row(label=2), "label is 2"),
        (row(label=True), "label is True"),
        (row(history="hi"), "history must be a list"),
        (row(next_state=[{"content": "no role"}]), "a message must be"),
    ],
)
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(row() + "\n\n" + line + "\n")
    with pytest.raises(UserError, match=rf"rows\.jsonl:3: .*{why}"):
        read_rows(path)


def test_the_program_from_file_to_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "rows.jsonl", tmp_path / "out"
    path.write_text(row() + "\n" + row(id="b", kind="thanks", label=1, next_state=[]))
    assert main([f"data={path}", "judge=rules", f"out={out}"]) == 0
    shown = capsys.readouterr().out
    assert "2 exchanges" in shown and "tool_failure" in shown
    report = json.loads((out / "judge.json").read_text())
    assert report["fp"]["of"] == 1 and report["fp"]["hits"] == 0
    assert (out / "calibration.png").read_bytes().startswith(b"\x89PNG")
    assert main([f"data={path}", "judge=nonsense"]) == 2
    assert main(["data=test", "judge=rules"]) == 0
    assert "333 exchanges" in capsys.readouterr().out
    assert main([f"data={tmp_path / 'none'}"]) == 2 and main(["judge=rules"]) == 2
