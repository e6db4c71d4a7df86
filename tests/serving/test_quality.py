"""Judged quality over HTTP and over restarts; the chat page's files and their policy."""

import asyncio
from pathlib import Path

import pytest

from serving.chat_page import FOLDER
from serving.client import PolicyClient
from serving.quality import FILE, QualityLog, QualityPoint
from serving.server import ServerOptions

from .test_gateway import ask, chat
from .test_sdks import serving


def test_what_the_learner_tells_is_what_people_see_also_after_a_restart(
    tiny: Path, tmp_path: Path
) -> None:
    async def tell(url: str) -> None:
        async with PolicyClient(url, "boss") as client:
            await client.push_quality(3, 0.25, 8, at=5.0)
            await client.push_quality(4, 1, 1)
        point = {"version": 5, "score": 0.5, "judged": 2}
        assert (await ask(url, path="/admin/quality", body=point))[0] == 403

    async def see(url: str) -> None:
        _, listed, _ = await ask(url, "GET", "/v1/quality")
        assert listed["data"][0] == {"version": 3, "score": 0.25, "judged": 8, "at": 5.0}
        assert [point["version"] for point in listed["data"]] == [3, 4]
        assert (await ask(url, "GET", "/v1/quality", key="wrong"))[0] == 401

    options = ServerOptions(sessions=tmp_path, admin_key="boss")
    with serving(tiny, "fine", options=options) as (_, url):
        asyncio.run(tell(url))
        asyncio.run(see(url))
    with serving(tiny, "fine", options=options) as (_, url):
        asyncio.run(see(url))


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"score": 1e9}, "score"), ({"judged": 0}, "judged"), ({"version": -1}, "version")],
)
def test_points_that_say_nothing_are_refused(
    tiny: Path, changed: dict[str, float], field: str
) -> None:
    async def play(url: str) -> None:
        body = {"version": 1, "score": 0.5, "judged": 1, **changed}
        status, refused, _ = await ask(url, path="/admin/quality", body=body)
        assert status == 400 and refused["error"]["param"] == field

    with serving(tiny, "fine") as (_, url):
        asyncio.run(play(url))


def test_points_and_their_file_are_bounded(tmp_path: Path) -> None:
    """Bug prevented: a file that grows with every publication for ever."""
    log = QualityLog(tmp_path, most=3)
    for version in range(20):
        log.add(QualityPoint(version, 0.5, 1))
        assert len((tmp_path / FILE).read_text().splitlines()) <= 6
    with (tmp_path / FILE).open("a") as file:
        file.write('{"version": 20, "sc')  # killed while writing
    again = QualityLog(tmp_path, most=3)
    again.add(QualityPoint(21, 0.5, 1))
    for kept in (again, QualityLog(tmp_path, most=3)):
        assert [point.version for point in kept.points] == [18, 19, 21]


def test_the_answer_names_the_policy_that_gave_it(tiny: Path) -> None:
    async def play(url: str) -> None:
        _, reply, _ = await ask(url, body=chat())
        assert reply["system_fingerprint"] == "policy-7"
        _, text, _ = await ask(url, body=chat(stream=True))
        assert text.count('"system_fingerprint": "policy-7"') == 1
        _, listed, _ = await ask(url, "GET", "/v1/sessions")
        assert listed["data"][0]["title"] == "hi"

    with serving(tiny, "fine") as (_, url):
        asyncio.run(play(url))


def test_the_page_is_open_and_bound_to_its_own_files(tiny: Path) -> None:
    async def play(url: str) -> None:
        for path in ("/", *(f"/page/{file.name}" for file in FOLDER.iterdir())):
            status, text, headers = await ask(url, "GET", path, key="")
            assert status == 200 and text
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy
        for path in ("/page/nothing.js", "/page/..%2Fapp.py"):
            assert (await ask(url, "GET", path))[0] == 404

    with serving(tiny, "fine") as (_, url):
        asyncio.run(play(url))


def test_the_page_names_no_other_place() -> None:
    """Bug prevented: a font or a script that comes from somebody else's server."""
    for file in FOLDER.iterdir():
        told = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in told and "https:" not in told and "innerHTML" not in told, file.name
