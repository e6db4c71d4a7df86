"""The shell agent's parser: one command, or a reason the model can use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import registry
from agents.protocol import ParseError
from agents.shell import ShellAgent, shorten
from envs.errors import TaskError
from serving.types import FinishReason, Generation, Reply


def reply(text: str, finish: FinishReason = "stop") -> Reply:
    return Reply("r", text, (), Generation((1,), (0.0,), (0,), finish))


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("ls -l", "ls -l"),
        ("  ls -l \n", "ls -l"),
        ("```bash\nls -l\n```", "ls -l"),
        ("```\nls\n```", "ls"),
        ("I look.\n```sh\ncat <<EOF\na\nEOF\n```\nDone.", "cat <<EOF\na\nEOF"),
        ("echo a\necho b", "echo a\necho b"),
        ("echo '```'", "echo '```'"),
    ],
)
def test_plain_replies(text: str, command: str) -> None:
    """The reply is the command; one fence around it is taken off."""
    assert ShellAgent().parse(reply(text)) == command


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no command"),
        ("```bash\nls\n```\n```bash\npwd\n```", "found 2"),
        ("a\x00b", "NUL"),
        ("```bash\n\n```", "no command"),
    ],
)
def test_plain_mistakes(text: str, says: str) -> None:
    """A reply without an action is answered with what is wrong."""
    with pytest.raises(ParseError, match=says):
        ShellAgent().parse(reply(text))


def test_cut_reply_is_never_run() -> None:
    """Half of ``rm -rf /tmp/x`` may be ``rm -rf /``."""
    with pytest.raises(ParseError, match="cut off"):
        ShellAgent().parse(reply("rm -rf /", "length"))


@pytest.mark.parametrize(("text", "found"), [("ls", 0), ("```bash\na\n```\n```bash\nb\n```", 2)])
def test_fenced_wants_exactly_one_block(text: str, found: int) -> None:
    """The rule of the fenced format, with the number that was found."""
    with pytest.raises(ParseError, match=f"found {found}"):
        ShellAgent("fenced").parse(reply(text))


@given(st.text())
def test_any_text_is_a_command_or_a_parse_error(text: str) -> None:
    """No reply may crash the loop."""
    for agent in (ShellAgent("plain"), ShellAgent("fenced")):
        try:
            assert agent.parse(reply(text)).strip()
        except ParseError as error:
            assert str(error)


@given(st.text(max_size=300), st.integers(10, 100))
def test_shorten_keeps_head_and_tail(text: str, limit: int) -> None:
    """What is cut is said; what fits is untouched."""
    short = shorten(text, limit)
    if len(text) <= limit:
        assert short == text
    else:
        assert short.startswith(text[: limit // 2])
        assert short.endswith(text[-(limit // 2) :])
        assert f"{len(text) - 2 * (limit // 2)} characters cut" in short


def test_observation_shows_output_and_a_bad_exit_code() -> None:
    """Exit code 0 costs no tokens; silence is said."""
    agent = ShellAgent()
    assert agent.observe({"output": "a\n", "exit_code": 0})["content"] == "a"
    assert agent.observe({"output": "", "exit_code": 0})["content"] == "[no output]"
    assert agent.observe({"output": "x\n", "exit_code": 2})["content"] == "x\n[exit code 2]"


def test_unknown_environment_names_the_nearest() -> None:
    """A misspelt environment is a user's mistake with a remedy."""
    with pytest.raises(TaskError, match="did you mean 'terminal'"):
        registry.make("terminl")
