"""A stand-in for an SGLang 0.5.23 server: its HTTP manners over our own engine and a tiny model.

It copies what a client can trip over on the routes the engine uses: unknown sampling parameters
refused, unknown top-level keys ignored, cumulative streams, requests that hang during a pause,
aborts lost while they hang, a flush refused in a pause in place *after* the weights changed, an
unpaused update that waits for all replies, spans of weight versions, adapter names that come back
by themselves. Numbers are real: tokens and log-probs are the engine's.

Left out: the OpenAI routes, pause with retraction, weights over tensors or process groups.
"""

import asyncio
import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

from aiohttp import web

from serving.embedded.engine import TorchEngine
from serving.engine import EngineOptions
from serving.errors import EngineError, RequestRefused
from serving.types import Generation, Sampling, Token

from .sglang_words import CONTROL, NOT_FLUSHED, SAMPLING_KEYS


class Reply:
    """A request the server knows by its rid."""

    def __init__(self) -> None:
        self.ticket: Any = None
        self.abort_sent = False
        self.tokens: list[Token] = []
        self.news = asyncio.Event()


class SglangDouble:
    """A server in a thread of its own; ``url`` stays the same over ``kill`` and ``restart``."""

    def __init__(
        self,
        folder: Path,
        *,
        weight_version: str = "default",
        api_key: str = "",
        admin_key: str = "",
        incremental: bool = False,
        enable_lora: bool = True,
        token_delay_s: float = 0.0,
    ) -> None:
        self.folder = folder
        self.first_version = weight_version
        self.keys = (api_key, admin_key or api_key)
        self.info = {
            "incremental_streaming_output": incremental,
            "enable_lora": enable_lora,
            "enable_deterministic_inference": True,
            "grammar_backend": "xgrammar",
            "context_length": None,
        }
        self.token_delay_s = token_delay_s
        self.bodies: list[dict[str, Any]] = []  # of /generate, as received
        self.calls: list[str] = []  # control routes, in order
        self.refuse: dict[str, str] = {}  # route → message of a 400 instead of an answer
        self.abort_after: int | None = None  # tokens after which the server aborts a reply, once
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.restart()

    def __enter__(self) -> "SglangDouble":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def restart(self) -> None:
        """Start as a fresh process does: first weights, first version, no adapters."""
        self.engine = TorchEngine(
            self.folder,
            EngineOptions(threads=1, max_slots=20, cached_slots=8, prefill_tokens=64),
        )
        self.context = self.engine.max_len
        self.names = [self.first_version]  # the scheduler's: engine version → version string
        self.told_version = self.first_version  # /model_info's
        self.model_path = str(self.folder)
        self.lora_paths: dict[str, str] = {}
        self.lora_cache: dict[str, str] = {}  # all names ever loaded
        self._in_loop(self._start())

    def kill(self) -> None:
        """Go as a killed process goes: connections reset, port closed."""
        if self._runner is not None:
            self._in_loop(self._kill())
            self.engine.close()

    def paused_by_hand(self) -> None:
        """As if a client had paused it and gone away."""
        self._in_loop(self._pause({"mode": "in_place"}))

    def _in_loop(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        self.is_paused = False
        self.unpaused = asyncio.Event()
        self.unpaused.set()
        self.replies: dict[str, Reply] = {}
        self.num_running = 0
        app = web.Application(client_max_size=1 << 28, middlewares=[self._authorised])
        app.router.add_post("/generate", self._generate)
        for path, handler in (
            ("/pause_generation", self._pause),
            ("/continue_generation", self._continue),
            ("/abort_request", self._abort),
            ("/update_weights_from_disk", self._update),
            ("/load_lora_adapter", self._load_lora),
            ("/unload_lora_adapter", self._unload_lora),
            ("/flush_cache", self._flush),
        ):
            app.router.add_post(path, self._control(path, handler))
        app.router.add_get("/model_info", self._model_info)
        app.router.add_get("/server_info", self._server_info)
        app.router.add_get("/v1/loads", self._loads)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/ready", self._ready)
        self._runner: web.AppRunner | None = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()

    async def _kill(self) -> None:
        runner, self._runner = self._runner, None
        assert runner is not None and runner.server is not None
        for site in list(runner.sites):
            await site.stop()
        for connection in list(runner.server.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await runner.cleanup()

    @web.middleware
    async def _authorised(self, request: web.Request, handler: Any) -> web.StreamResponse:
        key = self.keys[request.path in CONTROL]
        free = request.path.startswith(("/health", "/ready", "/metrics"))
        if key and not free and request.headers.get("Authorization") != f"Bearer {key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        return await handler(request)

    def _control(self, path: str, handler: Any) -> Any:
        async def handle(request: web.Request) -> web.Response:
            raw = await request.read()
            if not raw and path == "/continue_generation":
                return web.json_response({"detail": "Field required"}, status=422)
            self.calls.append(path)
            if path in self.refuse:
                return answer(400, {"success": False, "message": self.refuse[path]})
            return await handler(json.loads(raw or b"{}"))

        return handle

    # what it says of itself

    async def _model_info(self, request: web.Request) -> web.Response:
        return answer(200, {"model_path": self.model_path, "weight_version": self.told_version})

    async def _server_info(self, request: web.Request) -> web.Response:
        # as the real one: room for a token and then some is kept free of the prompt
        return answer(200, {**self.info, "max_req_input_len": self.context - 6})

    async def _loads(self, request: web.Request) -> web.Response:
        row = {"num_running_reqs": self.num_running, "num_waiting_reqs": 0}
        return answer(200, {"timestamp": "", "version": "0.5.23", "loads": [row]})

    async def _models(self, request: web.Request) -> web.Response:
        cards = [{"id": self.model_path, "parent": None}]
        cards += [{"id": name, "parent": self.model_path} for name in self.lora_paths]
        return answer(200, {"object": "list", "data": cards})

    async def _ready(self, request: web.Request) -> web.Response:
        return web.Response(status=503 if self.is_paused else 200)

    # control

    async def _pause(self, body: dict[str, Any]) -> web.Response:
        mode = body.get("mode", "abort")
        if mode not in ("abort", "in_place"):
            return answer(400, {"success": False, "message": f"the double has no mode {mode}"})
        self.is_paused = True
        self.unpaused.clear()
        if mode == "in_place":
            await asyncio.to_thread(self.engine.pause)
        else:
            for reply in self.replies.values():
                if reply.ticket is not None:
                    reply.ticket.cancel()
        return answer(200, {"message": "Generation paused successfully.", "status": "ok"})

    async def _continue(self, body: dict[str, Any]) -> web.Response:
        await asyncio.to_thread(self.engine.resume)
        self.is_paused = False
        self.unpaused.set()
        return answer(200, {"message": "Generation continued successfully.", "status": "ok"})

    async def _abort(self, body: dict[str, Any]) -> web.Response:
        reply = self.replies.get(body.get("rid", ""))
        if reply is not None and not reply.abort_sent:
            reply.abort_sent = True  # a second one does nothing any more
            if reply.ticket is not None:  # else it has not reached the scheduler: lost
                reply.ticket.cancel()
        return web.Response()

    async def _flush(self, body: dict[str, Any]) -> web.Response:
        if self.num_running:
            return web.Response(status=400, text="Flush cache failed.\n")
        return web.Response(text="Cache flushed.\n")

    async def _update(self, body: dict[str, Any]) -> web.Response:
        while not self.is_paused and self.num_running:
            await asyncio.sleep(0.01)
        files = sorted(Path(body["model_path"]).glob("*.safetensors"))
        if not files or not (Path(body["model_path"]) / "config.json").is_file():
            message = f"Failed to get weights iterator: no weights in {body['model_path']}."
            return answer(400, {"success": False, "message": message, "num_paused_requests": 0})
        try:
            for file in files:
                await asyncio.to_thread(self.engine.load, file, len(self.names))
        except EngineError as error:
            message = f"Failed to update weights: {error}.\nRolling back to original weights."
            return answer(400, {"success": False, "message": message, "num_paused_requests": 0})
        version = body.get("weight_version")
        self.names.append(self.names[-1] if version is None else version)
        if body.get("flush_cache", True) and self.num_running:
            return answer(400, {"success": False, "message": NOT_FLUSHED})
        self.told_version = self.names[-1]
        self.model_path = body["model_path"]
        return answer(200, {"success": True, "message": "Succeeded.", "num_paused_requests": 0})

    async def _load_lora(self, body: dict[str, Any]) -> web.Response:
        name, path = body["lora_name"], body["lora_path"]
        error = ""
        if not self.info["enable_lora"]:
            error = "LoRA is not enabled. Please set `--enable-lora` to enable LoRA."
        elif name in self.lora_paths:
            error = f"LoRA adapter with name {name} is already loaded"
        else:
            try:
                await asyncio.to_thread(self.engine.load_adapter, name, Path(path), 0)
                self.lora_paths[name] = self.lora_cache[name] = path
            except EngineError as failed:
                error = str(failed)
        return self._lora_answer(error)

    async def _unload_lora(self, body: dict[str, Any]) -> web.Response:
        name = body["lora_name"]
        while any(b.get("lora_path") == name for b in self._running_bodies()):
            await asyncio.sleep(0.01)
        known = self.lora_paths.pop(name, None)
        self.engine.unload_adapter(name)
        return self._lora_answer("" if known else f"LoRA adapter with name {name} does not exist")

    def _lora_answer(self, error: str) -> web.Response:
        body = {"success": not error, "error_message": error, "loaded_adapters": self.lora_paths}
        return answer(400 if error else 200, body)

    def _running_bodies(self) -> list[dict[str, Any]]:
        return [body for body in self.bodies if body.get("rid") in self.replies]

    # generation

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        reply = Reply()
        rid = body.setdefault("rid", str(len(self.bodies)))
        self.replies[rid] = reply
        self.num_running += 1
        try:
            await self.unpaused.wait()
            refusal = await self._submit(body, reply)
            if refusal is not None:
                return refusal
            if body.get("stream"):
                return await self._stream(request, body, reply)
            return answer(200, await self._whole(body, reply))
        finally:
            del self.replies[rid]
            self.num_running -= 1
            if reply.ticket is not None:
                reply.ticket.cancel()

    async def _submit(self, body: dict[str, Any], reply: Reply) -> web.Response | None:
        params = body["sampling_params"]
        unknown = set(params) - SAMPLING_KEYS
        if unknown:
            name = min(unknown)
            return answer(400, {"error": f"unknown field `{name}`, expected one of ..."})
        ids, num = body["input_ids"], params.get("max_new_tokens", 128)
        if len(ids) >= self.context - 6 or len(ids) + num > self.context:
            text = f"The input ({len(ids)} tokens) is longer than the model's context length"
            return answer(400, {"error": {"message": text}})
        lora = body.get("lora_path")
        if lora and lora not in self.lora_paths:
            if lora not in self.lora_cache:
                text = f"Got LoRA adapter that has never been loaded: {lora}"
                return answer(400, {"error": {"message": text}})
            await self._load_lora({"lora_name": lora, "lora_path": self.lora_cache[lora]})
        if num == 0:
            return None
        stop = params.get("stop") or []
        sampling = Sampling(
            max_tokens=num,
            temperature=params.get("temperature", 1.0),
            top_p=params.get("top_p", 1.0),
            seed=params.get("sampling_seed", 42),
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
            ignore_end=params.get("ignore_eos", False),
            top_logprobs=body.get("top_logprobs_num", 0),
            json_schema=params.get("json_schema") or "",
            adapter=lora or "",
        )
        loop, abort_after = asyncio.get_running_loop(), self.abort_after
        self.abort_after = None

        def told(token: Token) -> None:
            time.sleep(self.token_delay_s)
            reply.tokens.append(token)
            if abort_after is not None and len(reply.tokens) >= abort_after and reply.ticket:
                reply.ticket.cancel()
            loop.call_soon_threadsafe(reply.news.set)

        try:
            reply.ticket = self.engine.submit(ids, sampling, told)
        except RequestRefused as error:
            return answer(400, {"error": {"message": str(error)}})
        return None

    async def _whole(self, body: dict[str, Any], reply: Reply) -> dict[str, Any]:
        if reply.ticket is not None:
            generation = await asyncio.wrap_future(reply.ticket.future)
            return self._out(body, reply.tokens, generation)
        out = self._out(body, [], Generation((), (), (), "length"))
        ids = body["input_ids"]
        if body.get("logprob_start_len", -1) == 0:
            future = self.engine.score([ids], adapter=body.get("lora_path") or "")
            (scores,) = await asyncio.wrap_future(future)
            rows = [[score, token, None] for score, token in zip([None, *scores], ids, strict=True)]
            out["meta_info"]["input_token_logprobs"] = rows
        return out

    async def _stream(
        self, request: web.Request, body: dict[str, Any], reply: Reply
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        future = asyncio.wrap_future(reply.ticket.future)
        future.add_done_callback(
            lambda done: (done.cancelled() or done.exception(), reply.news.set())
        )
        sent = 0
        while True:
            await reply.news.wait()
            reply.news.clear()
            generation = future.result() if future.done() else None
            known = len(reply.tokens)
            if known > sent or generation is not None:
                first = sent if self.info["incremental_streaming_output"] else 0
                out = self._out(body, reply.tokens[:known], generation, first)
                sent = known
                await response.write(b"data: " + json.dumps(out).encode() + b"\n\n")
            if generation is not None:
                await response.write(b"data: [DONE]\n\n")
                return response

    def _out(
        self,
        body: dict[str, Any],
        tokens: list[Token],
        generation: Generation | None,
        first: int = 0,
    ) -> dict[str, Any]:
        spans: list[dict[str, Any]] = []
        for at, token in enumerate(tokens):
            # an adapter's tokens carry the base's version here: this server knows no other
            name = self.names[-1] if body.get("lora_path") else self.names[token.version]
            if not spans or spans[-1]["version"] != name:
                spans.append({"version": name, "start": at, "end": at})
            spans[-1]["end"] = at + 1
        meta: dict[str, Any] = {
            "id": body["rid"],
            "finish_reason": finish(generation),
            "prompt_tokens": len(body["input_ids"]),
            "completion_tokens": len(tokens),
            "cached_tokens": generation.num_cached if generation else 0,
            "weight_version": spans[-1]["version"] if spans else self.names[-1],
            "weight_versions": spans,
        }
        if body.get("return_logprob"):
            shown = tokens[first:]
            meta["input_token_logprobs"] = []
            meta["output_token_logprobs"] = [[t.logprob, t.id, None] for t in shown]
            if body.get("top_logprobs_num"):
                meta["output_top_logprobs"] = [[[p, i, None] for i, p in t.top] for t in shown]
        return {"text": "", "output_ids": [t.id for t in tokens[first:]], "meta_info": meta}


def finish(generation: Generation | None) -> dict[str, Any] | None:
    if generation is None:
        return None
    if generation.finish_reason == "cancelled":
        return {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
    if generation.finish_reason == "length":
        return {"type": "length", "length": len(generation.token_ids_T)}
    return {"type": "stop", "matched": generation.token_ids_T[-1]}


def answer(status: int, body: Any) -> web.Response:
    return web.json_response(body, status=status)
