"""What a black-box agent calls to act in its sandbox, as ``docker`` and as ``in-sandbox``.

``in-sandbox PROGRAM [ARGUMENT…]`` runs a program there. As ``docker`` it knows what agents that
drive a container say (``run``, ``exec``, ``stop``, ``rm``, …): ``run`` starts nothing and names the
sandbox of the episode, ``exec`` runs in it, the end of it is the episode's own. Anything else is
refused by name. Stand-alone, standard library only; talks to ``agents.blackbox`` over a socket.
"""

import json
import os
import socket
import sys
from pathlib import Path

NAME = "clawgym-sandbox"
QUIET = ("stop", "rm", "kill", "pull", "start", "wait")
WITH_VALUE = ("-w", "--workdir", "-e", "--env", "-u", "--user", "--name", "--detach-keys")


def _run(argv: list[str], cwd: str | None, env: dict[str, str]) -> int:
    data = b"" if sys.stdin is None or sys.stdin.isatty() else _piped()
    request = {"argv": argv, "cwd": cwd, "env": env, "stdin": data.decode("latin-1")}
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(os.environ["CLAWGYM_SANDBOX"])
        with sock.makefile("rwb") as file:
            file.write(json.dumps(request).encode() + b"\n")
            file.flush()
            answer = json.loads(file.readline())
    sys.stdout.buffer.write(answer["output"].encode("utf-8", "surrogateescape"))
    sys.stdout.flush()
    return int(answer["exit_code"])


def _piped() -> bytes:
    """Return what is piped in, if anything was: an open, silent input is not waited for."""
    import select

    ready = select.select([sys.stdin], [], [], 0)[0]
    return sys.stdin.buffer.read() if ready else b""


def _docker_exec(words: list[str]) -> int:
    cwd, env = None, {}
    while words and words[0].startswith("-"):
        option, sign, value = words.pop(0).partition("=")
        if option in WITH_VALUE and not sign:
            value = words.pop(0)
        if option in ("-w", "--workdir"):
            cwd = value
        elif option in ("-e", "--env"):
            key, given, text = value.partition("=")
            env[key] = text if given else os.environ.get(key, "")
        elif option in ("-u", "--user"):
            sys.exit(f"docker exec {option}: the sandbox has one user")
    return _run(words[1:], cwd, env)


def main(words: list[str]) -> int:
    """Do one call; return its exit code."""
    if Path(sys.argv[0]).name != "docker":
        return _run(words, None, {})
    match words:
        case ["run", *_]:
            sys.stdout.write(f"{NAME}\n")
            return 0
        case ["exec", *rest]:
            return _docker_exec(rest)
        case [verb, *_] if verb in QUIET:
            return 0
        case ["version" | "--version" | "info", *_]:
            sys.stdout.write("Docker version 0, the sandbox of one episode\n")
            return 0
    known = f"the sandbox of an episode knows run, exec, {', '.join(QUIET)}"
    sys.stderr.write(f"docker {' '.join(words)[:80]}: {known}\n")
    return 125


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
