"""Bodies of OpenAI's chat and text completions, whole and streamed."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from .formats.pieces import Content, Reasoning
from .gateway import Gateway
from .jobs import Job
from .protocol import ChatRequest, CompletionRequest, SamplingFields
from .renderer import Renderer
from .reply import Answer
from .streaming import End, Progress, sample
from .types import Generation, Top

DONE = b"data: [DONE]\n\n"


def completion(
    gateway: Gateway, request: ChatRequest, job: Job, answers_G: Sequence[Answer]
) -> dict[str, Any]:
    """Return the body of a chat reply that is not streamed."""
    choices = []
    for index, answer in enumerate(answers_G):
        message: dict[str, Any] = {"role": "assistant", "content": answer.parsed.content}
        if answer.parsed.reasoning:
            message["reasoning_content"] = answer.parsed.reasoning
        if answer.tool_calls:
            message["tool_calls"] = list(answer.tool_calls)
            message["content"] = answer.parsed.content or None
        choice: dict[str, Any] = {
            "index": index,
            "message": message,
            "finish_reason": answer.ending,
            "logprobs": None,
        }
        if request.logprobs:
            choice["logprobs"] = logprobs(gateway.renderer, answer.generation)
        choices.append(choice | _extensions(request, job, answer))
    return {
        "id": job.id,
        "object": "chat.completion",
        "created": job.created,
        "model": request.model,
        "choices": choices,
        "usage": usage(job, answers_G),
        "system_fingerprint": fingerprint(answers_G),
    }


async def chat_events(
    gateway: Gateway, request: ChatRequest, job: Job
) -> AsyncGenerator[bytes, None]:
    """Yield the server-sent events of a streamed chat reply.

    Raises:
        ContextOverflow: before the first event.
        EngineError: the engine failed.
    """
    answers: dict[int, Answer] = {}
    begun: set[int] = set()
    async with aclosing(sample(gateway, job)) as events:
        async for event in events:
            if isinstance(event, End):
                answers[event.index] = event.answer
                extra = _extensions(request, job, event.answer)
                last = _delta(event.index, {}, event.answer.ending, **extra)
                answered = fingerprint([event.answer])
                yield _chat_event(request, job, last, system_fingerprint=answered)
                continue
            if event.index not in begun:
                begun.add(event.index)
                role = _delta(event.index, {"role": "assistant", "content": ""})
                yield _chat_event(request, job, role)
            for choice in _deltas(gateway.renderer, request, event):
                yield _chat_event(request, job, choice)
    if request.includes_usage:
        counts = usage(job, [answers[index] for index in sorted(answers)])
        yield _chat_event(request, job, None, usage=counts)
    yield DONE


def _deltas(renderer: Renderer, request: ChatRequest, event: Progress) -> list[dict[str, Any]]:
    """Return the choices one piece of news makes; log-probs go with the first."""
    contents: list[dict[str, Any]] = []
    for piece in event.pieces:
        if isinstance(piece, Content):
            contents.append({"content": piece.text})
        elif isinstance(piece, Reasoning):
            contents.append({"reasoning_content": piece.text})
    for offset, call in enumerate(event.calls):
        contents.append({"tool_calls": [{"index": event.first_call + offset, **call}]})
    listing = None
    if request.logprobs and event.token is not None:
        contents = contents or [{"content": ""}]
        listing = {"content": [_listed(renderer, *event.token[:2], event.token.top)]}
    return [
        _delta(event.index, content, logprobs=None if at else listing)
        for at, content in enumerate(contents)
    ]


def _delta(
    index: int, content: dict[str, Any], finish_reason: str | None = None, **fields: Any
) -> dict[str, Any]:
    return {"index": index, "delta": content, "finish_reason": finish_reason, **fields}


def _chat_event(
    request: ChatRequest, job: Job, choice: dict[str, Any] | None, **fields: Any
) -> bytes:
    body = {
        "id": job.id,
        "object": "chat.completion.chunk",
        "created": job.created,
        "model": request.model,
        "choices": [] if choice is None else [choice],
        **fields,
    }
    return line(body)


def text_completion(
    gateway: Gateway,
    request: CompletionRequest,
    jobs: Sequence[Job],
    answers: Sequence[Sequence[Answer]],
) -> dict[str, Any]:
    """Return the body of ``/v1/completions``: the choices of all prompts, one after the other."""
    choices: list[dict[str, Any]] = []
    for job, answers_G in zip(jobs, answers, strict=True):
        for answer in answers_G:
            listing = None
            if request.logprobs is not None:
                listing = _text_logprobs(gateway.renderer, answer.generation)
            choice = {
                "index": len(choices),
                "text": answer.parsed.content,
                "finish_reason": answer.generation.finish_reason,
                "logprobs": listing,
            }
            choices.append(choice | _extensions(request, job, answer))
    counts = [usage(job, answers_G) for job, answers_G in zip(jobs, answers, strict=True)]
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return _text_body(request, jobs[0], choices) | {
        "usage": {name: sum(count[name] for count in counts) for name in names}
    }


async def text_events(
    gateway: Gateway, request: CompletionRequest, job: Job
) -> AsyncGenerator[bytes, None]:
    """Yield the server-sent events of a streamed text completion of one prompt."""
    answers: dict[int, Answer] = {}
    offsets: dict[int, int] = {}  # characters listed so far, by choice
    async with aclosing(sample(gateway, job)) as events:
        async for event in events:
            if isinstance(event, End):
                answers[event.index] = event.answer
                reason = event.answer.generation.finish_reason
                choice: dict[str, Any] = {"text": "", "finish_reason": reason}
                choice |= _extensions(request, job, event.answer)
            elif event.pieces or (event.token is not None and request.logprobs is not None):
                choice = _text_choice(gateway.renderer, request, event, offsets)
            else:
                continue
            choice = {"index": event.index, "logprobs": None, **choice}
            yield line(_text_body(request, job, [choice]))
    if request.includes_usage:
        counts = usage(job, [answers[index] for index in sorted(answers)])
        yield line(_text_body(request, job, []) | {"usage": counts})
    yield DONE


def _text_choice(
    renderer: Renderer, request: CompletionRequest, event: Progress, offsets: dict[int, int]
) -> dict[str, Any]:
    said = "".join(piece.text for piece in event.pieces if isinstance(piece, Content))
    choice: dict[str, Any] = {"text": said, "finish_reason": None}
    if request.logprobs is not None and event.token is not None:
        token = event.token
        one = Generation((token.id,), (token.logprob,), (token.version,), "stop")
        at = offsets.get(event.index, 0)
        choice["logprobs"] = _text_logprobs(renderer, one, (token.top,), at)
        offsets[event.index] = at + len(renderer.token(token.id))
    return choice


def _text_body(
    request: CompletionRequest, job: Job, choices: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "id": job.id,
        "object": "text_completion",
        "created": job.created,
        "model": request.model,
        "choices": choices,
    }


def logprobs(renderer: Renderer, generation: Generation) -> dict[str, Any]:
    """Return chat's listing of log-probs."""
    tops = generation.tops_T or ((),) * len(generation.token_ids_T)
    content = [
        _listed(renderer, token_id, value, top)
        for token_id, value, top in zip(
            generation.token_ids_T, generation.logprobs_T, tops, strict=True
        )
    ]
    return {"content": content, "refusal": None}


