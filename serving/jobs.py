"""A request on its way: who asks, where its reply belongs, what is to be sampled."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .ids import new_id
from .renderer import Prompt
from .sessions import Trail
from .turns import Kind, Turn
from .types import Sampling


@dataclass(frozen=True)
class Caller:
    """Who asks, as far as a request tells.

    Attributes:
        owner: name of its key; "" for the only key.
        session: the name it gives its session, or None.
        kind: ``main`` or ``side`` where it says so itself.
        user: whom the request names, or "".
        private: it asks that the reply be not learned from.
        stores: whether the reply may be named by ``previous_response_id``.
    """

    owner: str = ""
    session: str | None = None
    kind: Kind | None = None
    user: str = ""
    private: bool = False
    stores: bool = True


ANONYMOUS = Caller()


@dataclass(frozen=True)
class Place:
    """Where a reply belongs.

    Attributes:
        owner: whose conversation it is.
        scope: session named by the client, or None.
        session: the session's name, inferred or made up when not named.
        trail: the whole conversation before the reply.
        parent: the recorded turn it goes on from.
        context: digest of tools and template options.
        private: the reply must not be learned from.
    """

    owner: str
    scope: str | None
    session: str
    trail: Trail
    parent: Turn | None
    kind: Kind
    context: str
    private: bool = False
    stores: bool = True


@dataclass(frozen=True)
class Job:
    """A request ready to be sampled.

    Attributes:
        samplings_G: one per choice.
        parses_calls: whether what looks like a call is one.
        place: None for text completions, which belong to no conversation.
    """

    prompt: Prompt
    samplings_G: tuple[Sampling, ...]
    tools: Sequence[Mapping[str, Any]] = ()
    opening: str = ""
    parallel: bool = True
    parses_calls: bool = True
    place: Place | None = None
    id: str = field(default_factory=new_id)
    created: int = field(default_factory=lambda: int(time.time()))
