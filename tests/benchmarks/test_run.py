"""Runs on simulated users: played, cut off, taken up again, failed by machines, read by tools."""

import asyncio
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agents.types import StopReason
from benchmarks.run import __main__ as command
from benchmarks.run import versions
from benchmarks.run.folder import Run, read_run
from benchmarks.run.play import Attempt, Player, Rules
from benchmarks.run.policy import Endpoint
from benchmarks.run.predictions import write_predictions
from benchmarks.run.records import Journal, Record, read_records, settled
from benchmarks.run.schedule import EverythingFails, Patience, Schedule
from benchmarks.run.settings import Settings, parse
from benchmarks.view import main as view
from envs.chat.env import ChatEnv
from envs.tasks.loading import load, write_jsonl
from envs.types import Task
from tests.benchmarks.chat_server import KEY, ChatServer, opening, turn

TASKS = {task.instruction: task for task in load("chat")}
COMMON = ["suite=chat", "workers=0", "episodes_per_worker=2", "retry_wait_s=0"]


def right(messages: Sequence[Mapping[str, Any]]) -> str:
    """Say what the oracle says."""
    task = TASKS[opening(messages)]
    replies = ChatEnv([task]).oracle(task)
    return replies[min(turn(messages), len(replies) - 1)]


@pytest.fixture(autouse=True)
def _key(monkeypatch) -> None:
    monkeypatch.setenv("CLAWGYM_API_KEY", KEY)


def run(server: ChatServer, out: Path, *words: str) -> int:
    return command.main([*COMMON, f"model={server.url}", f"out={out}", *words])


def test_a_run_is_played_and_reported(tmp_path):
    """The whole way: endpoint asked, episodes played, every file written, versions named."""
    with ChatServer(right) as server:
        assert run(server, tmp_path / "run", "n=4", "k=2") == 0
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["counts"] == {
        "tasks": 4, "samples": 8, "scored": 8, "lost": 0, "not_played": 0, "tries": 8,
    }  # fmt: skip
    assert summary["success"]["by_task"]["value"] == 1.0
    assert [row["k"] for row in summary["pass_at_k"]] == [1, 2]
    assert [row["reason"] for row in summary["stop_reasons"]] == ["solved"]
    assert summary["cost"]["reply_tokens"]["total"] > 0
    versions = summary["run"]["versions"]
    assert versions["model"]["name"] == "parrot"
    assert len(versions["tasks"]) == 64
    assert set(versions["code"]) == {"package", "commit", "dirty", "python"}
    report = (tmp_path / "run/report.md").read_text()
    assert "8 episodes of 4 tasks, 8 scored, none lost. **pass@1 1.000 [0.510, 1.000]**" in report
    assert (tmp_path / "run/report.png").stat().st_size > 1000
    assert {body["model"] for body in server.heard} == {"parrot"}


def test_the_same_seed_draws_the_same_tasks_and_seeds(tmp_path):
    with ChatServer(right) as server:
        run(server, tmp_path / "a", "n=3")
        run(server, tmp_path / "b", "n=3")
        run(server, tmp_path / "c", "n=3", "seed=1")
    a, b, c = (
        {(r.task_id, r.seed) for r in read_records(tmp_path / name / "episodes.jsonl")}
        for name in "abc"
    )
    assert a == b != c


def test_what_the_machine_lost_is_tried_again_and_never_a_zero(tmp_path, caplog):
    """Bug prevented: an outage read as failure of the model."""
    asked: Counter[str] = Counter()
    victim: list[str] = []

    def say(messages: Sequence[Mapping[str, Any]]) -> str | int:
        task = opening(messages)
        asked[task] += 1
        if not victim:
            victim.append(task)
        if task == victim[0]:
            return 500
        return 503 if asked[task] == 1 else right(messages)

    with ChatServer(say) as server:
        assert run(server, tmp_path / "run", "n=3", "retries=2") == 0
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["counts"]["scored"] == 2
    assert summary["counts"]["lost"] == 1
    assert summary["success"]["by_task"]["value"] == 1.0
    assert summary["lost"][0]["reason"] == "policy_error"
    assert summary["lost"][0]["cause"] == "PolicyUnavailable"
    assert asked[victim[0]] == 3
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("lost ")]
    assert len(lines) == 3 + 2  # one line per lost episode
    assert "1 lost (1 policy_error)" in (tmp_path / "run/report.md").read_text()


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    """Exit 130 with all played episodes on disk; resumed, none of them is played twice."""
    out = tmp_path / "run"
    played: list[str] = []
    interrupt = True

    def say(messages: Sequence[Mapping[str, Any]]) -> str:
        if not turn(messages):
            played.append(opening(messages))
            if interrupt and len(played) == 4:
                os.kill(os.getpid(), signal.SIGINT)
                threading.Event().wait(0.5)
        return right(messages)

    with ChatServer(say) as server:
        assert run(server, out, "n=8") == 130
        before = read_records(out / "episodes.jsonl")
        assert 1 <= len(before) < 8
        assert "samples not played yet" in (out / "report.md").read_text()
        with (out / "episodes.jsonl").open("a") as file:
            file.write('{"task_id": "cut sho')  # as a kill leaves it
        interrupt = False
        played.clear()
        words = [f"resume={out}", f"model={server.url}", "episodes_per_worker=1"]
        assert command.main(words) == 0
        assert len(played) == 8 - len(before)
        assert command.main([f"resume={out}"]) == 0
    records = read_records(out / "episodes.jsonl")
    assert len({r.key for r in records}) == len(records) == 8
    assert json.loads((out / "run.json").read_text())["resumed"]


