"""From a request to a job: its session is found, its prompt rendered or gone on with."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .errors import RequestRefused
from .fitness import is_private, kind_of
from .ids import new_id
from .jobs import Caller, Job, Place
from .protocol import ChatRequest, CompletionRequest
from .renderer import Context, Drift, Prompt, Renderer
from .sessions import SessionStore, Trail, new_session
from .turns import Turn
from .types import Message, Sampling


class Prompts:
    """Makes jobs. Safe from any thread.

    Args:
        renderer: of the engine's model.
        sessions: recorded turns.
    """

    def __init__(self, renderer: Renderer, sessions: SessionStore) -> None:
        self._renderer = renderer
        self._sessions = sessions

    def chat(
        self, request: ChatRequest, caller: Caller, sampling: Sampling, prefix: str = ""
    ) -> Job:
        """Return the job of a chat request.

        Args:
            sampling: of one choice.
            prefix: begins its id.

        Raises:
            RequestRefused: the template refuses the messages.
        """
        messages, tools = request.plain_messages(), request.plain_tools()
        opening = ""
        if request.must_call:
            opening = self._renderer.format.forced_opening(request.forced_function)
        options = {
            **self._renderer.known_options(request.template_hints),
            **request.chat_template_kwargs,
        }
        context = Context(tools, options, opening)
        digest = _digest(tools, options)
        trail = Trail(messages)
        turn = self._sessions.find(caller.owner, caller.session, trail)
        prompt = self._render(messages, turn, context, digest)
        session = caller.session
        if session is None:
            related = turn.session if turn else self._sessions.related(caller.owner, trail)
            session = related or new_session()
        place = Place(
            owner=caller.owner,
            scope=caller.session,
            session=session,
            trail=trail,
            parent=turn,
            kind=caller.kind or kind_of(messages)[0],
            context=digest,
            private=caller.private or is_private(messages),
            stores=caller.stores,
        )
        return Job(
            prompt=prompt,
            samplings_G=_choices(sampling, request.n),
            tools=tools,
            opening=opening,
            parallel=request.parallel_tool_calls,
            parses_calls=request.parses_calls,
            place=place,
            id=f"{prefix}{new_id()}",
        )

    def text(self, request: CompletionRequest, sampling: Sampling) -> list[Job]:
        """Return the jobs of a text completion, one per prompt.

        Raises:
            RequestRefused: an empty prompt.
        """
        jobs = []
        for index, prompt in enumerate(request.prompts):
            # as written: names of special tokens are special here
            ids = self._renderer.encode(prompt) if isinstance(prompt, str) else prompt
            if not ids:
                raise RequestRefused("a prompt is empty", field="prompt")
            seeded = sampling
            if request.seed is not None:
                seeded = replace(sampling, seed=request.seed + index * request.n)
            jobs.append(
                Job(
                    Prompt(tuple(ids), Drift.NEW),
                    _choices(seeded, request.n),
                    id=f"cmpl-{new_id()}",
                )
            )
        return jobs

    def _render(
        self,
        messages: Sequence[Message],
        turn: Turn | None,
        context: Context,
        digest: str,
    ) -> Prompt:
        if turn is None:
            prompt = self._renderer.render(messages, context)
            forked = _has_reply(messages)  # one that is not on record
        elif turn.context != digest:  # other tools stand at the beginning of the prompt
            prompt, forked = self._renderer.render(messages, context), True
        else:
            prompt = self._renderer.continue_from(
                messages, turn.num_before, turn.prompt_ids_P, turn.token_ids_T, context
            )
            later = messages[turn.num_before + 1 :]
            forked = _has_reply(later)  # one the client edited: what was sampled is lost
        return replace(prompt, drift=Drift.FORKED) if forked else prompt


def size_bytes(request: ChatRequest) -> int:
    """Return how much there is to render."""
    said = sum(len(m.reasoning_content or "") + m.size_bytes for m in request.messages)
    beside = [request.plain_tools(), request.chat_template_kwargs]
    return said + (len(json.dumps(beside, default=str)) if any(beside) else 0)


def _choices(sampling: Sampling, num: int) -> tuple[Sampling, ...]:
    seed = sampling.seed
    if seed is None:
        return (sampling,) * num
    return tuple(replace(sampling, seed=seed + index) for index in range(num))


def _digest(tools: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> str:
    if not tools and not options:
        return ""
    text = json.dumps([tools, options], sort_keys=True, default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def _has_reply(messages: Sequence[Message]) -> bool:
    return any(message["role"] == "assistant" for message in messages)
