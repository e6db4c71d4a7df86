"""The checks of ``envs.sandbox.check``: each takes a clean sandbox, raises ``AssertionError``."""

from collections.abc import Callable

from envs.sandbox.protocol import ExecResult, Sandbox

Check = Callable[[Sandbox], None]


def collect(*functions: Check) -> dict[str, Check]:
    """Return checks by their names."""
    return {function.__name__: function for function in functions}


def expect(condition: bool, message: str, result: ExecResult | None = None) -> None:
    """Raise ``AssertionError`` with what was seen unless ``condition`` holds."""
    if not condition:
        seen = (
            "" if result is None else f": exit {result.exit_code}, output {result.output[-300:]!r}"
        )
        raise AssertionError(message + seen)


def expect_usable(sandbox: Sandbox) -> None:
    """After whatever the agent did the sandbox still runs commands, at the second try at latest:
    the first may still meet what the agent left running."""
    result = sandbox.shell("echo usable", timeout_s=10)
    if "usable" not in result.output.splitlines():
        result = sandbox.shell("echo usable", timeout_s=10)
    expect("usable" in result.output.splitlines(), "the shell is not usable afterwards", result)
    program = sandbox.exec(["echo", "usable"], timeout_s=10)
    expect(program.output == "usable\n", "programs cannot be run afterwards", program)
