"""Browsers in their real containers, with pages of our own."""

from collections.abc import Iterator

import numpy as np
import pytest

from envs import images
from envs.browser import shelf
from envs.browser.browser import BrowserLost
from envs.browser.env import BrowserEnv
from envs.browser.miniwob import tasks as miniwob
from envs.errors import SandboxLost, TaskError
from envs.sandbox.pool import SandboxPool
from envs.types import Task, TaskLimits

pytestmark = pytest.mark.docker
LIMITS = TaskLimits(max_steps=30, memory_bytes=1 << 30, pids=256, disk_bytes=128 << 20, cpus=2.0)
BASE = "http://shop.test/"


@pytest.fixture(scope="module")
def env() -> Iterator[BrowserEnv]:
    images.ensure("gui")
    with SandboxPool(run_id="test-browser", max_idle=1) as pool:
        world = BrowserEnv([page("<p>empty")], pool, observe="all", width=400, height=300)
        yield world
        world.close()
        shelf.clear(pool)


def page(body: str, checks: object = None, **data: object) -> Task:
    """A task of one page, and of whatever else ``data`` brings."""
    pages = {BASE: f"<!doctype html><title>Shop</title><body>{body}"}
    more = data.pop("pages", {})
    assert isinstance(more, dict)
    goal = checks or [{"kind": "address", "is": "http://nowhere.test/"}]
    values = {"start": BASE, "pages": pages | more, "checks": goal, **data}
    return Task("browser/own/1", "browser", "own", "train", "Do it.", "gui", LIMITS, values)


def number(seen: object, words: str) -> int:
    """The id of the first line of a tree that holds these words."""
    assert isinstance(seen, dict)
    line = next(line for line in seen["tree"].splitlines() if words in line)
    return int(line.split("[")[1].split("]")[0])


FORM = """
<form onsubmit="document.title = 'sent'; return false">
<label for=n>Name</label><input id=n><input type=checkbox id=c aria-label=News>
<select id=s aria-label=Size><option>S<option>M<option>L</select>
<input type=date id=d aria-label=Day><textarea id=t aria-label=Note>old</textarea>
<button>Send</button></form>
<div style="height: 2000px"></div><button onclick="this.textContent = 'found'">far</button>
"""


def test_a_form_is_filled_by_ids(env):
    """Every kind of field takes what it is given, and the checks see it from their own world."""
    checks = [
        {"kind": "value", "at": "#n", "is": "Ada ≠ 日本"}, {"kind": "value", "at": "#s", "is": "M"},
        {"kind": "checked", "at": "#c", "is": "true"}, {"kind": "value", "at": "#t", "is": "7"},
        {"kind": "value", "at": "#d", "is": "2026-01-05"},
    ]  # fmt: skip
    seen, _ = env.reset(options={"task": page(FORM, checks)})
    assert seen in env.observation_space
    for action in (f"fill {number(seen, 'Name')} Ada ≠ 日本", f"click {number(seen, 'News')}",
                   f"select {number(seen, 'Size')} M", f"fill {number(seen, 'Day')} 2026-01-05",
                   f"fill {number(seen, 'Note')} 7", 'click "Send"'):  # fmt: skip
        seen, reward, *_ = env.step(action)
        assert (seen["error"], reward) == ("", 0.0), action
    assert seen["title"] == "sent" and "<input [" in seen["dom"]
    _, reward, terminated, _, info = env.step("done")
    assert terminated and reward == 1.0, info["verdict"].detail


def test_what_is_out_of_sight_is_brought_into_view(env):
    """An element below the picture would otherwise be clicked somewhere else."""
    seen, _ = env.reset(options={"task": page(FORM)})
    far = next(line for line in seen["tree"].splitlines() if '"far"' in line)
    assert "offscreen" in far
    before = seen["screenshot"]
    seen, *_ = env.step(f"click {number(seen, 'far')}")
    assert '"found"' in seen["tree"]
    assert not np.array_equal(before, seen["screenshot"])


def test_bad_actions_are_told_and_change_nothing(env):
    """Points outside, unknown elements and nonsense cost a step and nothing else."""
    before, _ = env.reset(options={"task": page(FORM)})
    for action in ("click 4000 5", "press hyper", "click 99", "dance", "", "select 1 X", "tab 5",
                   "upload 2 x.txt", "dialog accept", "fill 4 x", "back",
                   "goto http://other.test/"):  # fmt: skip
        seen, reward, *_ = env.step(action)
        assert seen["error"], action
        assert (seen["dom"], reward) == (before["dom"], 0.0), action


