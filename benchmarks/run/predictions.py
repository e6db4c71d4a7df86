"""A run in the files of other tools: SWE-bench's predictions and a Harbor job folder.

``predictions.jsonl`` has one line per instance, of its first sample; further samples go to
``predictions.<sample>.jsonl``, since the official tool takes one patch per instance. The job folder
follows Harbor 0.26 (job and trial results, ATIF-v1.8 trajectories); a lost episode has an
``exception_info`` and no reward.
"""

import json
import re
import shutil
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.run.folder import Run, write_whole
from benchmarks.run.records import Record

AGENT = "clawgym"
ATIF = "ATIF-v1.8"
_SPACE = uuid.UUID("6c0a1f2e-6d0b-5a0e-9a51-d53c1b3c9f10")


def write_predictions(run: Run) -> list[Path]:
    """Write the predictions of tasks that are SWE-bench instances or like them; return the files.

    An episode whose patch could not be read, or that was lost, has no line: an empty patch would
    say that the model changed nothing.
    """
    model = _model(run)
    lines: dict[int, list[str]] = {}
    for record in _in_order(run):
        if record.instance_id and record.patch is not None:
            row = {
                "instance_id": record.instance_id,
                "model_name_or_path": model,
                "model_patch": record.patch,
            }
            lines.setdefault(record.sample, []).append(json.dumps(row) + "\n")
    paths = []
    for sample, rows in sorted(lines.items()):
        name = f"predictions.{sample}.jsonl" if sample else "predictions.jsonl"
        write_whole(run.folder / name, "".join(rows))
        paths.append(run.folder / name)
    return paths


def write_harbor(run: Run, summary: Mapping[str, Any]) -> Path:
    """Write ``harbor/<run>/``, anew as a whole; return it."""
    job = run.folder / "harbor" / run.name
    building = job.with_name(f".{job.name}.part")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    trials = [_trial(run, record, building) for record in _in_order(run)]
    settings = run.facts["settings"]
    config = {
        "job_name": run.name,
        "jobs_dir": str(job.parent),
        "n_attempts": settings["k"],
        "n_concurrent_trials": max(1, settings["workers"]) * settings["episodes_per_worker"],
        "agents": [{"name": AGENT, "model_name": _model(run)}],
        "datasets": [],
        "tasks": [],
    }
    _write(building / "config.json", config)
    _write(building / "result.json", _job_result(run, summary, trials))
    shutil.rmtree(job, ignore_errors=True)
    building.rename(job)
    return job


def _job_result(run: Run, summary: Mapping[str, Any], trials: list[Any]) -> dict[str, Any]:
    scored = [trial for trial in trials if trial["verifier_result"]]
    lost = [trial for trial in trials if trial["exception_info"]]
    rewards: dict[str, list[str]] = {}
    for trial in scored:
        rewards.setdefault(str(trial["verifier_result"]["rewards"]["reward"]), []).append(
            trial["trial_name"]
        )
    errors: dict[str, list[str]] = {}
    for trial in lost:
        errors.setdefault(trial["exception_info"]["exception_type"], []).append(trial["trial_name"])
    mean = summary["mean_reward"]["value"]
    ends = [trial["finished_at"] for trial in trials]
    evals = {
        "n_trials": len(scored),
        "n_errors": len(lost),
        "metrics": [] if mean is None else [{"mean": mean}],
        "pass_at_k": {
            str(row["k"]): row["by_task"]["value"] for row in summary["pass_at_k"] if row["k"] > 1
        },
        "reward_stats": {"reward": rewards} if rewards else {},
        "exception_stats": errors,
    }
    return {
        "id": str(uuid.uuid5(_SPACE, run.facts["id"])),
        "started_at": run.facts["started"],
        "finished_at": max(ends, default=None) if len(trials) >= run.planned else None,
        "n_total_trials": run.planned,
        "stats": {
            "n_completed_trials": len(trials),
            "n_errored_trials": len(lost),
            "n_retries": run.tries - len(trials),
            "n_input_tokens": sum(t["agent_result"]["n_input_tokens"] for t in trials),
            "n_output_tokens": sum(t["agent_result"]["n_output_tokens"] for t in trials),
            "evals": {f"{AGENT}__{_model(run)}__{_suite(run)}": evals},
        },
    }


