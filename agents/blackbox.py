"""Black-box agents: any program that speaks to a base URL plays an episode and is trained by it.

The program gets the task in ``CLAWGYM_INSTRUCTION`` (and in the file that
``CLAWGYM_INSTRUCTION_FILE`` names), the policy in ``OPENAI_BASE_URL``, ``OPENAI_API_BASE``,
``ANTHROPIC_BASE_URL`` and the keys beside them, and its sandbox as two commands on its ``PATH``:
``in-sandbox PROGRAM …`` and a ``docker`` that knows ``run`` and ``exec`` (see ``shim``). The base
URL names the session, so what the gateway recorded of it are the episode's turns, token by token;
the environment's verifier grades what is left in the sandbox when the program ends.

The program itself runs on this machine, as you: a program that executes what the model says
outside of its sandbox commands does so here. It samples as it likes; turns at several temperatures,
or cut by ``top_p``, cannot be trained on and lose the episode by name.

Example:
    mini -y -m openai/default --config docker.yaml -t "$CLAWGYM_INSTRUCTION"
"""

import asyncio
import json
import os
import signal
import socketserver
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp

from agents.episode import Assignment, EpisodeLimits
from agents.types import Episode, StopReason, Turn
from envs.errors import EnvError, SandboxLost
from envs.sandbox.protocol import ExecResult
from envs.types import Verdict
from serving.errors import PolicyError, PolicyUnavailable
from serving.turns import Turn as Recorded

