"""An engine that computes nothing: ``python -m benchmarks.perf.fake_engine`` serves one reply.

It speaks SGLang's ``/generate`` as our engine wants it and OpenAI's ``/v1/chat/completions`` with
vLLM's token ids and log-probs as recording proxies want them. Whole replies are answered at once,
from bytes made beforehand; streams give a token every ``interval_s``. So what is measured in front
of it is the gateway alone.

Reads one JSON line, a ``Script``, from standard input and prints its base URL.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from aiohttp import web

LOGPROB = -0.25
MODEL = "fake"


@dataclass(frozen=True)
class Script:
    """What it says.

    Attributes:
        ids_T: tokens of the reply, about 32, the end token last.
        texts_T: the text of each token; the end token's is empty.
        prompt_ids_P: what it tells proxies that ask for the prompt's tokens.
        model_path: folder SGLang's routes name as the model's.
        context: most tokens of a prompt and its reply.
        interval_s: between two tokens of a stream.
    """

    ids_T: tuple[int, ...]
    texts_T: tuple[str, ...]
    prompt_ids_P: tuple[int, ...]
    model_path: str
    context: int = 8192
    interval_s: float = 1.0

    @property
    def text(self) -> str:
        """The whole reply."""
        return "".join(self.texts_T)

    def line(self) -> bytes:
        """Return the script as the process reads it."""
        return json.dumps(asdict(self)).encode() + b"\n"


class FakeEngine:
    """Answers as ``script`` says."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._generated = _json(_generated(script, 0, len(script.ids_T)))
        self._completed = {asks: _json(_completion(script, asks)) for asks in (False, True)}

    def app(self) -> web.Application:
        """Return its routes."""
        script = self._script
        info = {
            "context_length": script.context,
            "enable_deterministic_inference": True,
            "enable_lora": False,
            "grammar_backend": "none",
            "incremental_streaming_output": True,
        }
        model = {"model_path": script.model_path, "weight_version": "0"}
        said = {"success": True, "message": ""}
        fixed: dict[str, dict[str, Any]] = {
            "/model_info": model,
            "/server_info": info,
            "/v1/loads": {"loads": []},
            "/ready": {},
            "/health": {},
            "/v1/models": {"object": "list", "data": [{"id": MODEL, "object": "model"}]},
        }
        app = web.Application(client_max_size=32 << 20)
        app.router.add_post("/generate", self.generate)
        app.router.add_post("/v1/chat/completions", self.chat)
        for path, body in fixed.items():
            app.router.add_get(path, _always(body))
        for path in ("/pause_generation", "/continue_generation", "/abort_request"):
            app.router.add_post(path, _always(said))
        return app

    async def generate(self, request: web.Request) -> web.StreamResponse:
        """SGLang's own route."""
        body = json.loads(await request.read())
        if not body["input_ids"]:
            raise web.HTTPBadRequest
        if not body.get("stream"):
            return web.Response(body=self._generated, content_type="application/json")
        return await self._stream(request, lambda at: _generated(self._script, at, at + 1))

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """OpenAI's route."""
        body = json.loads(await request.read())
        if not body["messages"]:
            raise web.HTTPBadRequest
        if not body.get("stream"):
            asks = bool(body.get("logprobs") or body.get("return_token_ids"))
            return web.Response(body=self._completed[asks], content_type="application/json")
        return await self._stream(request, lambda at: _chunk(self._script, at))

    async def _stream(
        self, request: web.Request, event: Callable[[int], Mapping[str, Any]]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for at in range(len(self._script.ids_T)):
            if at:
                await asyncio.sleep(self._script.interval_s)
            await response.write(b"data: " + _json(event(at)) + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response


def _always(body: Mapping[str, Any]) -> Callable[[web.Request], Any]:
    raw = _json(body)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=raw, content_type="application/json")

    return answer


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body).encode()


def _generated(script: Script, start: int, end: int) -> dict[str, Any]:
    """``/generate``'s answer for the tokens from ``start`` to ``end``."""
    ids = script.ids_T[start:end]
    done = end == len(script.ids_T)
    meta = {
        "id": "0" * 32,
        "finish_reason": {"type": "stop", "matched": script.ids_T[-1]} if done else None,
        "prompt_tokens": len(script.prompt_ids_P),
        "completion_tokens": end,
        "cached_tokens": 0,
        "weight_version": "0",
        "weight_versions": [{"version": "0", "start": 0, "end": end}],
        "input_token_logprobs": [],
        "output_token_logprobs": [[LOGPROB, token, None] for token in ids],
    }
    return {"text": "".join(script.texts_T[start:end]), "output_ids": ids, "meta_info": meta}


def _completion(script: Script, with_tokens: bool) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": script.text},
        "finish_reason": "stop",
    }
    body: dict[str, Any] = {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [choice],
        "usage": {
            "prompt_tokens": len(script.prompt_ids_P),
            "completion_tokens": len(script.ids_T),
            "total_tokens": len(script.prompt_ids_P) + len(script.ids_T),
        },
    }
    if with_tokens:
        choice["token_ids"] = script.ids_T
        choice["logprobs"] = {
            "content": [
                {"token": text, "logprob": LOGPROB, "bytes": None, "top_logprobs": []}
                for text in script.texts_T
            ]
        }
        body["prompt_token_ids"] = script.prompt_ids_P
    return body


def _chunk(script: Script, at: int) -> dict[str, Any]:
    choice = {
        "index": 0,
        "delta": {"content": script.texts_T[at]},
        "finish_reason": "stop" if at == len(script.ids_T) - 1 else None,
    }
    return {
        "id": "chatcmpl-0",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": MODEL,
        "choices": [choice],
    }


async def serve(script: Script) -> None:
    """Serve until the process is ended; print the base URL when ready."""
    runner = web.AppRunner(FakeEngine(script).app(), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=2048).start()
        port = runner.addresses[0][1]
        sys.stdout.write(f"http://127.0.0.1:{port}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def main() -> None:
    """Read the script and serve it."""
    asyncio.run(serve(Script(**json.loads(sys.stdin.readline()))))


if __name__ == "__main__":
    main()
