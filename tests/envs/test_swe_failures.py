"""What our own judging programs fail at is never the agent's 0."""

from collections.abc import Sequence
from typing import Any

import pytest

from envs.errors import VerifierError
from envs.sandbox.protocol import ExecResult
from envs.swe.pytest_grading import harvest


class SlowSandbox:
    """Our own program says it is ready and then hangs or is killed."""

    def __init__(self, code: int) -> None:
        self.code = code

    def exec(self, argv: Sequence[str], **options: Any) -> ExecResult:
        tag = argv[argv.index("/workspace") - 1]
        return ExecResult(f"{tag} ready\n", self.code, timed_out=self.code == 124)

    def kill_processes(self) -> None:
        pass


@pytest.mark.parametrize("code", [124, 137])
def test_reading_the_tree_that_does_not_end_is_our_failure(code: int) -> None:
    """None of the agent's code runs then: a slow machine was scored 0."""
    with pytest.raises(VerifierError, match="did not end"):
        harvest(SlowSandbox(code), "/workspace", ["pkg"])  # type: ignore[arg-type]
