"""What decides an episode: which pages it has, how it starts, whether it is over and how well.

``envs.browser.checks`` and ``envs.browser.miniwob.referee`` are the two kinds there are;
``envs.browser.referees`` chooses.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from envs.browser.session import Session
from envs.browser.site import Site
from envs.sandbox.protocol import Sandbox
from envs.types import Verdict


@dataclass(frozen=True)
class Ruling:
    """What a referee says.

    Attributes:
        over: the episode ended by itself, whether or not the agent says so.
        verdict: of the state as it is.
        info: more for ``info`` of the step.
    """

    over: bool
    verdict: Verdict
    info: Mapping[str, Any]


class Referee(Protocol):
    """See the module. Coroutines run on the driver's loop."""

    site: Site
    start: str
    hide: str

    async def begin(self, session: Session) -> str:
        """Bring the loaded page to the task's start; return the instruction in words."""
        ...

    async def rule(self, session: Session) -> Ruling:
        """Judge the state. Raises ``BrowserLost``, ``VerifierError``."""
        ...

    def confirm(self, ruling: Ruling, sandbox: Sandbox) -> Ruling:
        """Add what is judged outside the browser. Raises ``SandboxLost``."""
        ...
