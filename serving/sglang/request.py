"""One request to SGLang: what is sent, what came back, and what is asked for again.

A reply may come in pieces from several servers. Tokens are taken out of a response once, with the
log-prob and the version the server gave them; when the rest is asked for elsewhere, the prompt and
these very tokens are the new input.

Axis: ``_T`` sampled token, over the whole reply.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

from ..engine import OnToken
from ..errors import EngineError, RequestRefused
from ..ids import new_id
from ..stopping import StopRule
from ..types import FinishReason, Generation, Sampling, Token, Top
from .adapters import AdapterHandle
from .http import SERVER_FAULT, ServerLost
from .signal import Signal

TOP_K_OFF = 1 << 30
ABORTED: Literal["aborted"] = "aborted"  # the server ended the reply early; no ending of ours
JSON_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
OTHER_IDS = "log-probs and tokens of a response are not of the same ids"
NAN = "NaN happened"  # what the server says it "matched" when the model computed nonsense
Ending = Literal["stop", "length", "aborted"]


@dataclass(eq=False)
class Request:
    """A request and what was sampled for it so far."""

    prompt_ids: list[int]
    sampling: Sampling
    seed: int
    num_tokens: int  # most tokens of the reply, the context's end minded
    on_token: OnToken | None
    stop: StopRule
    adapter: AdapterHandle | None = None
    future: "Future[Generation]" = field(default_factory=Future)
    cancelled: Signal = field(default_factory=Signal)
    waits_for: str = "a server"
    settled: bool = False
    num_cached: int = 0
    rid: str = ""
    begun: int = 0  # tokens there were when the present attempt was sent
    least_version: int = 0  # of a server that has what we gave it, from then on
    token_ids_T: list[int] = field(default_factory=list)
    logprobs_T: list[float] = field(default_factory=list)
    versions_T: list[int] = field(default_factory=list)
    tops_T: list[Top] = field(default_factory=list)

    def body(self, version: int, cache_key: str) -> dict[str, Any]:
        """Start an attempt: the body of ``/generate`` for what is still missing.

        Args:
            version: of the weights in use; older ones would not be what we published.
            cache_key: keeps prompts computed under other weights out of this request's prefix.
        """
        self.rid = new_id()  # all of one length: the server aborts by prefix
        self.begun, self.least_version = len(self.token_ids_T), version
        sampling = self.sampling
        params: dict[str, Any] = {
            "max_new_tokens": self.num_tokens - self.begun,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": TOP_K_OFF,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "sampling_seed": self.seed,
            "ignore_eos": sampling.ignore_end,
        }
        if sampling.stop:
            params["stop"] = list(sampling.stop)
        if sampling.json_schema:
            params["json_schema"] = sampling.json_schema
        body: dict[str, Any] = {
            "rid": self.rid,
            "input_ids": self.prompt_ids + self.token_ids_T,
            "sampling_params": params,
            "return_logprob": True,
            "stream": self.on_token is not None,
            "extra_key": cache_key,
        }
        if sampling.top_logprobs:
            body["top_logprobs_num"] = sampling.top_logprobs
        if self.adapter is not None:
            body["lora_path"] = self.adapter.lora
        return body

    def take(self, out: Mapping[str, Any], is_delta: bool) -> Ending | None:
        """Take the new tokens of a response; return its ending, ``ABORTED``, or None.

        Args:
            is_delta: ``out`` holds only what is new (a server started with
                ``--incremental-streaming-output``), not the attempt's whole reply.

        Raises:
            RequestRefused: the server found the request bad only now.
            EngineError: the model computed NaN, or the server broke.
            ServerLost: the tokens are of older weights than the server should have.
        """
        if self.settled:
            return None
        meta = out["meta_info"]
        if self.begun == 0:  # the tokens of an earlier attempt are no prompt of the client's
            self.num_cached = min(int(meta.get("cached_tokens") or 0), len(self.prompt_ids))
        ending = _ending(meta.get("finish_reason"))
        known = len(self.token_ids_T)
        first = 0 if is_delta else known - self.begun
        ids = out["output_ids"]
        logprobs = meta.get("output_token_logprobs") or []
        if len(logprobs) < len(ids):
            raise EngineError(f"{len(ids)} tokens came with {len(logprobs)} log-probs")
        if known == 0 and self.on_token is None and not self.sampling.top_logprobs:
            self._take_whole(ids[: self.num_tokens], logprobs, meta)
            return "length" if len(ids) > self.num_tokens else ending
        tops = meta.get("output_top_logprobs") or []
        for at in range(first, len(ids)):
            place = at + known if is_delta else at + self.begun
            if place >= self.num_tokens:
                return "length"
            logprob, token = logprobs[at][0], int(ids[at])
            if logprobs[at][1] != token:
                raise EngineError(OTHER_IDS)
            top = _top(tops[at]) if self.sampling.top_logprobs and at < len(tops) else ()
            self._append(Token(token, logprob, self._version(meta, place - self.begun), top))
            reason = self._own_ending()
            if reason is not None:
                return reason
        return ending

    def _take_whole(
        self, ids: Sequence[int], logprobs: Sequence[Sequence[Any]], meta: Mapping[str, Any]
    ) -> None:
        """Take a reply nobody was told of yet, all at once: per token it would cost as much as all
        else here."""
        rows = logprobs[: len(ids)]
        if [row[1] for row in rows] != list(ids):
            raise EngineError(OTHER_IDS)
        spans: Sequence[Mapping[str, Any]] = meta.get("weight_versions") or ()
        is_one = len(spans) == 1 and spans[0]["start"] == 0 and spans[0]["end"] >= len(ids) > 0
        if is_one:
            versions = [self._version(meta, 0)] * len(ids)
        else:
            versions = [self._version(meta, at) for at in range(len(ids))]
        self.token_ids_T += ids
        self.logprobs_T += [row[0] for row in rows]
        self.versions_T += versions

    def restart(self) -> None:
        """Forget what was sampled; only for tokens nobody has been told."""
        for values in (self.token_ids_T, self.logprobs_T, self.versions_T, self.tops_T):
            values.clear()

    def generation(self, reason: FinishReason) -> Generation:
        """The result."""
        return Generation(
            token_ids_T=tuple(self.token_ids_T),
            logprobs_T=tuple(self.logprobs_T),
            versions_T=tuple(self.versions_T),
            finish_reason=reason,
            num_cached=self.num_cached,
            tops_T=tuple(self.tops_T),
        )

    def _append(self, token: Token) -> None:
        self.token_ids_T.append(token.id)
        self.logprobs_T.append(token.logprob)
        self.versions_T.append(token.version)
        if self.sampling.top_logprobs:
            self.tops_T.append(token.top)
        if self.on_token is not None:
            self.on_token(token)

    def _own_ending(self) -> Ending | None:
        """A stop string may lie across the seam of two attempts, where no server sees it."""
        if self.begun and self.sampling.stop:
            reason = self.stop.reason(self.token_ids_T, self.sampling)
            return "stop" if reason == "stop" else None
        return None

    def _version(self, meta: Mapping[str, Any], at: int) -> int:
        if self.adapter is not None:
            return self.adapter.version
        said = meta.get("weight_version")
        for span in meta.get("weight_versions") or ():
            if span["start"] <= at < span["end"]:
                said = span["version"]
        version = as_version(said)
        if version < self.least_version:
            raise ServerLost(f"tokens came of version {said}: the server was started again")
        return version


class SglangTicket:
    """A request in the SGLang engine."""

    def __init__(self, request: Request, call: Callable[[Callable[[], object]], None]) -> None:
        self._request = request
        self._call = call

    @property
    def future(self) -> "Future[Generation]":
        """Its result."""
        return self._request.future

    def cancel(self) -> None:
        """Stop sampling soon. Idempotent."""
        self._call(self._request.cancelled.set)


def check_schema(text: str) -> None:
    """Refuse what is plainly no JSON schema; only the servers can tell the rest.

    Raises:
        RequestRefused: no JSON, no object, or a type JSON does not have.
    """
    try:
        pending = [json.loads(text)]
    except ValueError as error:
        raise RequestRefused(f"the schema is no JSON: {error}", field="response_format") from error
    while pending:
        part = pending.pop()
        if not isinstance(part, dict | bool):
            raise RequestRefused(f"a schema is an object, not {part!r}", field="response_format")
        if isinstance(part, bool):
            continue
        kinds = part.get("type", [])
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            if kind not in JSON_TYPES:
                raise RequestRefused(
                    f"a schema's type is one of {', '.join(JSON_TYPES)}, not {kind!r}",
                    field="response_format",
                )
        for key in ("properties", "$defs"):
            inner = part.get(key)
            pending += inner.values() if isinstance(inner, dict) else []
        for key in ("anyOf", "allOf", "oneOf"):
            inner = part.get(key)
            pending += inner if isinstance(inner, list) else []
        if "items" in part:
            pending.append(part["items"])


def fail(future: "Future[Any]", error: Exception) -> None:
    """Fail a future that nothing has settled yet, unless its owner cancelled it."""
    if future.set_running_or_notify_cancel():
        future.set_exception(error)


def as_version(said: object) -> int:
    """Our number of a server's version string; one that is no number (``default``) is 0."""
    return int(str(said)) if str(said).isdecimal() else 0


def _ending(finish: Mapping[str, Any] | None) -> Ending | None:
    if finish is None:
        return None
    kind = finish.get("type")
    if kind == "abort":
        status, message = finish.get("status_code"), str(finish.get("message"))
        if status is not None and status < SERVER_FAULT:
            raise RequestRefused(message)
        return ABORTED
    if kind == "stop" and finish.get("matched") == NAN:
        raise EngineError("the model computed NaN; are the weights sound?")
    if kind == "stop":
        return "stop"
    if kind == "length":
        return "length"
    raise EngineError(f"the server ended a reply with {finish!r}")


def _top(row: Sequence[Sequence[Any]] | None) -> Top:
    return tuple((int(entry[1]), float(entry[0])) for entry in row or ())
