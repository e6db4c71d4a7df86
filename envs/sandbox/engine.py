"""The one place that finds the Docker engine. Local socket or ``DOCKER_HOST``, any version ≥ 1.41.

The SDK is imported here on first use, never by importing ``envs``.
"""

import threading
from typing import TYPE_CHECKING

from envs.errors import MissingDependency, MissingEngine

if TYPE_CHECKING:
    from docker import APIClient

REMEDY = "start one with: scripts/engine (or set DOCKER_HOST to a running engine)"
MAY_NOT = "join the group docker and log in again, or run as root"
CONNECT_TIMEOUT_S = 10.0

_version: str | None = None
_seen_images: set[str] = set()
_lock = threading.Lock()


def connect(timeout_s: float = 60.0) -> "APIClient":
    """Return a client of its own for the caller, who closes it.

    Raises:
        MissingEngine: there is none, and there was none before; names the remedy.
        MissingDependency: it does not answer; names the remedy.
    """
    global _version
    import docker
    import requests
    from docker.utils import kwargs_from_env

    where = kwargs_from_env()
    try:
        with _lock:
            if _version is None:
                probe = docker.APIClient(**where, version="auto", timeout=int(CONNECT_TIMEOUT_S))
                _version = str(probe.api_version)
                probe.close()
        return docker.APIClient(**where, version=_version, timeout=int(timeout_s))
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        target = where.get("base_url", "unix:///var/run/docker.sock")
        why, remedy = _explain(error)
        absent = isinstance(_system_error(error), FileNotFoundError | PermissionError)
        kind = MissingEngine if absent and _version is None else MissingDependency
        raise kind(f"no Docker engine answers at {target}: {why}", remedy) from None


def _explain(error: BaseException) -> tuple[str, str]:
    """Return why an engine does not answer and what to do, in words."""
    cause = _system_error(error)
    if isinstance(cause, FileNotFoundError):
        return "there is no such socket", REMEDY
    if isinstance(cause, PermissionError):
        return "this user may not use it", MAY_NOT
    if isinstance(cause, ConnectionRefusedError):
        return "nothing listens there", REMEDY
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower(), REMEDY
    text = " ".join(str(error).split())
    return "it did not answer in time" if "timed out" in text.lower() else text[:200], REMEDY


def _system_error(error: BaseException) -> OSError | None:
    """Return what the system said first; the libraries between wrap it several times."""
    found: OSError | None = None
    seen: set[int] = set()
    waiting: list[BaseException] = [error]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, OSError) and one.errno is not None:
            found = one
        nearby = (one.__cause__, one.__context__, getattr(one, "reason", None), *one.args)
        waiting += [near for near in nearby if isinstance(near, BaseException)]
    return found


def has_image(reference: str) -> bool:
    """Tell whether the engine has an image. A yes is remembered for this process.

    Raises:
        MissingDependency: no engine answers.
    """
    import docker.errors
    import requests

    if reference in _seen_images:
        return True
    api = connect()
    try:
        api.inspect_image(reference)  # type: ignore[no-untyped-call]
    except docker.errors.ImageNotFound:
        return False
    except (docker.errors.DockerException, requests.RequestException) as error:
        why, remedy = _explain(error)
        raise MissingDependency(f"the Docker engine does not answer: {why}", remedy) from None
    finally:
        api.close()
    _seen_images.add(reference)
    return True


def forget_images() -> None:
    """Ask the engine again next time: an image may have been removed behind our back."""
    _seen_images.clear()