def test_a_resumed_run_cannot_become_another(tmp_path, caplog):
    with ChatServer(right) as server:
        run(server, tmp_path / "run", "n=1")
        assert command.main([f"resume={tmp_path / 'run'}", "temperature=0.5"]) == 2
        assert run(server, tmp_path / "run", "n=1") == 2
    assert "start a new run" in caplog.text
    assert "go on with resume=" in caplog.text


def test_a_machine_that_fails_everything_ends_the_run(tmp_path):
    """Bug prevented: a server that is gone costs every sample of the night."""

    async def play() -> None:
        async with asyncio.timeout(30):
            await Schedule(Broken(), kept.append, settle.append, patience).play(many)

    class Broken:
        slots = 4

        async def play(self, attempt: Attempt) -> Record:
            return rules.lost(attempt, StopReason.SANDBOX_LOST, "SandboxLost: gone")

    rules = Rules("r", Endpoint(""), Settings())
    task = next(iter(TASKS.values()))
    many = [Attempt(task, "", i, 0) for i in range(100)]
    kept: list[Record] = []
    settle: list[Record] = []
    patience = Patience(retries=1, wait_s=0, lost_in_a_row=10)
    with pytest.raises(EverythingFails, match="10 episodes in a row were lost"):
        asyncio.run(play())
    assert 10 <= len(kept) < 20


def test_a_player_needs_no_ray_and_no_server():
    """The plain class, with a policy of the test's own."""
    from tests.agents.worlds import TalkingPolicy

    task = next(t for t in TASKS.values() if len(t.data["requests"]) == 1)
    rules = Rules("r", Endpoint(""), Settings(episodes_per_worker=1))

    async def play() -> Record:
        player = Player(rules, "w", TalkingPolicy(list(ChatEnv([task]).oracle(task))))
        try:
            return await player.play(Attempt(task, "d", 0, 5))
        finally:
            await player.close()

    record = asyncio.run(play())
    assert (record.reward, record.stop_reason, record.family) == (1.0, "solved", task.family)
    assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_a_lost_sample_is_settled_by_a_later_scored_one():
    rules = Rules("r", Endpoint(""), Settings())
    attempt = Attempt(next(iter(TASKS.values())), "", 0, 0)
    lost = rules.lost(attempt, StopReason.WORKER_LOST, "x")
    scored = Record(**{**vars(lost), "reward": 0.0, "stop_reason": StopReason.SUBMITTED})
    assert settled([lost, scored, lost])[lost.key] is scored


def test_the_journal_refuses_a_line_that_is_no_record(tmp_path):
    path = tmp_path / "episodes.jsonl"
    path.write_text('{"who": 1}\n')
    with pytest.raises(ValueError, match="line 1"):
        read_records(path)
    with Journal(path):
        pass
    assert path.read_text() == '{"who": 1}\n'


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["suite=chat", "model=x", "tmperature=1"], 2, "did you mean 'temperature'"),
        (["suite=chat", "model=x", "k=0"], 2, "whole number from 1"),
        (["suite=chat", "model=x", "k=1", "k=2"], 2, "twice"),
        (["suite=chat", "model=x", "split=test"], 2, "heldout"),
        (["suite=chatt", "model=x"], 2, "did you mean 'chat'"),
        (["suite=chat"], 2, "model= is missing"),
        (["suite=chat", "model=no-such-model"], 3, "model=no-such-model is not known"),
        (["suite=chat", "model=http://127.0.0.1:9"], 3, "no answer from"),
        (["suite=chat", "model=http://h", "serving.threads=1"], 2, "served here"),
        (["suite=chat", "model=http://h", "key_env=NOT_SET"], 2, "not set"),
        (["resume=/nowhere"], 2, "no benchmark run"),
    ],
)
def test_mistakes_are_named(tmp_path, monkeypatch, caplog, words, code, said):
    monkeypatch.chdir(tmp_path)
    assert command.main(words) == code
    assert said in caplog.text


