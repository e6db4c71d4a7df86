"""Which agent plays which environment. Adding one is a line here."""

import difflib
from collections.abc import Callable

from agents.protocol import Agent
from agents.shell import ReplyFormat, ShellAgent

AgentFactory = Callable[[ReplyFormat, bool], Agent]


def _shell(reply_format: ReplyFormat, announce_submit: bool) -> Agent:
    return ShellAgent(reply_format=reply_format, announce_submit=announce_submit)


AGENTS: dict[str, AgentFactory] = {"terminal": _shell, "swe": _shell}


def make(env: str, reply_format: ReplyFormat = "plain", announce_submit: bool = True) -> Agent:
    """Return the agent for an environment's short name.

    Raises:
        ValueError: no agent plays it; the message holds the legal names.
    """
    if env not in AGENTS:
        near = difflib.get_close_matches(env, AGENTS, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"no agent plays env={env!r}; choose from {sorted(AGENTS)}.{hint}")
    return AGENTS[env](reply_format, announce_submit)
