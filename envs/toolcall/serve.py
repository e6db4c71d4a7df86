"""Our tool sets as an MCP server: any MCP client may play with a world of this package.

    python -m envs.toolcall.serve task=ID            over standard input and output
    python -m envs.toolcall.serve world=shop seed=7 [port=8000]     over HTTP on this machine

A task's world is served as it stands at the start; its user, goal and verdict are not. What a call
does wrong comes back as a result with ``isError`` and the failure by name, as the environment tells
it. Left out: resources, prompts, sampling, and streams over HTTP (each answer is one JSON body).
"""

import json
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Any

from envs.errors import EnvError
from envs.toolcall.action import Call
from envs.toolcall.failures import Failure
from envs.toolcall.session import checked
from envs.toolcall.strict import BadJson, loads
from envs.toolcall.tools import unknown_tool
from envs.toolcall.world import ToolError, World

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
MAX_MESSAGE_BYTES = 1 << 20
PARSE, INVALID, UNKNOWN, PARAMETERS = -32700, -32600, -32601, -32602
USAGE = "usage: python -m envs.toolcall.serve task=ID | world=shop|office|… seed=N  [port=0]"


class Server:
    """Answers JSON-RPC messages about one world. Thread-safe: one message at a time.

    Args:
        world: served; closed by its owner.
        name: told to clients.
    """

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name
        self._lock = threading.Lock()

    def answer(self, text: str) -> dict[str, Any] | None:
        """Return the answer to a message; None for one that gets none."""
        try:
            row = loads(text, MAX_MESSAGE_BYTES)
        except BadJson as error:
            return _error(None, PARSE, error.message)
        if not isinstance(row, Mapping) or row.get("jsonrpc") != "2.0":
            return _error(None, INVALID, "one message of JSON-RPC 2.0 at a time")
        if not isinstance(row.get("method"), str):
            return None if "method" not in row else _error(row.get("id"), INVALID, "no method")
        if "id" not in row:
            return None
        ident = row["id"]
        if not isinstance(ident, int | str) or isinstance(ident, bool):
            return _error(None, INVALID, "an id is a number or a text")
        params = row.get("params") or {}
        if not isinstance(params, Mapping):
            return _error(ident, PARAMETERS, "params must be an object")
        with self._lock:
            return self._dispatch(ident, row["method"], params)

    def _dispatch(self, ident: Any, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        match method:
            case "initialize":
                wanted = params.get("protocolVersion")
                result = {
                    "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
                    "capabilities": {"tools": {"listChanged": False}},
                    "serverInfo": {"name": self._name, "version": "0"},
                    "instructions": self._world.policy,
                }
            case "ping":
                result = {}
            case "tools/list":
                result = {"tools": [
                    {"name": tool.name, "description": tool.description,
                     "inputSchema": dict(tool.parameters)}
                    for tool in self._world.tools.values()
                ]}  # fmt: skip
            case "tools/call":
                return self._call(ident, params)
            case _:
                return _error(ident, UNKNOWN, f"{method[:60]} is not supported")
        return {"jsonrpc": "2.0", "id": ident, "result": result}

    def _call(self, ident: Any, params: Mapping[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments") or {}
        if not isinstance(name, str):
            return _error(ident, PARAMETERS, "tools/call needs a name")
        done = self._carry_out(name, arguments)
        failed = isinstance(done, Failure)
        text = json.dumps(done.to_json() if isinstance(done, Failure) else done, ensure_ascii=False)
        result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": failed}
        if isinstance(done, Mapping):
            result["structuredContent"] = dict(done)
        return {"jsonrpc": "2.0", "id": ident, "result": result}

    def _carry_out(self, name: str, arguments: Any) -> Any:
        tool = self._world.tools.get(name)
        if tool is None:
            return unknown_tool(name, self._world.tools)
        fitting = checked(tool, Call(name, arguments))
        if isinstance(fitting, Failure):
            return fitting
        try:
            return self._world.call(name, fitting)
        except ToolError as error:
            return Failure(error.kind, error.message)


def _error(ident: Any, code: int, message: str) -> dict[str, Any]:
    error = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": ident, "error": error}


def over_stdio(server: Server, source: IO[bytes], sink: IO[bytes]) -> None:
    """Answer a message a line until the other side is gone."""
    while line := source.readline(2 * MAX_MESSAGE_BYTES):
        if not line.strip():
            continue
        answer = server.answer(line.decode("utf-8", "surrogateescape"))
        if answer is not None:
            sink.write(json.dumps(answer).encode() + b"\n")
            sink.flush()


def over_http(server: Server, port: int) -> None:
    """Answer POST /mcp on this machine's loopback until interrupted; prints the URL."""
    from aiohttp import web

    async def post(request: web.Request) -> web.Response:
        host = request.headers.get("Origin", "http://127.0.0.1").split("//")[-1].split(":")[0]
        if host not in ("127.0.0.1", "localhost"):
            return web.json_response(_error(None, INVALID, "not from this page"), status=403)
        answer = server.answer((await request.read()).decode("utf-8", "surrogateescape"))
        return web.Response(status=202) if answer is None else web.json_response(answer)

    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=405)

    app = web.Application(client_max_size=2 * MAX_MESSAGE_BYTES)
    app.add_routes([web.post("/mcp", post), web.get("/mcp", refuse), web.delete("/mcp", refuse)])
    listener = socket.create_server(("127.0.0.1", port))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
    sys.stdout.flush()
    web.run_app(app, sock=listener, print=None)


def world_of(words: Mapping[str, str]) -> tuple[World, str]:
    """Return the world that the command line names.

    Raises:
        EnvError: an unknown task or world.
        ValueError: a seed that is no number, or neither task nor world.
    """
    from envs.toolcall.tasks import load_tasks
    from envs.toolcall.worlds import table

    if "task" in words:
        tasks = {task.id: task for task in load_tasks()}
        if words["task"] not in tasks:
            raise EnvError(f"no task {words['task']!r}: python -m envs.tasks list toolcall")
        return table.make(tasks[words["task"]].data), words["task"]
    if "world" not in words:
        raise ValueError(USAGE)
    seed = words.get("seed", "0")
    if not seed.isdecimal():
        raise ValueError(f"seed={seed!r}: give a whole number")
    return table.make({"world": words["world"], "seed": int(seed), "held": False}), words["world"]


def main(argv: Sequence[str]) -> int:
    """Serve; return the exit code."""
    from envs.words import UsageError, parse

    if {*argv} & {"-h", "--help"}:
        sys.stdout.write(f"{__doc__}\n{USAGE}\n")
        return 0
    try:
        words = parse(argv, keys=("task", "world", "seed", "port"))
        if words.names:
            raise UsageError(USAGE)
        port = words.number("port")
        world, name = world_of(words.options)
    except (UsageError, EnvError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    server = Server(world, f"clawgym {name}")
    try:
        if port is None:
            over_stdio(server, sys.stdin.buffer, sys.stdout.buffer)
        else:
            over_http(server, port)
    except KeyboardInterrupt:
        return 130
    finally:
        world.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
