"""Other gateways, trainers, browser gyms and rollouts, each in an environment of its own.

    python -m benchmarks.perf.peers list
    python -m benchmarks.perf.peers install NAME…|all

The environments lie in ``~/.cache/clawgym/peers/NAME`` (``CLAWGYM_CACHE`` moves them). Both peers
keep what they capture in memory, as our gateway does by default, and get the same key where they
take one.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.perf.fake_engine import MODEL
from benchmarks.perf.load import Target
from benchmarks.perf.process import BenchError, Process

KEY = "key-of-the-bench"
AUTHORIZATION = {"Authorization": f"Bearer {KEY}"}
MARK = "installed"  # in an environment that is complete
Captured = Callable[[str], list[list[int]]]  # session → sampled ids of each of its turns


@dataclass(frozen=True)
class Side:
    """Something the load can be put on.

    Attributes:
        name: in the table.
        target: where to ask.
        process: what serves it; its processor time is counted.
        prepare: makes sessions known beforehand, where that is needed.
        captured: what it recorded of a session; None for one that records nothing.
    """

    name: str
    target: Target
    process: Process
    prepare: Callable[[Sequence[str]], None] = lambda sessions: None
    captured: Captured | None = None


@dataclass(frozen=True)
class Peer:
    """A package to compare with.

    Attributes:
        name, version: on the package index.
        python: oldest Python it runs on.
        start: starts it in front of an engine's URL; asks for its folder of programs.
        needs: installed with it and nothing else, the rest being borrowed from this environment:
            both sides then compute with the same torch. Empty: all it depends on is its own.
    """

    name: str
    version: str
    python: tuple[int, int]
    start: Callable[["Peer", str], Side] = field(repr=False)
    needs: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Its environment."""
        root = os.environ.get("CLAWGYM_CACHE") or Path.home() / ".cache" / "clawgym"
        return Path(root) / "peers" / f"{self.name}-{self.version}"

    @property
    def is_installed(self) -> bool:
        """Whether its environment is complete."""
        return (self.folder / MARK).is_file()

    @property
    def label(self) -> str:
        """What the table calls it."""
        return f"{self.name} {self.version}"

    @property
    def remedy(self) -> str:
        """The command that installs it."""
        return f"python -m benchmarks.perf.peers install {self.name}"

    def install(self) -> None:
        """Make its environment.

        Raises:
            BenchError: no Python new enough, or pip failed.
        """
        python = _python(self.python)
        shutil.rmtree(self.folder, ignore_errors=True)
        pip = [str(self.folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        packages = [f"{self.name}=={self.version}", *self.needs]
        for command in (
            [python, "-m", "venv", str(self.folder)],
            [*pip, *(["--no-deps"] if self.needs else []), *packages],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BenchError(f"{' '.join(command)} failed: {done.stderr.strip()[-800:]}")
        if self.needs:
            own = [path for path in sys.path if path.endswith("site-packages")]
            (site,) = self.folder.glob("lib/python3*/site-packages")
            (site / "borrowed.pth").write_text("\n".join(own) + "\n")
        (self.folder / MARK).touch()


def call(url: str, body: Any = None, headers: Mapping[str, str] = AUTHORIZATION) -> bytes:
    """Return what a URL answers: to a GET, or to a POST when there is a body."""
    data = None if body is None else json.dumps(body).encode()
    kind = {} if body is None else {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, {**headers, **kind})
    with urllib.request.urlopen(request, timeout=60) as response:
        return bytes(response.read())


def free_port() -> int:
    """Return a port nobody listens at now, for programs that cannot say which one they took."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _agentlightning(peer: Peer, engine_url: str) -> Side:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    options = [
        "host=127.0.0.1",
        f"port={port}",
        f"key={KEY}",
        f"default_proxy.model_name={MODEL}",
        "hydra.run.dir=.",
        "hydra.output_subdir=null",
    ]
    folder = peer.folder / "run"  # for what it writes where it is started
    folder.mkdir(exist_ok=True)
    process = Process([str(peer.folder / "bin" / "agl-server"), *options], folder=folder)

    def prepare(sessions: Sequence[str]) -> None:
        rollouts = [{"rollout_id": name, "input": {}} for name in sessions]
        call(f"{url}/api/rollouts", rollouts)

    def captured(session: str) -> list[list[int]]:
        events = json.loads(call(f"{url}/api/rollouts/{session}/events?event_type=model_request"))
        return [event["data"]["response"]["choices"][0]["token_ids"] for event in events]

    try:
        process.answers(f"{url}/healthz")
        call(f"{url}/api/models", [{"model": MODEL, "endpoint": f"{engine_url}/v1"}])
    except BaseException:
        process.close()
        raise
    path = "/proxy/rollout/{session}/attempt/0/mode/train/openai/v1/chat/completions"
    return Side(peer.label, Target(url, path, AUTHORIZATION), process, prepare, captured)


def _rllm(peer: Peer, engine_url: str) -> Side:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(peer.folder / "bin" / "python"), "-m", "rllm_model_gateway"]
    options = ["--host", "127.0.0.1", "--port", str(port), "--worker", f"{engine_url}/v1"]
    process = Process([*command, *options, "--store", "memory", "--log-level", "warning"])

    def captured(session: str) -> list[list[int]]:
        traces = json.loads(call(f"{url}/sessions/{session}/traces"))
        return [trace["completion_token_ids"] for trace in traces]

    try:
        process.answers(f"{url}/health")
    except BaseException:
        process.close()
        raise
    path = "/sessions/{session}/v1/chat/completions"
    return Side(peer.label, Target(url, path), process, captured=captured)


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("agentlightning", "1.0.2", (3, 12), _agentlightning),
        Peer("rllm-model-gateway", "0.1.0", (3, 11), _rllm),
    )
}


def _no_gateway(peer: Peer, engine_url: str) -> Side:
    raise BenchError(f"{peer.label} is no gateway to put before {engine_url}")


TRAINER = Peer(
    "trl",
    "1.16.0",
    (3, 11),
    _no_gateway,
    needs=("datasets", "pandas", "pyarrow", "dill", "multiprocess", "xxhash", "pytz"),
)
# Pins a Playwright of its own, which no Chromium of today answers to: it borrows ours.
BROWSERGYM = Peer(
    "browsergym-miniwob",
    "0.14.3",
    (3, 11),
    _no_gateway,
    needs=("browsergym-core==0.14.3", "beautifulsoup4", "soupsieve"),
)
VERIFIERS = Peer("verifiers", "0.1.14", (3, 11), _no_gateway)
ALL: dict[str, Peer] = {
    **PEERS,
    **{peer.name: peer for peer in (TRAINER, BROWSERGYM, VERIFIERS)},
}


def _python(oldest: tuple[int, int]) -> str:
    """Return a Python that is new enough: this one, one on the path, or one of pyenv's."""
    if sys.version_info[:2] >= oldest:
        return sys.executable
    versions = [(3, minor) for minor in range(oldest[1], oldest[1] + 4)]
    for major, minor in versions:
        found = shutil.which(f"python{major}.{minor}")
        # pyenv's shims are there for versions that are not switched on
        if found and not subprocess.run([found, "-V"], capture_output=True, check=False).returncode:
            return found
        root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
        for path in sorted(root.glob(f"versions/{major}.{minor}.*/bin/python")):
            return str(path)
    raise BenchError(f"no Python {oldest[0]}.{oldest[1]} or newer on the path or under pyenv")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code (0 done, 2 user error, 3 not installed)."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.perf.peers", description=__doc__)
    parser.add_argument("command", choices=("list", "install"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*ALL, "all"]))
    options = parser.parse_args(arguments)
    out, err = sys.stdout, sys.stderr
    if options.command == "list":
        for peer in ALL.values():
            out.write(f"{peer.label}  {peer.folder if peer.is_installed else peer.remedy}\n")
        return 0
    unknown = [name for name in options.names if name not in {*ALL, "all"}]
    if unknown or not options.names:
        err.write(f"no peer {unknown}: choose of {', '.join([*ALL, 'all'])}\n")
        return 2
    for name in ALL if "all" in options.names else options.names:
        out.write(f"installing {ALL[name].label} into {ALL[name].folder}\n")
        out.flush()
        try:
            ALL[name].install()
        except BenchError as error:
            err.write(f"{error}\n")
            return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