def test_no_other_host_and_no_file_is_reached(env):
    """A hostile page that reads this machine or the container would be a hole in the sandbox."""
    hostile = """<pre id=o></pre><iframe src="file:///etc/passwd"></iframe>
    <img src="http://other.test/x.png"><script>
    const say = (what, words) => o.textContent += what + ":" + words + " ";
    fetch("http://127.0.0.1/").then(r => say("fetch", "open"), () => say("fetch", "shut"));
    fetch("file:///etc/passwd").then(r => say("file", "open"), () => say("file", "shut"));
    const s = new WebSocket("ws://other.test/"); s.onopen = () => say("socket", "open");
    s.onerror = () => say("socket", "shut");
    if (window.open("file:///etc/passwd")) 0;
    </script>"""
    env.reset(options={"task": page(hostile)})
    seen, *_ = env.step("wait 0.5")
    while "*" in seen["tabs"] and "* 1" not in seen["tabs"]:
        seen, *_ = env.step("tab 1")
    for what in ("fetch", "file", "socket"):
        assert f"{what}:shut" in seen["tree"], seen["tree"]
    assert "root:" not in seen["tree"] + seen["dom"]


def test_what_is_refused_is_named(env):
    """An empty page without a reason cannot be told from a slow one."""
    body = '<a href="http://other.test/x">away</a>'
    env.reset(options={"task": page(body)})
    seen, *_ = env.step("click 1")
    assert "refused: http://other.test/x" in seen["notes"]


def test_dialogs_stay_open_until_answered(env):
    """A dialog stops the page's scripts: whoever waits for the page waits for ever."""
    body = (
        """<button onclick="document.title = prompt('Who?', 'x') + confirm('Sure?')">ask</button>"""
    )
    env.reset(options={"task": page(body)})
    seen, *_ = env.step("click 1")
    assert seen["dialog"] == 'prompt "Who?"'
    seen, *_ = env.step("click 1")
    assert "dialog" in seen["error"]
    seen, *_ = env.step("dialog accept Ada")
    assert seen["dialog"] == 'confirm "Sure?"'
    seen, *_ = env.step("dialog dismiss")
    assert (seen["dialog"], seen["title"]) == ("", "Adafalse")


def test_alerts_without_end_end_with_the_steps(env):
    """Each answer comes back at once with the next alert; nothing hangs, nothing is earned."""
    env.reset(options={"task": page("<button onclick='while (true) alert(1)'>go</button>")})
    seen, *_ = env.step("click 1")
    for _ in range(3):
        assert seen["dialog"] == 'alert "1"'
        seen, *_ = env.step("dialog accept")
    _, reward, terminated, *_ = env.step("done")
    assert terminated and reward == 0.0


def test_a_page_that_computes_without_end_is_stopped(env):
    """Named in the notes; the next action finds a page that answers."""
    body = "<button onclick='while (true) {}'>go</button><button>other</button>"
    env.reset(options={"task": page(body)})
    assert env._session is not None
    env._session.patience_s = 3.0
    seen, *_ = env.step("click 1")
    assert "without end" in seen["notes"]
    seen, *_ = env.step("click 2")
    assert "other" in seen["tree"] and not seen["notes"]


def test_a_page_that_never_settles_is_seen_as_it_is(env):
    """An animation without end costs the time limit of settling, and says so."""
    body = "<p id=p>0</p><script>setInterval(() => p.textContent++, 5)</script>"
    env.reset(options={"task": page(body)})
    seen, _, _, _, info = env.step("wait 0")
    assert not info["settled"] and "label" in seen["tree"]


def test_closed_tabs_and_popups(env):
    """``window.close()`` leaves an empty tab, a flood of popups a bounded number of tabs."""
    flood = "for (let i = 0; i < 30; i++) window.open('http://shop.test/p' + i)"
    body = (
        f"""<button onclick="{flood}">flood</button><button onclick="window.close()">x</button>"""
    )
    env.reset(options={"task": page(body)})
    seen, *_ = env.step('click "flood"')
    assert 1 <= len(seen["tabs"].splitlines()) <= 8
    seen, *_ = env.step("tab 1")
    for _ in range(len(seen["tabs"].splitlines())):
        seen, *_ = env.step("tab close")
    assert seen["tabs"] == "* 1 about:blank"
    assert "last tab" in seen["notes"]


def test_uploads_and_downloads_stay_inside(env):
    """The granted file is there, what the page saves is checked, nothing touches this machine."""
    checks = [
        {"kind": "text", "at": "#o", "is": "a.txt hello"},
        {"kind": "download", "name": "b.csv", "text": "1,2\n"},
    ]
    body = """<input type=file id=f onchange="f.files[0].text().then(t =>
    o.textContent = f.files[0].name + ' ' + t)"><p id=o></p><a href=b.csv>save</a>"""
    task = page(body, checks, uploads={"a.txt": "hello"}, pages={f"{BASE}b.csv?download": "1,2\n"})
    seen, _ = env.reset(options={"task": task})
    seen, *_ = env.step(f"upload {number(seen, ' file ')} a.txt")
    assert "a.txt hello" in seen["tree"], seen["error"]
    seen, *_ = env.step(f"click {number(seen, 'save')}")
    assert seen["downloads"] == "b.csv", seen["notes"]
    _, reward, *_, info = env.step("done")
    assert reward == 1.0, info["verdict"].detail