def _trial(run: Run, record: Record, job: Path) -> dict[str, Any]:
    """Write one trial's folder; return its result."""
    name = trial_name(record)
    folder = job / name
    for part in ("agent", "verifier", "artifacts"):
        (folder / part).mkdir(parents=True)
    config = {"task": {"path": record.task_id}, "trial_name": name, "trials_dir": str(run.folder)}
    config["agent"] = {"name": AGENT, "model_name": _model(run)}
    started, ended = record.started_at, record.started_at + record.duration_s
    result = {
        "id": str(uuid.uuid5(_SPACE, f"{run.facts['id']}/{record.task_id}/{record.sample}")),
        "task_name": record.task_id,
        "trial_name": name,
        "trial_uri": f"clawgym:{run.name}/{name}",
        "task_id": {"path": record.task_id},
        "source": _suite(run),
        "task_checksum": record.task_digest,
        "config": config,
        "agent_info": {
            "name": AGENT,
            "version": run.facts["versions"]["code"]["package"],
            "model_info": {"name": _model(run)},
        },
        "agent_result": {
            "n_input_tokens": record.prompt_tokens,
            "n_output_tokens": record.reply_tokens,
            "metadata": {"stop_reason": str(record.stop_reason), "seed": record.seed},
        },
        "verifier_result": None if record.lost else {"rewards": {"reward": record.reward}},
        "exception_info": _exception(record, ended),
        "started_at": _time(started),
        "finished_at": _time(ended),
        "agent_execution": {"started_at": _time(started), "finished_at": _time(ended)},
    }
    _write(folder / "config.json", config)
    _write(folder / "result.json", result)
    _write(folder / "agent" / "trajectory.json", trajectory(run, record))
    if record.reward is not None:
        (folder / "verifier" / "reward.txt").write_text(f"{record.reward:g}\n")
    if record.patch is not None:
        (folder / "artifacts" / "model.patch").write_text(record.patch, "utf-8")
    return result


def trajectory(run: Run, record: Record) -> dict[str, Any]:
    """Return an episode as an ATIF trajectory: the task as the user's step, then the turns."""
    steps: list[dict[str, Any]] = [
        {"step_id": 1, "source": "user", "message": record.instruction,
         "timestamp": _time(record.started_at)}
    ]  # fmt: skip
    for turn in record.turns:
        steps.append(
            {
                "step_id": len(steps) + 1,
                "source": "agent",
                "message": turn.text,
                "observation": {"results": [{"content": turn.observation}]},
                "metrics": {
                    "prompt_tokens": turn.prompt_tokens,
                    "completion_tokens": turn.reply_tokens,
                },
                "llm_call_count": 1,
            }
        )
    return {
        "schema_version": ATIF,
        "session_id": f"{run.name}/{trial_name(record)}",
        "agent": {
            "name": AGENT,
            "version": run.facts["versions"]["code"]["package"],
            "model_name": _model(run),
        },
        "steps": steps,
        "final_metrics": {
            "total_prompt_tokens": record.prompt_tokens,
            "total_completion_tokens": record.reply_tokens,
            "total_steps": len(steps),
        },
    }


def trial_name(record: Record) -> str:
    """Return the trial's folder name: the task's, and seven characters of task and sample."""
    slug = re.sub(r"[^A-Za-z0-9.-]+", "-", record.task_id).strip("-.")[:60]
    return f"{slug}__{sha256(f'{record.task_id}/{record.sample}'.encode()).hexdigest()[:7]}"


def _exception(record: Record, at: float) -> dict[str, Any] | None:
    if not record.lost:
        return None
    kind, _, message = record.error.partition(": ")
    return {
        "exception_type": kind or str(record.stop_reason),
        "exception_message": message,
        "exception_traceback": "",
        "occurred_at": _time(at),
    }


def _in_order(run: Run) -> list[Record]:
    return [run.episodes[key] for key in sorted(run.episodes)]


def _model(run: Run) -> str:
    return str(run.facts["versions"]["model"]["name"])


def _suite(run: Run) -> str:
    return Path(run.facts["settings"]["suite"]).name.removesuffix(".jsonl")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", "utf-8")
