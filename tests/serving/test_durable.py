"""What was acknowledged is on disk whatever becomes of the server; others can follow it."""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from serving.journal import Journal, Reader
from serving.server import PolicyServer, ServerOptions
from serving.sessions import SessionStore
from serving.turns import Feedback

from .scripted import ScriptedEngine
from .test_gateway import ask, chat
from .test_sdks import serving
from .test_sessions import turn

KILLS = 20


@contextlib.contextmanager
def killable(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "tests.serving.killable", str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as launcher:
        assert launcher.stdin is not None
        try:
            yield launcher
        finally:
            launcher.stdin.close()
            launcher.wait(30)


def start(launcher: "subprocess.Popen[str]") -> tuple[int, str]:
    """Return process id and base URL of a new server."""
    assert launcher.stdin is not None and launcher.stdout is not None
    launcher.stdin.write("\n")
    launcher.stdin.flush()
    pid, url = launcher.stdout.readline().split()
    return int(pid), url


async def converse(url: str, rng: random.Random, told: list[str], rated: list[str]) -> None:
    """Ask and rate; notes the ids of what was acknowledged."""
    stream = rng.random() < 0.5
    status, answer, headers = await ask(url, body=chat(f"{rng.random()}", stream=stream))
    assert status == 200 and (not stream or answer.endswith("[DONE]\n\n"))
    told.append(headers["X-Response-Id"])
    if rng.random() < 0.5:
        rating = {"id": told[-1], "rating": "down", "correction": "shorter"}
        assert (await ask(url, path="/v1/feedback", body=rating))[0] == 200
        rated.append(rating["id"])


async def until_killed(pid: int, url: str, rng: random.Random) -> tuple[list[str], list[str]]:
    """Talk to a server from several clients; kill it as soon as some of them were answered."""
    told: list[str] = []
    rated: list[str] = []
    enough = rng.randint(1, 5)

    async def client() -> None:
        while True:
            await converse(url, rng, told, rated)
            if len(told) + len(rated) >= enough:
                os.kill(pid, signal.SIGKILL)
                return

    with contextlib.suppress(Exception):  # connections the kill has cut
        await asyncio.gather(*(client() for _ in range(3)))
    return told, rated


def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    """Bug prevented: a reply its user has read, of which nothing is left after a crash."""
    rng = random.Random(5)
    told: list[str] = []
    rated: list[str] = []
    with killable(tmp_path) as launcher:
        for _ in range(KILLS):
            more_told, more_rated = asyncio.run(until_killed(*start(launcher), rng))
            assert more_told
            told += more_told
            rated += more_rated
            with Reader(tmp_path) as reader:
                assert {*told} <= {kept.id for _, kept in reader.turns_after(0, 9999)}
                assert {*rated} <= {said.turn for _, said in reader.feedback_after(0, 9999)}
    assert len(told) >= KILLS and rated


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_ends_only_when_it_is_on_disk(tiny: Path, tmp_path: Path, stream: bool) -> None:
    """Bug prevented: the wait for the disk holds up the replies of others, or of nobody."""

    async def play(url: str) -> None:
        for _ in range(3):
            (_, first, headers), _ = await asyncio.gather(
                *(ask(url, body=chat(stream=stream)) for _ in range(2))
            )
            assert not stream or first.endswith("[DONE]\n\n")
            with Reader(tmp_path) as reader:
                kept = [one.id for _, one in reader.turns_after(0, 99)]
            assert headers["X-Response-Id"] in kept

    with serving(tiny, "fine", options=ServerOptions(sessions=tmp_path, durable=True)) as (_, url):
        asyncio.run(play(url))


def test_a_full_disk_costs_nobody_a_reply(
    tiny: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Bug prevented: a reply that waits for ever, or is cut, because a disk is full."""

    async def play(url: str) -> None:
        status, answer, _ = await ask(url, body=chat("x" * 9000, stream=True))
        assert status == 200 and answer.endswith("[DONE]\n\n")
        status, answer, _ = await ask(url, body=chat("x" * 9000))
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "fine")

    with serving(tiny, "fine") as (engine, _):
        server = server_of(engine, ServerOptions(sessions=tmp_path, durable=True))
        assert server._journal is not None
        server._journal._database.execute("PRAGMA max_page_count=1")  # not below what is there
        with server:
            asyncio.run(play(server.base_url))
            assert server._journal.num_lost == 2
    assert "a turn or feedback is lost: database or disk is full" in caplog.text


def test_durable_without_a_folder_is_refused(tiny: Path) -> None:
    """Bug prevented: a promise that nothing keeps."""
    with serving(tiny, "fine") as (engine, _), pytest.raises(ValueError, match="sessions=FOLDER"):
        server_of(engine, ServerOptions(durable=True))


def server_of(engine: ScriptedEngine, options: ServerOptions) -> PolicyServer:
    return PolicyServer(engine, engine._renderer, api_key="secret", options=options)


def test_another_process_follows_by_numbers(tmp_path: Path) -> None:
    """Bug prevented: a turn that is seen twice, skipped, or kept after it was deleted."""
    with Reader(tmp_path / "none") as reader:
        assert reader.turns_after(0, 9) == [] == reader.forgotten_after(0, 9)
    with Journal(tmp_path) as journal, Reader(tmp_path) as reader:
        store = SessionStore(sinks=[journal])
        for text in ("a", "b", "c"):
            store.record(turn(text, text, turn_id=text))
        store.give("", Feedback("b", rating=1))
        journal.flush()
        seen = reader.turns_after(0, 2)
        assert [kept.text for _, kept in seen] == ["a", "b"]
        last = seen[-1][0]
        journal.turn(turn("a", "a", turn_id="a"))  # written again: still the first
        journal.flush()
        later = reader.turns_after(last, 9)
        assert [kept.text for _, kept in later] == ["c"]
        ((_, feedback),) = reader.feedback_after(0, 9)
        assert (feedback.turn, feedback.rating) == ("b", 1)

        store.forget("", "c")
        store.record(turn("d", "d", turn_id="d"))
        journal.flush()
        ((gone, name),) = reader.forgotten_after(0, 9)
        assert name == "c" and reader.forgotten_after(gone, 9) == []
        ((newest, kept),) = reader.turns_after(last, 9)
        assert kept.text == "d" and newest > later[0][0]  # a number is not given again
    with Reader(tmp_path) as reader:  # its writer has gone, and the log beside the file with it
        assert len(reader.turns_after(0, 9)) == 3


def test_a_reader_gets_past_what_it_cannot_read(tmp_path: Path) -> None:
    """Bug prevented: a cursor that stands for ever before one damaged row."""
    with Journal(tmp_path) as journal, Reader(tmp_path) as reader:
        for text in ("a", "b", "c"):
            journal.turn(turn("s", text))
        journal.flush()
        with journal._database:
            journal._database.execute("UPDATE turns SET body = '{' WHERE id LIKE 's-a%'")
        assert [kept.text for _, kept in reader.turns_after(0, 1)] == ["b"]


def test_a_file_without_tables_reads_as_empty(tmp_path: Path) -> None:
    """Bug prevented: a reader that starts in the moment the file is made fails."""
    (tmp_path / "turns.db").touch()
    with Reader(tmp_path) as reader:
        assert reader.turns_after(0, 9) == []
        with Journal(tmp_path) as journal:
            journal.turn(turn("s", "a"))
            journal.flush()
            assert len(reader.turns_after(0, 9)) == 1


def test_deleting_is_acknowledged_when_it_is_done(tiny: Path, tmp_path: Path) -> None:
    async def play(url: str) -> None:
        _, reply, _ = await ask(url, body=chat(), **{"X-Session-Id": "s"})
        await ask(url, "DELETE", "/v1/sessions/s")
        with Reader(tmp_path) as reader:
            assert [turn_id for _, turn_id in reader.forgotten_after(0, 9)] == [reply["id"]]
            assert reader.turns_after(0, 9) == []

    with serving(tiny, "fine", options=ServerOptions(sessions=tmp_path, durable=True)) as (_, url):
        asyncio.run(play(url))


def test_a_reader_may_be_closed_while_another_thread_reads(tmp_path: Path) -> None:
    """A run that is interrupted closes it under a read that nobody waits for any more."""
    with Journal(tmp_path) as journal:
        for rating in (1, -1) * 200:
            journal.feedback(Feedback("t", rating=rating))
    for _ in range(30):
        reader = Reader(tmp_path)
        with ThreadPoolExecutor(4) as threads:
            reads = [threads.submit(reader.feedback_after, 0, 400) for _ in range(8)]
            reader.close()
            assert all(len(read.result()) in (0, 400) for read in reads)
