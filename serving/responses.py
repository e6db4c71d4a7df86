"""Bodies of chat replies in OpenAI's shape, whole and streamed."""

from collections.abc import Sequence
from typing import Any

from .gateway import Gateway, Job
from .types import Generation


def completion(gateway: Gateway, job: Job, generations_G: Sequence[Generation]) -> dict[str, Any]:
    """Return the body of a reply that is not streamed."""
    choices = []
    for index, generation in enumerate(generations_G):
        choice: dict[str, Any] = {
            "index": index,
            "message": {"role": "assistant", "content": gateway.text(job, generation)},
            "finish_reason": generation.finish_reason,
            "logprobs": None,
        }
        if job.request.logprobs:
            choice["logprobs"] = logprobs(gateway, generation.token_ids_T, generation.logprobs_T)
        if job.request.return_token_ids:
            choice |= token_fields(job, generation)
        choices.append(choice)
    return {
        "id": job.id,
        "object": "chat.completion",
        "created": job.created,
        "model": job.request.model,
        "choices": choices,
        "usage": usage(job, generations_G),
    }


def chunk(job: Job, choices: Sequence[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """Return one event of a streamed reply."""
    return {
        "id": job.id,
        "object": "chat.completion.chunk",
        "created": job.created,
        "model": job.request.model,
        "choices": list(choices),
        **fields,
    }


def delta(
    index: int, content: dict[str, Any], finish_reason: str | None = None, **fields: Any
) -> dict[str, Any]:
    """Return one choice of a streamed event."""
    return {"index": index, "delta": content, "finish_reason": finish_reason, **fields}


def logprobs(
    gateway: Gateway, token_ids_T: Sequence[int], logprobs_T: Sequence[float]
) -> dict[str, Any]:
    """Return the log-prob listing of sampled tokens."""
    content = []
    for token_id, value in zip(token_ids_T, logprobs_T, strict=True):
        token = gateway.renderer.token(token_id)
        content.append(
            {
                "token": token,
                "logprob": value,
                "bytes": list(token.encode()),
                "top_logprobs": [],
            }
        )
    return {"content": content, "refusal": None}


def token_fields(job: Job, generation: Generation) -> dict[str, Any]:
    """Return our extension: what a learner needs of a choice."""
    return {
        "token_ids": generation.token_ids_T,
        "prompt_token_ids": job.prompt.ids_P,
        "token_logprobs": generation.logprobs_T,
        "policy_versions": generation.versions_T,
        "num_cached": generation.num_cached,
    }


def usage(job: Job, generations_G: Sequence[Generation]) -> dict[str, Any]:
    """Return token counts; the prompt counts once however many choices."""
    prompt = len(job.prompt.ids_P)
    sampled = sum(len(generation.token_ids_T) for generation in generations_G)
    cached = min(generation.num_cached for generation in generations_G)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": sampled,
        "total_tokens": prompt + sampled,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
