"""The language of the browser's actions, and the table of addresses."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.browser.actions import (
    WORDS,
    Dialog,
    Goto,
    History,
    Press,
    Select,
    Tab,
    Upload,
    parse,
    to_text,
)
from envs.browser.miniwob.referee import scored
from envs.browser.site import Page, Site
from envs.errors import TaskError
from envs.gui.actions import BadAction, Click, Element, Keys, Move, Named, Point

ACTIONS = [
    Select(Element(4), ("Red",)), Select(Named("Colour"), ("Dark red", "blue")),
    Press(("ctrl", "a"), Element(3)), Upload(Element(5), "my notes.txt"),
    Goto("http://a.test/x?y=1#z"), History("back"), History("reload"), Tab("2"), Tab("new"),
    Tab("close"), Dialog(True), Dialog(True, "two words"), Dialog(False), Click(Element(1)),
    Click(Point(3, 4), "right"), Keys(("ctrl", "a")),
]  # fmt: skip


@pytest.mark.parametrize("action", ACTIONS, ids=repr)
def test_written_actions_are_read_back(action):
    """Recordings and oracles are text: one that reads back as another would do something else."""
    assert parse(to_text(action)) == action


def test_short_forms():
    """What a small model says without quotation marks is meant as it stands."""
    assert parse("select 4 Dark red") == Select(Element(4), ("Dark red",))
    assert parse('select "Colour" "a" "b"') == Select(Named("Colour"), ("a", "b"))
    assert parse("hover 3") == Move(Element(3))
    assert parse("press Enter") == Keys(("Return",))
    assert parse("upload 5 notes.txt") == Upload(Element(5), "notes.txt")


@pytest.mark.parametrize(
    "text",
    ["select", "select 4", "select x y", "press", "press 3 hyper", "goto", "goto a b", "tab",
     "tab 0x", "tab first", "dialog", "dialog maybe", "back 2", "upload 5", "dance", "clipboard",
     "goto " + "x" * 3000],
)  # fmt: skip
def test_nonsense_is_told(text):
    """Each is a message for the agent, never another exception."""
    with pytest.raises(BadAction):
        parse(text)


@given(st.sampled_from(WORDS), st.text(max_size=40))
def test_any_text_is_an_action_or_told(word, rest):
    """A reply of a model is any text."""
    try:
        parse(f"{word} {rest}")
    except BadAction as error:
        assert str(error)


def test_a_folder_is_served_and_nothing_beside_it(tmp_path: Path):
    """A page that climbs out of its folder would read this machine's files."""
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "a.html").write_text("<p>a")
    (tmp_path / "secret").write_text("s")
    (tmp_path / "pages" / "link").symlink_to(tmp_path / "secret")
    site = Site(folder=tmp_path / "pages", base="http://a.test/")
    found = site.answer("http://a.test/a.html?x=1#y")
    assert isinstance(found, Page) and found.body == b"<p>a" and found.type == "text/html"
    for path in ("../secret", "%2e%2e/secret", "link", "no.html", "", "..%2fsecret", "%00"):
        missing = site.answer(f"http://a.test/{path}")
        assert isinstance(missing, Page) and missing.status == 404, path
    for url in ("file:///etc/passwd", "http://b.test/a.html", "chrome://version", "javascript:1",
                "data:text/html,x", "http://[::1", "ftp://a.test/a.html"):  # fmt: skip
        assert site.answer(url) is None, url


def test_hosts_on_the_list_come_from_the_network():
    """And no host whose name only looks like it."""
    site = Site({"http://a.test/": "x"}, allow=("Good.test",))
    assert site.answer("https://good.test/x") == "network"
    assert site.answer("https://good.test.evil.test/x") is None
    assert site.answer("https://good.test@evil.test/x") is None


def test_a_bad_address_is_a_mistake_of_the_task():
    """It would be an empty page otherwise."""
    with pytest.raises(TaskError, match="no address"):
        Site({"/index.html": "x"})


@pytest.mark.parametrize(
    ("raw", "rule", "reward"),
    [(1.0, "raw", 1.0), (0.4, "raw", 0.4), (-1.0, "raw", 0.0), (0.1, "positive", 1.0),
     (-0.2, "positive", 0.0), (0.9, "binary", 0.0), (1.0, "binary", 1.0)],
)  # fmt: skip
def test_reward_rules(raw, rule, reward):
    """Upstream's, cut to what a verdict may be."""
    assert scored(raw, rule) == reward
