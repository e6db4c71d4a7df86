"""Serve a model: ``python -m serving model=smollm2-135m [key=value…]``.

Prints the base URL on one line when ready. The key is ``CLAWGYM_API_KEY``, else made up and
printed. Exit 0 stopped, 2 user error, 3 cannot serve: no such model here, address in use, the
engine failed.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before anything imports torch

import difflib
import logging
import signal
import sys
import threading
from dataclasses import asdict, fields

from .engine import EngineOptions
from .engines import build_engine
from .errors import EngineError, ModelError, PolicyUnavailable

USAGE = """\
python -m serving model=NAME [key=value…]

  model         smollm2-135m, a folder in Hugging Face layout, a hub id, or tiny (for tests)
  engine        torch (default)
  host          127.0.0.1
  port          0: a free one
  threads       CPU threads of the engine, 0: torch's own choice
  max_slots     48: requests decoded at once, more wait
  cached_slots  32: finished sequences kept for prompts that start like them
  max_len       0: the model's context, up to 8192
  prefill_tokens  256: prompt tokens computed in one step beside the decoded ones

The API key is taken from CLAWGYM_API_KEY; without it one is made up and printed.
"""
DEFAULTS: dict[str, str | int] = {
    "model": "",
    "engine": "torch",
    "host": "127.0.0.1",
    "port": 0,
    **asdict(EngineOptions()),
}


class UsageError(Exception):
    """A command line that cannot be understood."""


def parse(arguments: list[str]) -> dict[str, str | int]:
    """Return the options; raises ``UsageError`` naming the nearest legal key."""
    options = dict(DEFAULTS)
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in DEFAULTS:
            near = difflib.get_close_matches(key, DEFAULTS, n=1)
            hint = f"; did you mean {near[0]}=?" if near else ""
            raise UsageError(f"unknown option {argument!r}{hint} Options: {', '.join(DEFAULTS)}")
        if isinstance(DEFAULTS[key], int):
            if not value.isdecimal():
                raise UsageError(f"{key} must be a number that is not negative, not {value!r}")
            options[key] = int(value)
        else:
            options[key] = value
    if not options["model"]:
        raise UsageError("model= is missing, such as model=smollm2-135m")
    from .server import LAST_PORT

    if int(options["port"]) > LAST_PORT:
        raise UsageError(f"port must be 0..{LAST_PORT}, not {options['port']}")
    engine_options(options)
    return options


def engine_options(options: dict[str, str | int]) -> EngineOptions:
    """Return the engine's part; raises ``UsageError`` for a value out of range."""
    try:
        return EngineOptions(**{f.name: int(options[f.name]) for f in fields(EngineOptions)})
    except ValueError as error:
        raise UsageError(str(error)) from error


def serve(options: dict[str, str | int]) -> None:
    """Serve until SIGINT or SIGTERM."""
    from .app import check_api_key
    from .models import resolve
    from .renderer import Renderer
    from .server import PolicyServer

    key = os.environ.get("CLAWGYM_API_KEY")
    try:
        check_api_key(key or "made-up")
    except ValueError as error:
        raise UsageError(f"CLAWGYM_API_KEY: {error}") from error
    folder = resolve(str(options["model"]))
    engine = build_engine(str(options["engine"]), folder, engine_options(options))
    server = PolicyServer(
        engine,
        Renderer(folder),
        api_key=key,
        host=str(options["host"]),
        port=int(options["port"]),
        model_name=str(options["model"]),
    )
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        url = server.start()
        if not key:
            print(f"API key: {server.api_key}", file=sys.stderr, flush=True)
        print(url, flush=True)
        stop.wait()
    finally:
        server.stop()
        engine.close()


def main(arguments: list[str]) -> int:
    """Run the command line; return its exit status."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    try:
        serve(parse(arguments))
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    except (ModelError, EngineError, PolicyUnavailable) as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
