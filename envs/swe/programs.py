"""Running a judging program of ours in the sandbox, and telling our failures from the agent's."""

from collections.abc import Sequence

from envs.errors import VerifierError
from envs.sandbox.protocol import Sandbox


def tagged_lines(output: str, tag: str) -> list[str] | None:
    """Return what follows the tag on the lines that begin with it; None before ``ready``."""
    start = f"{tag} "
    lines = [line.removeprefix(start) for line in output.splitlines() if line.startswith(start)]
    return lines if "ready" in lines else None


def run_program(
    sandbox: Sandbox,
    argv: Sequence[str],
    *,
    tag: str,
    stdin: bytes = b"",
    timeout_s: float,
    max_output_bytes: int,
    only_ours: bool = False,
) -> list[str]:
    """Run a program that says ``<tag> ready`` before it touches anything of the agent's.

    What happens after that word is the agent's doing. When it does not come, the agent's processes
    are ended, in case they stood in the way, and the program runs once more.

    Args:
        only_ours: nothing of the agent's runs after that word either. So running out of time or
            being killed is never the agent's doing.

    Raises:
        VerifierError: it did not come the second time either; or ``only_ours`` did not end.
        SandboxLost: the sandbox is gone.
    """
    error, cut_short = "", False
    for _ in range(2):
        result = sandbox.exec(
            argv, timeout_s=timeout_s, cwd="/", stdin=stdin, max_output_bytes=max_output_bytes
        )
        lines = tagged_lines(result.output, tag)
        cut_short = only_ours and (result.timed_out or result.exit_code > 128)
        if lines is not None and not cut_short:
            return lines
        error = f"exit code {result.exit_code}, {result.output[-300:].strip()!r}"
        sandbox.kill_processes()
    raise VerifierError(
        f"the verifier's program {argv[0]} did not {'end' if cut_short else 'start'}: {error}"
    )