def test_a_wrong_key_is_no_run_of_zeros(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("CLAWGYM_API_KEY", "wrong")
    with ChatServer(right) as server:
        assert run(server, tmp_path / "run") == 3
    assert "wrong key" in caplog.text


def test_two_runs_are_compared_on_what_they_share(tmp_path, capsys):
    def half(messages: Sequence[Mapping[str, Any]]) -> str:
        return right(messages) if hash_of(opening(messages)) else "I will not say."

    def hash_of(text: str) -> int:
        return sum(text.encode()) % 2

    with ChatServer(half) as server:
        run(server, tmp_path / "first", "n=8")
    with ChatServer(right) as server:
        run(server, tmp_path / "second", "n=8")
    assert view([str(tmp_path / "first"), str(tmp_path / "second")]) == 0
    text = capsys.readouterr().out
    solved = sum(r.solved for r in read_run(tmp_path / "first").episodes.values())
    assert "8 shared tasks" in text
    assert (
        f"both solved {solved}, neither 0, only the first 0, only the second {8 - solved}" in text
    )
    assert (tmp_path / "second/comparison.png").stat().st_size > 1000
    assert view([str(tmp_path / "first")]) == 0
    assert "# first" in capsys.readouterr().out
    assert view([str(tmp_path)]) == 2
    assert view(["--colour"]) == 2


def test_a_harbor_job_folder_is_written(tmp_path):
    def say(messages: Sequence[Mapping[str, Any]]) -> str | int:
        victim.append(opening(messages))
        return 500 if opening(messages) == victim[0] else right(messages)

    victim: list[str] = []

    with ChatServer(say) as server:
        assert run(server, tmp_path / "run", "n=2", "retries=0") == 0
    job = tmp_path / "run/harbor/run"
    result = json.loads((job / "result.json").read_text())
    (stats,) = result["stats"]["evals"].values()
    assert (stats["n_trials"], stats["n_errors"], result["n_total_trials"]) == (1, 1, 2)
    assert stats["metrics"] == [{"mean": 1.0}]
    assert list(stats["exception_stats"]) == ["PolicyUnavailable"]
    trials = {p.name: json.loads((p / "result.json").read_text()) for p in job.glob("*__*")}
    assert len(trials) == 2
    for name, trial in trials.items():
        lost = trial["exception_info"] is not None
        assert trial["trial_name"] == name
        assert lost == (trial["verifier_result"] is None)
        assert lost != (job / name / "verifier/reward.txt").exists()
        atif = json.loads((job / name / "agent/trajectory.json").read_text())
        assert [step["step_id"] for step in atif["steps"]] == list(range(1, len(atif["steps"]) + 1))
    assert not (tmp_path / "run/predictions.jsonl").exists()


def test_predictions_have_one_line_per_instance(tmp_path):
    """The official tool takes one patch per instance; a lost episode is no empty patch."""
    rules = Rules("r", Endpoint(""), Settings())
    blank = rules.lost(Attempt(next(iter(TASKS.values())), "", 0, 0), StopReason.ENV_ERROR, "x")
    played = {**vars(blank), "reward": 1.0, "stop_reason": StopReason.SOLVED, "patch": "diff\n"}
    records = [
        Record(**{**played, "task_id": "swe/a/1-2", "instance_id": "swe/a/1-2"}),
        Record(**{**played, "task_id": "swe/a/1-2", "instance_id": "swe/a/1-2", "sample": 1}),
        Record(**{**played, "task_id": "swe/b/1-2", "instance_id": "b__b-7", "patch": ""}),
        Record(**{**vars(blank), "task_id": "swe/c/1-2", "instance_id": "swe/c/1-2"}),
        Record(**{**played, "task_id": "swe/clamp/1"}),
    ]
    facts = {"versions": {"model": {"name": "parrot"}}}
    run_ = Run(tmp_path, facts, {record.key: record for record in records}, len(records))
    assert [path.name for path in write_predictions(run_)] == [
        "predictions.jsonl", "predictions.1.jsonl",
    ]  # fmt: skip
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").open()]
    assert rows == [
        {"instance_id": "swe/a/1-2", "model_name_or_path": "parrot", "model_patch": "diff\n"},
        {"instance_id": "b__b-7", "model_name_or_path": "parrot", "model_patch": ""},
    ]


def test_a_task_file_is_a_suite(tmp_path, monkeypatch):
    tasks = load("chat", split="train", limit=2)
    write_jsonl(tasks, tmp_path / "mine.jsonl")
    monkeypatch.chdir(tmp_path)
    with ChatServer(right) as server:
        words = ["suite=mine.jsonl", "split=train", f"model={server.url}", "workers=0"]
        assert command.main([*words, "out=run", "name=bird"]) == 0
    assert {key[0] for key in read_run(tmp_path / "run").episodes} == {task.id for task in tasks}
    assert "| model | bird |" in (tmp_path / "run/report.md").read_text()


def test_the_digest_of_a_task_set_does_not_depend_on_the_machine(tmp_path, monkeypatch):
    """Bug prevented: release tasks name files in the cache, which lies elsewhere for others."""
    digests = []
    for name in ("one", "two"):
        monkeypatch.setenv("CLAWGYM_CACHE", str(tmp_path / name))
        facts = tmp_path / name / "task.json"
        facts.parent.mkdir()
        facts.write_text("{}")
        blob = {"path": str(tmp_path / name / "x"), "sha256": "1"}
        task = Task("t", "swe", "f", "heldout", "i", data={"facts": str(facts), "gold": blob})
        digests.append(versions.task_digest(task))
    assert digests[0] == digests[1]
    facts.write_text("{1}")
    assert versions.task_digest(task) != digests[0]


def test_a_model_of_ours_is_served_for_the_run_and_ended(tmp_path, monkeypatch):
    """A random model says nothing right, and that is a result; the server is gone afterwards."""
    words = ["suite=chat", "model=tiny", "n=2", "max_steps=1", "max_reply_tokens=4", "workers=0"]
    assert command.main([*words, "serving.threads=1", f"out={tmp_path / 'run'}"]) == 0
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["counts"]["scored"] == 2
    assert summary["success"]["solved"] == 0
    assert len(summary["run"]["versions"]["model"]["digest"]) == 64
    assert summary["cost"]["reply_tokens"]["mean"] > 0
    assert not [pid for pid, said in _descendants().items() if b"-m\0serving" in said]


@pytest.mark.ray
def test_ray_workers_play_and_a_dead_one_is_replaced(tmp_path):
    """Two episodes over a real Ray; the worker is killed in the middle of the first."""
    killed: list[int] = []

    def say(messages: Sequence[Mapping[str, Any]]) -> str:
        if not killed:
            killed.append(_worker_pid())
            os.kill(killed[0], signal.SIGKILL)
            threading.Event().wait(1)
        return right(messages)

    with ChatServer(say) as server:
        words = ["suite=chat", f"model={server.url}", f"out={tmp_path / 'run'}", "n=2", "workers=1"]
        assert command.main([*words, "episodes_per_worker=1", "retry_wait_s=0"]) == 0
    records = read_records(tmp_path / "run/episodes.jsonl")
    assert [r.stop_reason for r in records].count(StopReason.WORKER_LOST) == 1
    assert [r.attempt for r in records].count(2) == 1
    assert sum(r.solved for r in records) == 2


def _worker_pid() -> int:
    (found,) = [pid for pid, said in _descendants().items() if said.startswith(b"ray::Player")]
    return found


def _descendants() -> dict[int, bytes]:
    """Return the command lines of this process's descendants, by id."""
    parents, said = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            said[int(path.name)] = (path / "cmdline").read_bytes()
        except OSError:
            continue

    def ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return {pid: line for pid, line in said.items() if pid != os.getpid() and ours(pid)}


@pytest.mark.docker
def test_terminal_tasks_are_played_in_sandboxes(tmp_path, terminal_image, state):
    """Two tasks with a scripted server that says the oracle's commands, then submits."""
    tasks = {task.instruction: task for task in load("terminal", split="heldout")}

    def say(messages: Sequence[Mapping[str, Any]]) -> str:
        commands = [*tasks[opening(messages)].data["oracle"], "submit"]
        return str(commands[min(turn(messages), len(commands) - 1)])

    with ChatServer(say) as server:
        words = ["suite=terminal", f"model={server.url}", f"out={tmp_path / 'run'}", "n=2"]
        assert command.main([*words, "workers=0", "episodes_per_worker=2"]) == 0
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["counts"]["scored"] == 2
    assert summary["success"]["solved"] == 2
    assert summary["run"]["versions"]["images"]["terminal"]["reference"] == terminal_image
    from envs.sandbox.reaper import survey

    assert not [found for found in survey() if found.run_id.startswith("run-")]


def test_lists_are_written_as_in_training():
    """`levels=[easy,hard]` is a list for `rl.train`; here it was two levels with brackets."""
    assert parse(["levels=[easy, hard]"]) == parse(["levels=easy,hard"])
    assert parse(["levels=[easy, hard]"])["levels"] == ("easy", "hard")
