"""The chat page in a real Chromium, over the real gateway; ``scripts/browser`` installs one."""

import asyncio
import os
import shutil
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from serving.client import PolicyClient
from serving.renderer import Renderer
from serving.server import ServerOptions

from .test_gateway import ask
from .test_sdks import serving

pytest.importorskip("playwright", reason="no Playwright: run scripts/setup gui")
from playwright.sync_api import Browser, Page, expect, sync_playwright

SLOW_S = 60.0  # a browser on a machine with much else to do
HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script> "
    "[a](javascript:alert(1)) **bold**\n- one\n- two\n```html\n<b>code</b>\n```"
)
Result = TypeVar("Result")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("CLAWGYM_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.fail("no Chromium: run scripts/browser")
    expect.set_options(timeout=SLOW_S * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context()
    context.set_default_timeout(SLOW_S * 1000)
    page = context.new_page()
    yield page
    context.close()


def away(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a thread: the browser's loop has this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()


def get(url: str, path: str) -> Any:
    return away(ask(url, "GET", path))[1]


def begins(folder: Path, text: str) -> str:
    """Return what the first token of a text spells."""
    renderer = Renderer(folder)
    return renderer.decode(renderer.encode(text)[:1])


def say(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def replies(page: Page) -> Any:
    return page.locator(".said.assistant .body")


def ended(page: Page) -> None:
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def test_a_conversation_is_streamed_rated_corrected_and_repeated(tiny: Path, page: Page) -> None:
    """Bug prevented: what a user said of a reply never reaches the learner, or the next turn of a
    page's conversation is tokenised again."""
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
    with serving(tiny, "one two three", "another one", "third") as (engine, url):
        page.goto(url)
        page.get_by_label("Key", exact=True).fill("secret")
        page.get_by_role("button", name="Open").click()

        engine.pause()
        say(page, "Count to three")
        expect(replies(page)).to_have_text(
            begins(tiny, "one two three")
        )  # the first token, and no more
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        engine.resume()
        expect(replies(page)).to_have_text("one two three")
        expect(page.get_by_text("policy version 7")).to_be_visible()

        page.get_by_label("Bad reply").click()
        page.get_by_label("What should it have said").fill("In German, please")
        page.get_by_role("button", name="Send correction").click()
        expect(page.get_by_role("button", name="Corrected")).to_be_focused()
        (row,) = get(url, "/v1/sessions")["data"]
        (turn,) = get(url, f"/v1/sessions/{row['id']}")["turns"]
        assert [said["rating"] for said in turn["feedback"]] == [-1, None]
        assert turn["feedback"][1]["correction"] == "In German, please"

        page.get_by_role("button", name="Regenerate").click()
        expect(replies(page)).to_have_text("another one")
        ended(page)
        say(page, "go on")
        expect(replies(page)).to_have_text(["another one", "third"])
        ended(page)
        turns = get(url, f"/v1/sessions/{row['id']}")["turns"]
        assert [one["parent"] for one in turns] == [None, None, turns[1]["id"]]
        assert get(url, "/admin/stats")["drift"]["exact"] == 1

        page.get_by_role("button", name="Edit").click()
        page.get_by_label("Edit your last message").fill("stop here")
        page.keyboard.press("Enter")
        expect(page.locator(".said.user")).to_have_text(["YouCount to three", "Youstop here"])
        ended(page)
        assert len(get(url, f"/v1/sessions/{row['id']}")["turns"]) == 4
    assert not faults and all(one.startswith((url, "blob:")) for one in seen)


def test_sessions_are_listed_opened_exported_and_deleted(tiny: Path, page: Page) -> None:
    with serving(tiny, "fine") as (_, url):
        page.goto(f"{url}/#key=secret")
        expect(page.get_by_label("Message", exact=True)).to_be_visible()
        assert page.url == f"{url}/"  # a key in the address would stay in the history
        say(page, "first talk")
        ended(page)
        page.get_by_label("Good reply").click()
        expect(page.get_by_label("Good reply")).to_have_attribute("aria-pressed", "true")
        page.get_by_role("button", name="New session").click()
        expect(replies(page)).to_have_count(0)
        say(page, "second talk")
        ended(page)
        listed = page.locator("#sessions .title")
        expect(listed).to_have_text(["second talk", "first talk"])

        page.reload()
        page.locator("#sessions .open", has_text="first talk").click()
        expect(page.locator(".said.user")).to_have_text("Youfirst talk")
        expect(page.get_by_label("Good reply")).to_have_attribute("aria-pressed", "true")
        with page.expect_download() as download:
            page.get_by_label("Export first talk").click()
        assert '"first talk"' in Path(download.value.path()).read_text()
        say(page, "more")
        ended(page)
        expect(replies(page)).to_have_text(["fine", "fine"])
        assert get(url, "/admin/stats")["drift"]["exact"] == 1

        page.get_by_label("Delete first talk").click()
        page.get_by_role("button", name="Delete first talk for good?").click()
        expect(listed).to_have_text(["second talk"])
        expect(replies(page)).to_have_count(0)
        assert [row["title"] for row in get(url, "/v1/sessions")["data"]] == ["second talk"]


def test_a_stopped_reply_is_gone_on_from(tiny: Path, page: Page) -> None:
    """Bug prevented: what the page shows of a stopped reply is not what the server recorded, and
    the conversation forks."""
    told = begins(tiny, "a long story")
    with serving(tiny, "a long story", "fine") as (engine, url):
        page.goto(f"{url}/#key=secret")
        engine.pause()
        say(page, "tell")
        expect(replies(page)).to_have_text(told)
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_text("stopped")).to_be_visible()
        engine.resume()
        say(page, "go on")
        expect(replies(page)).to_have_text([told, "fine"])
        ended(page)
        assert get(url, "/admin/stats")["drift"]["realigned"] == 1


def test_a_hostile_reply_is_text(tiny: Path, page: Page) -> None:
    """Bug prevented: a model that runs a script in its user's browser, with its user's key."""
    with serving(tiny, HOSTILE) as (_, url):
        page.goto(f"{url}/#key=secret")
        say(page, "<b onclick=alert(1)>be nasty</b>")
        ended(page)
        body = replies(page)
        expect(body.locator("strong")).to_have_text("bold")
        expect(body.locator("li")).to_have_text(["one", "two"])
        expect(body.locator("pre")).to_have_text("<b>code</b>")
        expect(body).to_contain_text("<img src=x onerror=\"document.title='owned'\">")
        page.locator("#sessions .open").click()  # and once more, from the record
        expect(body).to_contain_text("<script>")
        assert page.locator("#room :is(img, script, b, a, iframe)").count() == 0
        expect(page).to_have_title("Chat")


def test_the_curve_shows_what_the_learner_told(tiny: Path, page: Page) -> None:
    async def push(url: str) -> None:
        async with PolicyClient(url, "secret") as client:
            for version, score in enumerate((0.2, 0.5, 0.75), 1):
                await client.push_quality(version, score, 4)

    with serving(tiny, "fine") as (_, url):
        page.goto(f"{url}/#key=secret")
        expect(page.get_by_text("No replies were judged yet.")).to_be_visible()
        away(push(url))
        say(page, "hi")  # a reply draws it anew
        expect(page.get_by_text("Version 3: 0.75 over 4 replies")).to_be_visible()
        points = page.locator("#quality polyline").get_attribute("points") or ""
        heights = [float(point.split(",")[1]) for point in points.split()]
        assert len(heights) == 3 and heights == sorted(heights, reverse=True)


def test_what_went_wrong_is_said(tiny: Path, page: Page) -> None:
    """Bug prevented: a page that waits for ever, or loses what was typed, without a word."""
    options = ServerOptions(requests_per_minute=1)
    with serving(tiny, "fine", options=options) as (_, url):
        page.goto(f"{url}/#key=wrong")
        expect(page.get_by_text("This key is wrong.")).to_be_visible()
        page.get_by_label("Key", exact=True).fill("secret")
        page.keyboard.press("Enter")
        say(page, "one")
        expect(replies(page)).to_have_text("fine")
        ended(page)
        say(page, "two")
        expect(page.get_by_text("Too many requests: try again in")).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".failure")).to_have_text("The server does not answer.")
    expect(page.locator(".said.user")).to_have_text(["Youone", "Youtwo"])
