"""Interactive terminals: keys reach the screen, and what is new is told apart from what was."""

import time
from collections.abc import Callable, Iterator

import pytest

from envs.errors import SetupError
from envs.sandbox.pool import SandboxPool
from envs.sandbox.protocol import Sandbox, SandboxSpec
from envs.terminal.env import TerminalEnv
from envs.terminal.tmux import (
    NEW,
    SCREEN,
    Keystrokes,
    TerminalEnded,
    Tmux,
    cut,
    new_lines,
    parse_keystrokes,
)
from envs.types import Task, TaskLimits


@pytest.fixture(scope="module")
def pool(terminal_image: str) -> Iterator[SandboxPool]:
    with SandboxPool(run_id="test-tmux") as pool:
        yield pool


@pytest.fixture
def sandbox(pool: SandboxPool) -> Iterator[Sandbox]:
    sandbox = pool.acquire(SandboxSpec(image="terminal"))
    yield sandbox
    pool.release(sandbox)


def shows(terminal: Tmux, text: str, read: Callable[[], str] | None = None) -> bool:
    """Wait until a text is on the screen: a busy machine takes its time."""
    end = time.monotonic() + 30.0
    while time.monotonic() < end:
        if text in (read or terminal.screen)():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        (["$ "], ["$ ls", "a", "$ "], ["$ ls", "a", "$ "]),
        (["a", "$ "], ["a", "$ "], []),
        (["a", "$ "], ["b", "$ "], None),
        (["a", "b", "$ "], ["a"], None),
        (["a", "b"], ["a", "x"], None),
        ([""], ["$ "], ["$ "]),
        ([], ["$ "], ["$ "]),
        (["$ a", "$ "], ["$ a", "$ a", "$ "], ["$ a", "$ "]),
    ],
)
def test_what_is_new_is_what_was_added(
    before: list[str], now: list[str], new: list[str] | None
) -> None:
    """The official agent looks for the old buffer in the new one with the old one's offset: after
    a shift it shows lines twice or none. A redrawn screen has no new lines: it is another one."""
    assert new_lines(before, now) == new


@pytest.mark.parametrize(
    ("action", "keystrokes"),
    [
        ('{"keystrokes": "ls\\n"}', [Keystrokes("ls\n")]),
        ('{"keystrokes": "C-c", "duration": 900}', [Keystrokes("C-c", 60.0)]),
        (
            '{"analysis": "a", "plan": "p", "commands": [{"keystrokes": "q", "duration": 0}]}',
            [Keystrokes("q", 0.0)],
        ),
        ("ls", None),
        ("{ echo a; }", None),
        ('{"a": 1}', None),
    ],
)
def test_actions_are_told_apart(action: str, keystrokes: list[Keystrokes] | None) -> None:
    """A brace group is a command of the shell, no keystrokes."""
    assert parse_keystrokes(action) == keystrokes


@pytest.mark.parametrize(
    "action",
    ['{"keystrokes": 1}', '{"keystrokes": "a", "duration": "x"}', '{"commands": "ls"}',
     '{"keystrokes": "a", "duration": NaN}', '{"keystrokes": "a", "duration": true}'],
)  # fmt: skip
def test_keystrokes_that_are_none_are_named(action: str) -> None:
    with pytest.raises(ValueError, match="give"):
        parse_keystrokes(action)


def test_a_cut_says_how_much_and_keeps_whole_characters() -> None:
    assert cut("ää", 4) == "ää"
    assert cut("a" * 5 + "ä" * 3, 6).endswith("[... output limited to 6 bytes; 5 interior bytes "
                                             "omitted ...]\nä")  # fmt: skip


@pytest.mark.docker
def test_keys_screen_scrollback_and_a_program_that_draws(sandbox: Sandbox) -> None:
    terminal = Tmux(sandbox)
    terminal.start()
    terminal.send("seq 1 300\n", wait_s=0.0)
    assert shows(terminal, "\n300\n")
    assert "\n7\n" not in terminal.screen()
    assert {"7", "150", "300"} <= set(terminal.buffer())
    assert terminal.news().startswith(f"{NEW}\n")
    terminal.send("echo 'semi;colon' one\\;two;\n", wait_s=0.0)
    assert shows(terminal, "semi;colon one;two")
    terminal.news()
    told = terminal.send("less /etc/passwd\n", wait_s=0.0)
    assert shows(terminal, "root:x:0:0")
    assert f"{SCREEN}\n" in told + terminal.news()
    terminal.send("q", wait_s=0.0)
    terminal.send("sleep 1000\n", wait_s=0.2)
    terminal.send("C-c", wait_s=0.0)
    assert shows(terminal, "^C")
    terminal.send("echo still $((40 + 2))\n", wait_s=0.0)
    assert shows(terminal, "still 42")
    terminal.close()
    with pytest.raises(TerminalEnded):
        terminal.screen()


@pytest.mark.docker
def test_an_image_without_tmux_is_named(pool: SandboxPool) -> None:
    other = pool.acquire(SandboxSpec(image="python"))
    with pytest.raises(SetupError, match="The image needs tmux"):
        Tmux(other).start()
    pool.release(other)


@pytest.mark.docker
def test_keystrokes_solve_a_task_and_a_dead_terminal_is_the_agents_doing(
    pool: SandboxPool,
) -> None:
    task = Task(
        "terminal/keys/1", "terminal", "keys", "train", "Write yes into a.", "terminal",
        TaskLimits(output_bytes=200),
        {"checks": [{"kind": "file", "path": "a", "text": "yes\n", "how": "bytes"}]},
    )  # fmt: skip
    env = TerminalEnv([task], pool)
    env.reset()
    ended = env.step('{"keystrokes": "tmux kill-server; exit\\n", "duration": 1.0}')[0]
    deadline = time.monotonic() + 30.0
    while "the terminal ended" not in ended["output"] and time.monotonic() < deadline:
        ended = env.step('{"keystrokes": "exit\\n", "duration": 0.3}')[0]
    assert "the terminal ended" in ended["output"]
    many = env.step('{"keystrokes": "seq 1000; echo yes > a\\n", "duration": 2.0}')[0]["output"]
    assert len(many) < 400
    assert env.step('{"keystrokes": 5}')[0]["exit_code"] == 2
    deadline = time.monotonic() + 30.0
    while env.step("cat a")[0]["output"] != "yes\n" and time.monotonic() < deadline:
        time.sleep(0.2)
    assert env.step("submit")[4]["verdict"].reward == 1.0
    env.close()