KEPT_OUTPUT = 4000
GRACE_S = 5.0
PASSED_ON = ("LANG", "LC_ALL", "TZ", "VIRTUAL_ENV", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


class AgentFailed(EnvError):
    """The program did not start, said nothing to the policy, or what it said cannot be used."""


class SandboxedEnv(Protocol):
    """What a black-box agent's episode needs of an environment."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Mapping[str, Any], dict[str, Any]]: ...

    def execute(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> ExecResult: ...

    def grade(self) -> Verdict: ...


@dataclass(frozen=True)
class Gateway:
    """Where the policy answers.

    Attributes:
        base_url: without ``/v1``.
        model: name for programs that insist on one.
    """

    base_url: str
    api_key: str
    model: str = "default"


async def play_command(
    env: SandboxedEnv,
    command: str,
    gateway: Gateway,
    assignment: Assignment,
    limits: EpisodeLimits,
) -> Episode:
    """Play one episode by a command line, run by ``bash -c``.

    Never raises for a failure of world, policy or program: that is an episode with
    ``stop_reason.failed``. Cancellation ends the program and is passed on.
    """
    started, clock, error = time.time(), time.monotonic(), ""
    turns: tuple[Turn, ...] = ()
    reward: float | None = None
    try:
        observation, _ = await asyncio.to_thread(
            env.reset, seed=assignment.seed, options={"task": assignment.task}
        )
        session = assignment.episode_id.replace("/", ".")
        text = str(observation["instruction"])
        ended, said = await _run(env, command, gateway, session, text, limits)
        recorded = [turn for turn in await _turns(gateway, session) if turn.kind == "main"]
        assignment = _as_sampled(assignment, recorded, ended, said)
        turns = tuple(_turn(turn, after) for turn, after in _followed(recorded))
        verdict = await asyncio.to_thread(env.grade)
        reward = verdict.reward
        stop = StopReason.TIME_LIMIT if ended is None else StopReason.SUBMITTED
        stop = StopReason.SOLVED if verdict.solved else stop
    except SandboxLost as cause:
        stop, error = StopReason.SANDBOX_LOST, f"{type(cause).__name__}: {cause}"
    except EnvError as cause:
        stop, error = StopReason.ENV_ERROR, f"{type(cause).__name__}: {cause}"
    except PolicyError as cause:
        stop, error = StopReason.POLICY_ERROR, f"{type(cause).__name__}: {cause}"
    return assignment.record(
        stop,
        reward=reward,
        turns=turns,
        error=error,
        started_at=started,
        duration_s=time.monotonic() - clock,
    )


async def _run(
    env: SandboxedEnv,
    command: str,
    gateway: Gateway,
    session: str,
    instruction: str,
    limits: EpisodeLimits,
) -> tuple[int | None, str]:
    """Run the program to its end; returns its exit code (None: out of time) and its last words.

    Raises:
        EnvError: what the sandbox met on a call of the program.
    """
    with tempfile.TemporaryDirectory(prefix="clawgym-agent-") as name:
        folder = Path(name)
        with _sandbox_calls(folder, env.execute) as failures:
            process = await asyncio.create_subprocess_exec(
                "bash", "-c", command, cwd=folder, start_new_session=True,
                env=_environment(folder, gateway, session, instruction),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            reader = asyncio.create_task(_last_words(process))
            try:
                code: int | None = await asyncio.wait_for(process.wait(), limits.time_limit_s)
            except TimeoutError:
                code = None
            finally:
                _end(process.pid)
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), GRACE_S)
            said = await asyncio.wait_for(reader, GRACE_S)
    if failures:
        raise failures[0]
    return code, said


def _environment(folder: Path, gateway: Gateway, session: str, instruction: str) -> dict[str, str]:
    """Return the program's environment: nothing of ours but what is named."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    source = Path(__file__).with_name("shim.py").read_text("utf-8")
    for name in ("docker", "in-sandbox"):
        (bin_folder / name).write_text(f"#!{sys.executable} -IS\n{source}", "utf-8")
        (bin_folder / name).chmod(0o755)
    (folder / "instruction.md").write_text(instruction, "utf-8")
    base = f"{gateway.base_url.rstrip('/')}/s/{quote(session, safe='')}"
    return {
        **{key: os.environ[key] for key in PASSED_ON if key in os.environ},
        "PATH": f"{bin_folder}:{os.environ.get('PATH', os.defpath)}",
        "HOME": str(folder),
        "OPENAI_BASE_URL": f"{base}/v1",
        "OPENAI_API_BASE": f"{base}/v1",
        "OPENAI_API_KEY": gateway.api_key,
        "ANTHROPIC_BASE_URL": base,
        "ANTHROPIC_API_KEY": gateway.api_key,
        "CLAWGYM_MODEL": gateway.model,
        "CLAWGYM_INSTRUCTION": instruction,
        "CLAWGYM_INSTRUCTION_FILE": str(folder / "instruction.md"),
        "CLAWGYM_SANDBOX": str(folder / "sandbox.sock"),
    }


@contextmanager
def _sandbox_calls(folder: Path, execute: Callable[..., ExecResult]) -> Iterator[list[EnvError]]:
    """Serve the shim's calls on a socket in ``folder``, one at a time; yields what the world did
    wrong meanwhile, first cause first."""
    failures: list[EnvError] = []
    lock = threading.Lock()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            request = json.loads(self.rfile.readline())
            try:
                with lock:
                    result = execute(
                        request["argv"], cwd=request["cwd"], env=request["env"],
                        stdin=request["stdin"].encode("latin-1"),
                    )  # fmt: skip
            except EnvError as error:
                failures.append(error)
                result = ExecResult(f"the sandbox is gone: {error}\n", 125)
            answer = {"output": result.output, "exit_code": result.exit_code}
            with suppress(OSError):  # the program did not wait for the answer
                self.wfile.write(json.dumps(answer).encode() + b"\n")

    server = socketserver.ThreadingUnixStreamServer(str(folder / "sandbox.sock"), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield failures
    finally:
        server.shutdown()
        server.server_close()
        with lock:  # a call under way ends before the verifier looks
            thread.join()


async def _last_words(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    tail = b""
    while chunk := await process.stdout.read(1 << 16):
        tail = (tail + chunk)[-KEPT_OUTPUT:]
    return tail.decode("utf-8", "replace").strip()


def _end(group: int) -> None:
    """Kill the program's whole process group; what it left in the background too."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


async def _turns(gateway: Gateway, session: str) -> list[Recorded]:
    """Return what the gateway recorded of a session. Raises ``PolicyUnavailable``."""
    url = f"{gateway.base_url.rstrip('/')}/v1/sessions/{quote(session, safe='')}/export"
    headers = {"Authorization": f"Bearer {gateway.api_key}"}
    try:
        async with aiohttp.ClientSession(headers=headers) as http, http.get(url) as response:
            if response.status == 404:
                return []
            if response.status != 200:
                raise PolicyUnavailable(f"{url}: status {response.status}")
            lines = (await response.read()).splitlines()
    except aiohttp.ClientError as error:
        raise PolicyUnavailable(f"the session's turns could not be read: {error}") from error
    rows = [json.loads(line) for line in lines]
    for row in rows:
        row.pop("feedback", None)
    return [Recorded.from_json(row) for row in rows]


def _as_sampled(
    assignment: Assignment, turns: Sequence[Recorded], ended: int | None, said: str
) -> Assignment:
    """Return the assignment at the temperature the program sampled at. Raises ``AgentFailed``."""
    if not turns:
        how = "ran out of time" if ended is None else f"ended with {ended}"
        raise AgentFailed(f"the program {how} and never asked the policy: {said[-600:]}")
    unfit = sorted({why for turn in turns for why in turn.unfit})
    if unfit:
        raise AgentFailed(f"its turns cannot be trained on: {', '.join(unfit)}")
    found = sorted({turn.temperature for turn in turns})
    if len(found) > 1:
        raise AgentFailed(f"it sampled at several temperatures: {found}")
    if turns[-1].finish_reason == "cancelled" and ended is not None and len(turns) == 1:
        raise AgentFailed(f"it gave up its only request: {said[-600:]}")
    return replace(assignment, sampling=replace(assignment.sampling, temperature=found[0]))


def _followed(turns: Sequence[Recorded]) -> Iterator[tuple[Recorded, str]]:
    """Yield each turn with what the program said next."""
    for turn, following in zip(turns, [*turns[1:], None], strict=True):
        new = following.messages if following is not None else ()
        parts = [m.get("content") for m in new if m.get("role") != "assistant"]
        yield turn, "\n".join(part for part in parts if isinstance(part, str))


def _turn(turn: Recorded, observation: str) -> Turn:
    return Turn(
        prompt_ids_P=tuple(turn.prompt_ids_P),
        token_ids_T=tuple(turn.token_ids_T),
        logprobs_T=tuple(turn.logprobs_T),
        versions_T=tuple(turn.versions_T),
        finish_reason=turn.finish_reason,
        text=turn.text,
        action=turn.text or json.dumps([dict(call) for call in turn.tool_calls]),
        observation=observation,
    )
