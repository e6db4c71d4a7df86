"""Puts a run's source of signals together: judge, teacher, renderer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rl.algorithms import METHODS
from rl.errors import MissingSignalError
from rl.fleet import RayFleet
from rl.hindsight import Hindsight
from rl.settings import RunConfig
from rl.store import Store


@asynccontextmanager
async def hindsight(
    config: RunConfig, fleet: RayFleet, store: Store
) -> AsyncIterator[Hindsight | None]:
    """Yield what tells a method what followed each turn; None for methods that need no such thing.

    Raises:
        ConfigError: the judge cannot be built.
        MissingSignalError: nothing gives what the method needs.
        JudgeUnavailable: it cannot be loaded.
    """
    if not METHODS[config.algorithm.name].needs:
        yield None
        return
    if config.algorithm.name == "opd_topk":
        raise MissingSignalError(
            "algorithm=opd_topk needs a teacher's likeliest tokens, and policy servers tell only "
            "those of given ones: choose opd or hybrid"
        )
    from rl.judge.model import Endpoint
    from rl.judge.pipeline import build
    from rl.teacher import Inserter, Teacher
    from serving.models import resolve
    from serving.renderer import Renderer

    address = fleet.address
    policy = Endpoint(f"{address.base_url}/v1", address.api_key, config.model)
    judge = build(config.judge, policy=policy, judge_cut=config.algorithm.train_truncated)
    renderer = Renderer(resolve(config.model))
    teacher = Teacher(fleet.score, config.engine.context)
    await judge.open()
    try:
        yield Hindsight(judge, teacher, Inserter(renderer), renderer, store)
    finally:
        await judge.close()
