"""Puts a run's source of signals together: judge, teacher, renderer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from rl.algorithms import METHODS
from rl.fleet import RayFleet
from rl.hindsight import Hindsight
from rl.methodsettings import OpdTopKConfig
from rl.settings import RunConfig
from rl.store import Store

if TYPE_CHECKING:
    from rl.teacher import Teacher


def teacher(config: RunConfig, fleet: RayFleet) -> "Teacher":
    """Return the teacher of a run: the policy itself."""
    from rl.teacher import Teacher

    algorithm = config.algorithm
    likeliest = None
    if isinstance(algorithm, OpdTopKConfig):
        likeliest = partial(fleet.likeliest, num_likeliest=algorithm.k)
    return Teacher(fleet.score, config.engine.context, likeliest)


@asynccontextmanager
async def hindsight(
    config: RunConfig, fleet: RayFleet, store: Store
) -> AsyncIterator[Hindsight | None]:
    """Yield what tells a method what followed each turn; None for methods that need no such thing.

    Raises:
        ConfigError: the judge cannot be built.
        JudgeUnavailable: it cannot be loaded.
    """
    if not METHODS[config.algorithm.name].needs:
        yield None
        return
    from rl.judge.model import Endpoint
    from rl.judge.pipeline import build
    from rl.teacher import Inserter
    from serving.models import resolve
    from serving.renderer import Renderer

    address = fleet.address
    policy = Endpoint(f"{address.base_url}/v1", address.api_key, config.model)
    judge = build(config.judge, policy=policy, judge_cut=config.algorithm.train_truncated)
    renderer = Renderer(resolve(config.model))
    insert = Inserter(renderer) if METHODS[config.algorithm.name].hinted else None
    await judge.open()
    try:
        yield Hindsight(judge, teacher(config, fleet), insert, renderer, store)
    finally:
        await judge.close()