def _listed(renderer: Renderer, token_id: int, value: float, top: Top) -> dict[str, Any]:
    return _one(renderer, token_id, value) | {
        "top_logprobs": [_one(renderer, other, logprob) for other, logprob in top]
    }


def _one(renderer: Renderer, token_id: int, value: float) -> dict[str, Any]:
    token = renderer.token(token_id)
    # of a token that is a part of a character the text does not tell the bytes
    known = None if "\ufffd" in token else list(token.encode())
    return {"token": token, "logprob": value, "bytes": known}


def _text_logprobs(
    renderer: Renderer, generation: Generation, tops: Sequence[Top] | None = None, at: int = 0
) -> dict[str, Any]:
    """Return text completions' listing; ``at`` is where in the text its first token begins."""
    tops = generation.tops_T if tops is None else tops
    tokens = [renderer.token(token_id) for token_id in generation.token_ids_T]
    offsets = []
    for token in tokens:
        offsets.append(at)
        at += len(token)
    listed = [{renderer.token(other): value for other, value in top} for top in tops]
    return {
        "tokens": tokens,
        "token_logprobs": list(generation.logprobs_T),
        "top_logprobs": listed if any(listed) else None,
        "text_offset": offsets,
    }


def _extensions(request: SamplingFields, job: Job, answer: Answer) -> dict[str, Any]:
    """Return our own fields of a choice."""
    fields: dict[str, Any] = {}
    if answer.parsed.faults:
        fields["tool_call_faults"] = list(answer.parsed.faults)
    if request.return_token_ids:
        fields |= token_fields(job, answer.generation)
    return fields


def token_fields(job: Job, generation: Generation) -> dict[str, Any]:
    """Return what a learner needs of a choice."""
    return {
        "token_ids": generation.token_ids_T,
        "prompt_token_ids": job.prompt.ids_P,
        "token_logprobs": generation.logprobs_T,
        "policy_versions": generation.versions_T,
        "num_cached": generation.num_cached,
    }


def fingerprint(answers_G: Sequence[Answer]) -> str | None:
    """Return which policy answered, as ``policy-VERSION``: the newest that sampled a token."""
    versions = [max(a.generation.versions_T) for a in answers_G if a.generation.versions_T]
    return f"policy-{max(versions)}" if versions else None


def usage(job: Job, answers_G: Sequence[Answer]) -> dict[str, Any]:
    """Return token counts; the prompt counts once however many choices."""
    prompt = len(job.prompt.ids_P)
    sampled = sum(len(answer.generation.token_ids_T) for answer in answers_G)
    cached = min((answer.generation.num_cached for answer in answers_G), default=0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": sampled,
        "total_tokens": prompt + sampled,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def line(body: dict[str, Any]) -> bytes:
    """Return one server-sent event."""
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()
