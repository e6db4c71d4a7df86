"""Success, intervals and differences against hand-made numbers."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from agents.types import Episode
from rl import metrics, report
from rl.evaluation import Evaluation, difference, evaluate
from rl.store import Store
from tests.rl.records import episode, turn


def played(task: str, reward: float | None) -> Episode:
    made = episode([turn([1], [2])], reward=reward, name=f"{task}.m0")
    return replace(made, task_id=task, meta={"tags": ["heldout:template", "level:easy"]})


def test_lost_episodes_are_in_no_denominator() -> None:
    """A dead sandbox is neither a success nor a failure of the policy."""
    result = evaluate([played("a", 1.0), played("b", 0.0), played("c", None)])
    assert result.rate == 0.5
    assert result.lost == 1


def test_samples_of_a_task_are_averaged_first() -> None:
    """Tasks are the unit: a task played twice must not count twice."""
    result = evaluate([played("a", 1.0), played("a", 0.0), played("b", 0.0)])
    assert result.success == {"a": 0.5, "b": 0.0}


def test_wilson_interval_of_a_known_case() -> None:
    """8 of 10: [0.490, 0.943]."""
    result = Evaluation({str(i): float(i < 8) for i in range(10)}, 0).interval()
    assert np.allclose((result.low, result.high), (0.490, 0.943), atol=1e-3)


def test_difference_is_paired() -> None:
    """A gain on every task has no spread; no gain is exactly zero."""
    low = Evaluation({str(i): 0.0 for i in range(20)}, 0)
    high = Evaluation({str(i): 1.0 for i in range(20)}, 0)
    assert difference(low, high).low == 1.0
    mixed = Evaluation({str(i): float(i % 2) for i in range(20)}, 0)
    gain = difference(low, mixed)
    assert gain.low < 0.5 < gain.high
    assert difference(mixed, mixed).value == 0.0


def test_report_names_slices_gains_and_losses(tmp_path: Path) -> None:
    """The report is made from the folder alone, and every lost episode has its reason."""
    (tmp_path / "config.json").write_text(
        '{"env": "terminal", "model": "tiny", "seed": 0, "algorithm": {"name": "grpo"},'
        ' "warmstart": {"kind": "none"}}'
    )
    with Store(tmp_path) as store:
        for label, reward in (("start", 0.0), ("final", 1.0)):
            for task in ("a", "b"):
                one = replace(played(task, reward), id=f"{label}:{task}:0")
                store.append(one, f"eval:{label}@000001")
        store.append(episode([], reward=None, name="g000001.m0"))
    log = metrics.Metrics(tmp_path)
    log.write("rl", 1, {"reward": 0.5, "groups_trained": 1})
    log.write("eval:final", 1, {"success": 1.0, "tasks": 2, "lost": 0})
    log.close()
    text = report.write(tmp_path).read_text()
    assert "| all held-out tasks | 2 | 0.000" in text
    assert "1.000 [1.000, 1.000]" in text
    assert "level:easy" in text
    assert "g000001.m0: sandbox_lost: SandboxLost: gone" in text
    assert (tmp_path / "learning_curve.png").stat().st_size > 10_000


def test_metrics_of_a_resumed_run_do_not_double_back(tmp_path: Path) -> None:
    """Rows after the resumed step are dropped, and a torn last line is survived."""
    log = metrics.Metrics(tmp_path)
    for step in range(4):
        log.write("rl", step, {"reward": 0.0})
    log.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"phase": "rl", "st')
    resumed = metrics.Metrics(tmp_path)
    resumed.rewind(1, warmed=True)
    resumed.close()
    assert [row["step"] for row in metrics.read(tmp_path)] == [0, 1]
