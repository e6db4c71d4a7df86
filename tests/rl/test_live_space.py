"""Live chat on a disk that gets full: everybody is answered, and told; learning waits for space."""

import asyncio
import json
import logging
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from rl.errors import NoSpaceError
from rl.live.patience import Patience
from tests.rl.disks import fill, small_disk
from tests.rl.runs import Run
from tests.rl.test_live_run import KEYS, SETTINGS, address, client, rate

HELLO: list[Any] = [{"role": "user", "content": "hello"}]


def test_console_is_told_once_and_again_when_it_is_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A line for every lost write would bury the one that helps."""
    with small_disk(tmp_path / "disk", 4) as disk, caplog.at_level(logging.WARNING):
        patience = Patience(disk, retry_s=0.0)
        patience.look()
        assert not caplog.records
        filler = fill(disk)
        for _ in range(5):
            patience.look()
            asyncio.run(patience(NoSpaceError(str(disk))))
        said = [record.getMessage() for record in caplog.records]
        assert len(said) == 1 and said[0].startswith(f"no space left on {disk}:")
        filler.unlink()
        patience.look()
        assert caplog.records[-1].getMessage().startswith("there is space again")
        assert patience.reason == ""


@pytest.mark.ray
@pytest.mark.slow
def test_full_disk_costs_nobody_a_reply_and_learning_goes_on_by_itself(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "run", 48) as folder,
        Run(folder, f"run={folder}", *SETTINGS, **KEYS) as run,
    ):
        url = address(run)
        talk = client(url)
        assert recorded(talk)
        filler = fill(folder)
        run.until(lambda: "no space left" in run.text())
        assert "free some" in run.text()
        assert any(not recorded(talk) for _ in range(200))
        assert "free some space" in health(url)["warning"]
        assert waiting(run, talk, url)
        filler.unlink()
        run.until(lambda: recorded(talk))
        assert "warning" not in health(url)
        before = len(run.steps())
        for rating in (1, -1):
            rate(url, talk.chat.completions.create(model="tiny", messages=HELLO).id, rating)
        run.until(lambda: len(run.steps()) > before)
        run.until(lambda: "there is space again" in run.text())


def recorded(talk: Any) -> bool:
    raw = talk.chat.completions.with_raw_response.create(
        model="tiny", messages=[{"role": "user", "content": "x" * 300}], max_tokens=8
    )
    assert raw.parse().choices
    return raw.headers.get("X-Recorded") != "no"


def waiting(run: Run, talk: Any, url: str) -> bool:
    """Whether the run says that it lives and waits."""
    for _ in range(3):
        assert not recorded(talk)
    assert run.process.poll() is None
    return bool(health(url)["live"])


def health(url: str) -> Any:
    with urllib.request.urlopen(f"{url}/health", timeout=30) as answer:
        return json.loads(answer.read())
