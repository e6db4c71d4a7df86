"""The trainer's ranks as Ray actors that are told everything together.

A rank that dies, or fails where the others do not, ends the run with its first cause: what the
others say then (a connection closed, a wait that never ends) is only its echo.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

from rl.actors import START_TIMEOUT_S, actor, called
from rl.errors import BatchRefused, RunError
from rl.settings import RunConfig
from rl.trainerhost import TrainerHost

STEP_TIMEOUT_S = 1800.0
ECHO_S = 15.0  # in which the failure of one rank is felt by all


class RankGroup:
    """The trainer of a run: one actor, or several that share the policy.

    Args:
        config: of the run.
        run_id: part of the actors' names.
        folder: the run folder.
        publish_folder: where weights for the engine go.
    """

    def __init__(self, config: RunConfig, run_id: str, folder: Path, publish_folder: Path) -> None:
        size = config.num_ranks
        names = [f"{run_id}-trainer", *(f"{run_id}-trainer-{rank}" for rank in range(1, size))]
        gpu = {"num_gpus": 1} if config.gpus.actor else {}
        self._actors = [
            actor(TrainerHost, name=name, **gpu).remote(config, folder, publish_folder, rank, size)
            for rank, name in enumerate(names)
        ]

    async def start(self) -> None:
        """Have every rank find the others and load the model.

        Raises:
            ModelError, RunError: the first cause.
        """
        what, place = "the trainer to load the model", None
        if len(self._actors) > 1:
            place = await called(self._actors[0].meet.remote(), START_TIMEOUT_S, what)
        calls = [rank.start.remote(place) for rank in self._actors]
        await self._together(calls, START_TIMEOUT_S, what)

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method on every rank; return what the first one did.

        Raises:
            RlError: the first cause.
        """
        if len(self._actors) > 1:
            import ray

            arguments = tuple(ray.put(argument) for argument in arguments)
        calls = [getattr(rank, method).remote(*arguments) for rank in self._actors]
        return await self._together(calls, STEP_TIMEOUT_S, f"the trainer's {method}")

    async def _together(self, calls: Sequence[Awaitable[Any]], timeout_s: float, what: str) -> Any:
        if len(calls) == 1:
            return await called(calls[0], timeout_s, what)
        tasks = [asyncio.ensure_future(called(call, timeout_s, what)) for call in calls]
        try:
            _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            if pending:
                _, pending = await asyncio.wait(pending, timeout=ECHO_S)
        finally:
            for task in tasks:
                task.cancel()
        failures = [e for t in tasks if t.done() and (e := t.exception()) is not None]
        if failures:
            if not any(_is_death(error) or isinstance(error, BatchRefused) for error in failures):
                failures += await self._deaths(what)
            raise first_cause(failures, agreed=len(failures) == len(tasks))
        return tasks[0].result()

    async def _deaths(self, what: str) -> list[BaseException]:
        """Return what is said of ranks that are dead, if any: one that died between two calls has
        failed none of its own."""
        asked = (called(rank.ping.remote(), ECHO_S, what) for rank in self._actors)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [error for error in answers if isinstance(error, BaseException) and _is_death(error)]


def _is_death(error: BaseException) -> bool:
    return "an actor died" in str(error)


def first_cause(failures: Sequence[BaseException], agreed: bool) -> BaseException:
    """Return what to raise of what ranks failed by: a death explains all other failures, such as a
    checkpoint that could not be written together.

    Args:
        agreed: all of them failed. A batch that only some have refused leaves ranks with different
            weights: the run cannot go on.
    """
    named = [error for error in failures if type(error) is not RunError]
    deaths = [error for error in failures if _is_death(error)]
    cause = (deaths or named or list(failures))[0]
    if isinstance(cause, BatchRefused) and not agreed:
        return RunError(f"the trainer's ranks no longer agree: {cause}")
    return cause
