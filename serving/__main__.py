"""Serve a model: ``python -m serving model=smollm2-135m [key=value…]``.

Prints the base URL on one line when ready. The keys are ``CLAWGYM_API_KEY`` and
``CLAWGYM_ADMIN_KEY``, else those kept in files that the first start makes. Exit 0 stopped, 2 user
error, 3 cannot serve: no such model here, address in use, the engine failed.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before anything imports torch

import difflib
import errno
import importlib
import logging
import signal
import sqlite3
import sys
import threading
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .engine import EngineOptions
from .engines import EXTRA_OPTIONS, build_engine
from .errors import EngineError, ModelError, PolicyUnavailable

if TYPE_CHECKING:
    from .server import ServerOptions

USAGE = """\
python -m serving model=NAME [key=value…]

  model         smollm2-135m, a folder in Hugging Face layout, a hub id, or tiny (for tests)
  engine        torch (default), or sglang with sglang_url=
  sglang_url    base URLs of running SGLang servers of this model, with commas between
  sglang_key, sglang_admin_key  theirs, if any; better SGLANG_API_KEY, SGLANG_ADMIN_KEY
  host          127.0.0.1
  port          0: a free one
  max_turns     8192: turns kept in memory, to go on from, to list and to give feedback on
  sessions      folder in which conversations stay over restarts; without it they are kept in memory
  keys          file of further keys, one "NAME KEY" per line; each has sessions of its own
  rate          0: requests a minute with one key, 0 is without limit
  max_requests  4096: replies sampled or waiting at once, further requests get 429
  max_body_mb   32: largest request
  adapter_by_user  no: yes serves a caller whose name is that of a loaded adapter with it
  durable       no: yes ends a reply only when its turn is on disk; wants sessions=
  redact        none: secrets or personal cuts these out of what is kept; module:function is
                yours: it changes a recorded turn or feedback, or returns None to drop it
  keep_days     0: days after which turns are removed, 0 keeps them
  threads       CPU threads of the engine, 0: torch's own choice
  max_slots     48: requests decoded at once, more wait
  cached_slots  32: finished sequences kept for prompts that start like them
  max_len       0: the model's context, up to 8192
  prefill_tokens  256: prompt tokens computed in one step beside the decoded ones
  weights       fp32: int8 is faster on CPUs, and lossy

The API key is CLAWGYM_API_KEY, else the one in ~/.config/clawgym/api_key, made at the first start;
the learner's routes want CLAWGYM_ADMIN_KEY, else the one in admin_key beside it.
"""
SGLANG = tuple(EXTRA_OPTIONS["sglang"])
DEFAULTS: dict[str, str | int] = {
    "model": "",
    "engine": "torch",
    **dict.fromkeys(SGLANG, ""),
    "host": "127.0.0.1",
    "port": 0,
    "max_turns": 8192,
    "sessions": "",
    "keys": "",
    "rate": 0,
    "max_requests": 4096,
    "max_body_mb": 32,
    "adapter_by_user": "no",
    "durable": "no",
    "redact": "none",
    "keep_days": 0,
    **asdict(EngineOptions()),
}
KEY_FOLDER = Path("~/.config/clawgym")


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
        return EngineOptions(**{f.name: options[f.name] for f in fields(EngineOptions)})  # type: ignore[arg-type]
    except ValueError as error:
        raise UsageError(str(error)) from error


def api_key(variable: str, file: str) -> str:
    """Return a key of the environment, else of its file; raises ``UsageError``."""
    from .keys import check_api_key, stored_key

    key = os.environ.get(variable)
    path = KEY_FOLDER.expanduser() / file
    try:
        if key is None:
            return stored_key(path)
        check_api_key(key)
    except ValueError as error:
        raise UsageError(f"{variable if key is not None else path}: {error}") from error
    except OSError as error:
        raise UsageError(f"no key can be kept in {path} ({error}); set {variable}") from error
    return key


def server_options(options: dict[str, str | int]) -> "ServerOptions":
    """Return the server's part; raises ``UsageError``."""
    from .keys import read_keys
    from .server import ServerOptions

    for name in ("adapter_by_user", "durable"):
        if options[name] not in ("yes", "no"):
            raise UsageError(f"{name} is yes or no, not {options[name]!r}")
    if options["durable"] == "yes" and not options["sessions"]:
        raise UsageError("durable=yes needs sessions=FOLDER, where turns are to be kept")
    for name in ("max_requests", "max_body_mb", "max_turns"):
        if int(options[name]) < 1:
            raise UsageError(f"{name} must be at least 1")
    try:
        others = read_keys(Path(str(options["keys"]))) if options["keys"] else {}
    except (OSError, ValueError) as error:
        raise UsageError(f"keys: {error}") from error
    return ServerOptions(
        admin_key=api_key("CLAWGYM_ADMIN_KEY", "admin_key"),
        other_keys=others,
        sessions=_sessions(str(options["sessions"])) if options["sessions"] else None,
        max_turns=int(options["max_turns"]),
        requests_per_minute=int(options["rate"]),
        max_requests=int(options["max_requests"]),
        max_body_bytes=int(options["max_body_mb"]) << 20,
        adapter_by_user=options["adapter_by_user"] == "yes",
        durable=options["durable"] == "yes",
        redact=_redact(str(options["redact"])),
        keep_days=float(options["keep_days"]),
    )


def _sessions(place: str) -> Path:
    """Return a folder that can be written; raises ``UsageError``."""
    folder = Path(place)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise UsageError(
            f"sessions={place}: {error.strerror}; give a folder that can be written"
        ) from error
    return folder


def _redact(place: str) -> Any:
    """Return a kind's redactor, or what ``module:name`` stands for; raises ``UsageError``."""
    from .redaction import KINDS, redactor

    for kind in KINDS:
        if place == kind:
            return redactor(kind)
    module, _, name = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"redact={place}: {error}; write {', '.join(KINDS)} or module:function"
        ) from error
    if not callable(found):
        raise UsageError(f"redact={place} cannot be called")
    return found


def serve(options: dict[str, str | int]) -> None:
    """Serve until SIGINT or SIGTERM."""
    from .models import resolve
    from .renderer import Renderer
    from .server import PolicyServer, spare_collector

    chosen = server_options(options)
    key = api_key("CLAWGYM_API_KEY", "api_key")
    folder = resolve(str(options["model"]))
    engine = build_engine(
        str(options["engine"]),
        folder,
        engine_options(options),
        **{key: str(options[key]) for key in SGLANG},
    )
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    server = None
    try:
        server = PolicyServer(
            engine,
            Renderer(folder),
            api_key=key,
            host=str(options["host"]),
            port=int(options["port"]),
            model_name=str(options["model"]),
            options=chosen,
        )
        url = server.start()
        if "CLAWGYM_API_KEY" not in os.environ:
            where = KEY_FOLDER.expanduser() / "api_key"
            print(f"the API key is in {where}", file=sys.stderr, flush=True)
        print(url, flush=True)
        spare_collector()
        stop.wait()
    finally:
        if server is not None:
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
    except (ModelError, EngineError, PolicyUnavailable, OSError, sqlite3.Error) as error:
        print(error, file=sys.stderr)
        return 3
    except KeyboardInterrupt:  # before it served
        return 130
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until serving has its own
    sys.exit(main(sys.argv[1:]))
