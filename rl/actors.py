"""Calls of Ray actors: bounded, and failing by their first cause."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, TypeVar

from rl.errors import RlError, RunError, StalledError

log = logging.getLogger(__name__)
T = TypeVar("T")

START_TIMEOUT_S = 300.0


def actor(cls: type, **options: Any) -> Any:
    import ray

    return ray.remote(num_cpus=0, max_restarts=0)(cls).options(
        runtime_env={"env_vars": {"OMP_WAIT_POLICY": "PASSIVE"}}, **options
    )


async def bounded(ref: Awaitable[T], timeout_s: float, what: str) -> T:
    """Await a Ray call. Raises ``StalledError`` naming what was waited for."""
    try:
        return await asyncio.wait_for(asyncio.ensure_future(ref), timeout_s)
    except TimeoutError:
        raise StalledError(f"waited {timeout_s:.0f} s for {what}") from None


async def called(ref: Awaitable[T], timeout_s: float, what: str) -> T:
    """Await a call whose failure ends the run, and raise its first cause.

    Raises:
        StalledError: no answer in time.
        RunError: the actor died, or its method failed by an error that users need not know.
    """
    from ray.exceptions import RayError, RayTaskError

    from serving.errors import ModelError

    try:
        return await bounded(ref, timeout_s, what)
    except RayTaskError as error:
        cause = error.cause if isinstance(error.cause, Exception) else error
        if isinstance(cause, ModelError | RlError):
            raise cause from error
        raise RunError(f"while waiting for {what}: {one_line(cause)}") from cause
    except RayError as error:  # dead, or killed for memory
        raise RunError(f"an actor died; waited for {what}: {one_line(error)}") from error


async def quietly(ref: Awaitable[Any], timeout_s: float) -> None:
    """Await a closing call; what fails on the way out is logged, not raised."""
    try:
        await bounded(ref, timeout_s, "an actor to close")
    except Exception as error:
        log.debug("closing: %s", error)


def one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"
