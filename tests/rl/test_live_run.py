"""Live chat as a user runs it: real gateway, trainer and Ray, the openai SDK as client, kill -9."""

import json
import os
import random
import signal
import sqlite3
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.rl.runs import Run, children

pytestmark = [pytest.mark.ray, pytest.mark.slow]

KEY = "a-key-for-this-test-only"
KEYS = {"CLAWGYM_API_KEY": KEY, "CLAWGYM_ADMIN_KEY": "an-admin-key-for-this-test"}
SETTINGS = [
    "env=chat", "model=tiny", "chat.batch=2", "chat.feedback_grace_s=0", "judge.model=rules",
    "checkpoint.every=1", "engine.context=512", "optim.lr=1e-3",
]  # fmt: skip


def address(run: Run, lives_before: int = 0) -> str:
    """Wait until it serves; return the base URL. All lives of a run share one output."""
    run.until(lambda: run.text().count("ready. Base URL") > lives_before)
    return str(json.loads((run.folder / "address.json").read_text())["base_url"])


def client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=60)


def ask(talk: openai.OpenAI, messages: list[Any]) -> Any:
    return talk.chat.completions.create(
        model="tiny", messages=messages, max_tokens=8, extra_body={"return_token_ids": True}
    )


def rate(url: str, reply_id: str, rating: int) -> None:
    request = urllib.request.Request(
        f"{url}/v1/feedback",
        json.dumps({"id": reply_id, "rating": rating}).encode(),
        {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200


def version(reply: Any) -> int:
    return int(max(reply.choices[0].model_extra["policy_versions"]))


def test_what_a_user_says_changes_the_weights_that_answer(tmp_path: Path) -> None:
    """Start, talk, rate, see a new version answer; interrupt, resume on the same address."""
    folder = tmp_path / "chat"
    with Run(folder, f"run={folder}", *SETTINGS, **KEYS) as run:
        url = address(run)
        talk, messages = client(url), [{"role": "user", "content": "hello"}]
        for rating in (1, -1):
            reply = ask(talk, messages)
            assert version(reply) == 0
            rate(url, reply.id, rating)
            messages += [
                {"role": "assistant", "content": reply.choices[0].message.content},
                {"role": "user", "content": "and then?"},
            ]
        run.until(lambda: bool(run.steps()))
        run.until(lambda: version(ask(talk, messages)) >= 1)
        run.process.send_signal(signal.SIGINT)
        assert run.wait(300) == 130, run.text()
    with Run(folder, f"resume={folder}", **KEYS) as resumed:
        assert address(resumed, 1) == url
        secret = "the password is tr0ub4dor99"
        assert version(ask(client(url), [*messages, {"role": "user", "content": secret}])) >= 1
    assert (folder / "report.md").exists()
    kept = [path for path in folder.rglob("*") if path.is_file()]
    assert kept and not [path for path in kept if b"tr0ub4dor99" in path.read_bytes()]


def test_a_policy_server_that_dies_comes_back_with_weights_and_conversations(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "revived"
    with Run(folder, f"run={folder}", *SETTINGS, **KEYS) as run:
        url = address(run)
        talk, messages = client(url), [{"role": "user", "content": "hello"}]
        for rating in (1, -1):
            reply = ask(talk, messages)
            rate(url, reply.id, rating)
        run.until(lambda: bool(run.steps()) and version(ask(talk, messages)) >= 1)
        for pid in children(run.process.pid, "ray::PolicyHost"):
            os.kill(pid, signal.SIGKILL)
        run.until(lambda: answers(talk, messages))
        assert version(ask(talk, messages)) >= 1


def answers(talk: openai.OpenAI, messages: list[Any]) -> bool:
    try:
        return bool(ask(talk, messages).choices)
    except openai.APIConnectionError:
        return False


def test_kill_9_loses_no_acknowledged_turn_and_trains_none_twice(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Killed at random moments of a talk, three times over; ``--kills=100`` takes an hour."""
    folder, chance = tmp_path / "killed", random.Random(0)
    acknowledged: list[str] = []
    last = request.config.getoption("--kills")
    for life in range(last + 1):
        arguments = [f"run={folder}", *SETTINGS] if life == 0 else [f"resume={folder}"]
        with Run(folder, *arguments, **KEYS) as run:
            url = address(run, life)
            talk = client(url)
            end = time.monotonic() + chance.uniform(0.5, 6.0)
            while time.monotonic() < end or life == last:
                reply = ask(talk, [{"role": "user", "content": f"message {len(acknowledged)}"}])
                acknowledged.append(reply.id)
                rate(url, reply.id, chance.choice((1, -1)))
                if life == last and len(acknowledged) % 8 == 0:
                    break
            if life == last:
                run.until(lambda: judged(folder) >= set(acknowledged))
            run.process.kill()
            run.wait()
    assert judged(folder) >= set(acknowledged)
    with sqlite3.connect(folder / "store.db") as db:
        times = Counter(name for (name,) in db.execute("SELECT group_id FROM batches"))
    assert times and set(times.values()) == {1}


def judged(folder: Path) -> set[str]:
    with sqlite3.connect(folder / "store.db") as db:
        return {name.removeprefix("chat:") for (name,) in db.execute("SELECT id FROM episodes")}


@pytest.mark.model
def test_a_preference_is_learned_from_thumbs(tmp_path: Path) -> None:
    """The 135M model, the openai SDK, and a user who wants to be called by their number."""
    folder = tmp_path / "liked"
    settings = ["env=chat", "algorithm=binary", "chat.batch=8", "chat.feedback_grace_s=0",
                "judge.model=rules", "checkpoint.every=1000", "engine.context=512",
                "optim.lr=3e-4"]  # fmt: skip
    with Run(folder, f"run={folder}", *settings, **KEYS) as run:
        url = address(run)
        talk = client(url)
        before = sum(names(hello(talk, 500 + i), 500 + i) for i in range(24))
        for step in range(1, 11):
            numbers = range(100 + 8 * step, 108 + 8 * step)
            with ThreadPoolExecutor(8) as at_once:
                replies = list(at_once.map(partial(hello, talk), numbers))
            for number, reply in zip(numbers, replies, strict=True):
                rate(url, reply.id, 1 if names(reply, number) else -1)
            run.until(lambda wanted=step: len(run.steps()) >= wanted)  # type: ignore[misc]
        after = sum(names(hello(talk, 500 + i), 500 + i) for i in range(24))
    assert after >= before + 6, (before, after, run.text()[-2000:])


def hello(talk: openai.OpenAI, number: int) -> Any:
    return talk.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": f"Hello, I am number {number}."}],
        max_tokens=12,
        temperature=0.8,
        seed=number,
    )


def names(reply: Any, number: int) -> bool:
    return str(number) in reply.choices[0].message.content
