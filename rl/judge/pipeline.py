"""The order of evidence: feedback, rules, then a judge of the run's choice.

``build`` makes it from the configuration; ``open`` loads what takes time, ``close`` lets go of it.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from rl.errors import ConfigError
from rl.judge.classifier import Classifier
from rl.judge.feedback import from_feedback
from rl.judge.model import Endpoint, ModelJudge
from rl.judge.rules import from_rules
from rl.judge.settings import LOCAL, JudgeConfig
from rl.judge.types import Exchange, Judge, Judgement

NOTHING = Judgement(0, confidence=0.0, reason="no evidence", source="none")


class Resource(Protocol):
    """What a judge holds: a model, connections."""

    async def open(self) -> None:
        """Load it; safe to call again."""
        ...

    async def close(self) -> None:
        """Let go of it; safe to call again."""
        ...


class Pipeline:
    """Asks judges in order; the first with evidence speaks, and without any the score is 0.

    Args:
        judges: strongest evidence first.
        resources: opened and closed with the pipeline.
    """

    def __init__(self, judges: Sequence[Judge], resources: Sequence[Resource] = ()) -> None:
        self._judges = tuple(judges)
        self._resources = tuple(resources)

    async def __call__(self, exchange: Exchange) -> Judgement:
        """Return the first judgement found.

        Raises:
            JudgeUnavailable: a judge that had to be asked did not answer; ask again later.
        """
        for judge in self._judges:
            found = await judge(exchange)
            if found is not None:
                return found
        return NOTHING

    async def open(self) -> None:
        """Load what the judges need, so that the first exchange does not wait for it.

        Raises:
            JudgeUnavailable: it cannot be loaded now; the message says what to do.
        """
        for resource in self._resources:
            await resource.open()

    async def close(self) -> None:
        """Let go of models and connections."""
        for resource in self._resources:
            await resource.close()


def build(
    settings: JudgeConfig,
    *,
    policy: Endpoint | None = None,
    environ: Mapping[str, str] | None = None,
    judge_cut: bool = False,
) -> Pipeline:
    """Return the judges a configuration names, in the order of evidence.

    Args:
        settings: ``judge.*``.
        policy: where the policy's base weights answer; needed for ``judge.model=policy``.
        environ: where the key of a URL is; default the process's environment.
        judge_cut: replies cut by their token limit are judged, too (they are to be trained on).

    Raises:
        ConfigError: ``judge.model`` is neither a name nor a URL, or there is no policy to ask.
    """
    judges: tuple[Judge, ...] = (from_feedback, partial(from_rules, judge_cut=judge_cut))
    if settings.model == "rules":
        return Pipeline(judges)
    if settings.model == "default":
        classifier = Classifier(settings.confidence)
        return Pipeline((*judges, classifier), (classifier,))
    endpoint = _endpoint(settings, policy, os.environ if environ is None else environ)
    model = ModelJudge(endpoint, settings)
    return Pipeline((*judges, model), (model,))


def _endpoint(
    settings: JudgeConfig, policy: Endpoint | None, environ: Mapping[str, str]
) -> Endpoint:
    if settings.model == "policy":
        if policy is None:
            raise ConfigError("judge.model=policy: there is no policy server to ask")
        return policy
    if not settings.model.startswith(("http://", "https://")):
        raise ConfigError(
            f"judge.model={settings.model}: give one of {', '.join(LOCAL)} or a base URL such as "
            "http://127.0.0.1:8000/v1"
        )
    return Endpoint(settings.model.rstrip("/"), environ.get(settings.key_env, ""), settings.name)