def test_a_page_of_ten_megabytes_is_read_in_bounds(env):
    """The tree is cut and says so: an observation of its size would fill memory and context."""
    words = "many words " * 65
    body = "<ul>" + "".join(f"<li>row {i} {words}</li>" for i in range(15_000))
    seen, _ = env.reset(options={"task": page(body)})
    assert "row 0" in seen["tree"] and "more than is shown" in seen["tree"]
    assert len(seen["tree"]) < 200_000 and len(seen["dom"]) < 100_000


def test_frames_are_part_of_the_page(env):
    """A button in a frame is seen at its place in the picture, and clicked there."""
    inner = "<button onclick=\"this.textContent = 'pressed'\">inner</button>"
    body = f'<p>outer</p><iframe src="{BASE}inner" width=200 height=100></iframe>'
    seen, _ = env.reset(options={"task": page(body, pages={f"{BASE}inner": inner})})
    seen, *_ = env.step(f"click {number(seen, 'inner')}")
    assert '"pressed"' in seen["tree"]


def test_each_episode_is_a_clean_profile(env):
    """What one episode stored or copied would be the next one's answer."""
    body = """<p id=o></p><script>o.textContent = "was " + localStorage.n + document.cookie;
    localStorage.n = 1; document.cookie = "n=1"</script><textarea>secret</textarea>"""
    seen, _ = env.reset(options={"task": page(body)})
    seen, *_ = env.step(f"click {number(seen, 'secret')}")
    env.step("key ctrl+a")
    env.step("key ctrl+c")
    seen, _ = env.reset(options={"task": page(body)})
    assert "was undefined" in seen["tree"]
    seen, *_ = env.step(f'fill {number(seen, "secret")} ""')
    seen, *_ = env.step("key ctrl+v")
    assert "secret" not in seen["tree"]


def test_a_browser_that_dies_is_a_failure_of_the_world(env):
    """A reward of 0 for it would be a wrong reward; the next reset starts a new one."""
    env.reset(options={"task": page("<button>b</button>")})
    assert env._browser is not None
    env._browser.sandbox.exec(["pkill", "-KILL", "chromium"])
    with pytest.raises(SandboxLost):
        for _ in range(3):
            env.step("click 1")
    seen, _ = env.reset(options={"task": page("<button>b</button>")})
    assert "button" in seen["tree"]


def test_a_page_that_crashes_is_a_failure_of_the_world(env):
    """The renderer may have been short of memory: nobody knows whose fault that is."""
    env.reset(options={"task": page("<button>b</button>")})
    assert env._browser is not None
    env._browser.sandbox.exec(["pkill", "-KILL", "-f", "type=renderer"])
    with pytest.raises(BrowserLost):
        for _ in range(3):
            env.step("click 1")


def test_data_that_is_no_task_is_refused(env):
    """Before anything is started."""
    for data in ({"checks": []}, {"checks": [{"kind": "text", "at": "p"}]},
                 {"start": "file:///etc/passwd"}, {"miniwob": "no-such-page"}):  # fmt: skip
        task = page("x")
        with pytest.raises(TaskError):
            env.reset(options={"task": Task(**{**vars(task), "data": {**task.data, **data}})})


def test_a_miniwob_page_is_judged_by_its_own_script(env):
    """Right ends with 1, wrong with what the page gives, doing nothing with 0."""
    task = miniwob.task("click-test-2", 1)
    first, _ = env.reset(options={"task": task})
    again, _ = env.reset(options={"task": task})
    assert first["instruction"] == "Click button ONE." and first["tree"] == again["tree"]
    _, reward, terminated, _, info = env.step('click "ONE"')
    assert (reward, terminated, info["raw_reward"]) == (1.0, True, 1.0)
    env.reset(options={"task": task})
    _, reward, terminated, _, info = env.step('click "TWO"')
    assert (reward, terminated, info["raw_reward"]) == (0.0, True, -1.0)
    env.reset(options={"task": task})
    _, reward, terminated, *_ = env.step("done")
    assert (reward, terminated) == (0.0, True)


def test_leaving_the_page_earns_nothing(env):
    """A page loaded anew is another episode, whatever it would give."""
    task = miniwob.task("click-test", 1)
    env.reset(options={"task": task})
    env.step("reload")
    _, reward, terminated, _, info = env.step("done")
    assert (reward, terminated) == (0.0, True) and "not shown" in info["verdict"].detail


def test_the_oracle_is_a_list_of_actions(env):
    """Demonstrations are played again from it, so it must hold for the same seed."""
    task = miniwob.task("click-option", 3)
    env.reset(options={"task": task})
    for action in env.oracle(task):
        _, reward, terminated, *_ = env.step(action)
    assert terminated and reward == 1.0
