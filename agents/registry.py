"""Which agent plays which environment.

Every environment whose agent works in a shell is played by ``ShellAgent`` without a row here; an
environment with other actions adds one.
"""

from collections.abc import Callable

from agents.browser import BrowserAgent
from agents.chat import ChatAgent
from agents.code import CodeAgent
from agents.gui import GuiAgent
from agents.protocol import Agent
from agents.shell import ReplyFormat, ShellAgent
from agents.toolcall import ToolCallAgent
from envs import registry

AgentFactory = Callable[[ReplyFormat, bool], Agent]

AGENTS: dict[str, AgentFactory] = {
    "browser": lambda reply_format, announce_submit: BrowserAgent(),
    "chat": lambda reply_format, announce_submit: ChatAgent(),
    "code": lambda reply_format, announce_submit: CodeAgent(reply_format),
    "gui": lambda reply_format, announce_submit: GuiAgent(),
    "toolcall": lambda reply_format, announce_submit: ToolCallAgent(),
}


def make(env: str, reply_format: ReplyFormat = "plain", announce_submit: bool = True) -> Agent:
    """Return the agent for an environment's short name.

    Raises:
        TaskError: no such environment; names the nearest.
    """
    name = registry.find(env).name
    return AGENTS.get(name, _shell)(reply_format, announce_submit)


def _shell(reply_format: ReplyFormat, announce_submit: bool) -> Agent:
    return ShellAgent(reply_format=reply_format, announce_submit=announce_submit)
