"""Any MCP server as a tool set: started in a sandbox, listed, called, restarted when it died.

The server runs with the agent's rights and none of this process's environment. What it declares is
compiled like any tool's schema; a tool that cannot be used is left out by name. What it does wrong
has a name (``McpFault``), is counted, and reaches the model as a failure of the tool.

Example:
    >>> server = McpServer(argv=("mcp-server-time",))
    >>> with McpTools(sandbox, server) as tools:  # doctest: +SKIP
    ...     tools.call("get_current_time", {"timezone": "Europe/Madrid"})
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from envs.errors import SetupError
from envs.sandbox.protocol import Sandbox
from envs.toolcall.bridge import GRACE_S, Bridge, BridgeLost
from envs.toolcall.failures import FailureKind
from envs.toolcall.schema import Checker, SchemaError
from envs.toolcall.tools import Tool
from envs.toolcall.world import ToolError

VERSION = "2025-06-18"
OLDER = "http://json-schema.org/draft-07/schema"
MAX_PAGES, MAX_TOOLS = 50, 500
PLAIN_OBJECT = {"type": "object", "properties": {}}


class McpFault(StrEnum):
    """What a server did wrong."""

    DIED = "died"
    FLOODED = "flooded"  # too much output that is no answer
    TIMED_OUT = "timed_out"
    NONSENSE = "nonsense"  # an answer of another shape
    REFUSED = "refused"  # an error of its own
    LOST = "lost"  # the program that speaks to it is gone


class McpStartError(SetupError):
    """A server gave no list of tools.

    Attributes:
        fault: its name.
    """

    def __init__(self, fault: McpFault, message: str) -> None:
        super().__init__(f"{fault}: {message}")
        self.fault, self.message = fault, message

    def __reduce__(self) -> tuple[type["McpStartError"], tuple[object, ...]]:
        return (McpStartError, (self.fault, self.message))


class _Faulty(Exception):
    def __init__(self, fault: McpFault, words: str) -> None:
        super().__init__(fault, words)
        self.fault, self.words = fault, words


@dataclass(frozen=True)
class McpServer:
    """How a server is reached from inside its sandbox.

    Attributes:
        argv: the command; may be empty when something listens at ``url`` already.
        url: of a streamable-HTTP server, on the sandbox's loopback; "" for standard streams.
        env: added to the sandbox's own environment.
        cwd: where it starts; "" for the sandbox's working directory.
        timeout_s: longest wait for one call.
        start_s: longest wait for the handshake.

    Raises:
        ValueError: neither a command nor a URL, or a URL that is not plain HTTP.
    """

    argv: tuple[str, ...] = ()
    url: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    timeout_s: float = 10.0
    start_s: float = 30.0

    def __post_init__(self) -> None:
        if not self.argv and not self.url:
            raise ValueError("an MCP server needs argv, url, or both")
        if self.url and not self.url.startswith("http://"):
            raise ValueError(f"url={self.url!r}: give http://127.0.0.1:PORT/PATH")

    def to_json(self) -> dict[str, Any]:
        """Return JSON values, what the program inside is configured with."""
        return {
            "argv": list(self.argv), "url": self.url, "env": dict(self.env), "cwd": self.cwd,
            "start_s": self.start_s,
        }  # fmt: skip


class McpTools:
    """A server's tools. A context manager.

    Attributes:
        tools: by name, those that can be used.
        left_out: name → why not.
        faults: how often the server did what wrong.
        num_starts: of the server.

    Args:
        sandbox: owned by the caller.
        server: what is started in it.

    Raises:
        McpStartError: the server dies, floods or says nothing in the handshake, or lists no tools.
        SandboxLost: the sandbox is gone.
    """

    def __init__(self, sandbox: Sandbox, server: McpServer) -> None:
        self.server = server
        self.faults: Counter[str] = Counter()
        self.left_out: dict[str, str] = {}
        self.num_starts = 0
        self._results: dict[str, Checker] = {}
        self._running = False
        self._bridge = Bridge(sandbox, "mcp", server.to_json())
        try:
            self._start()
            self.tools: Mapping[str, Tool] = self._listed()
        except _Faulty as error:
            self.close()
            raise McpStartError(
                error.fault, f"{server.argv or server.url}: {error.words}"
            ) from None
        except BaseException:
            self.close()
            raise

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Return what a tool returned: its structured result, else its text.

        Arguments are taken as they are; ``envs.toolcall.tools.check_value`` is the caller's.

        Raises:
            ToolError: the tool's own error, or a fault of the server, by name.
            KeyError: no such tool.
            SandboxLost: the sandbox is gone.
        """
        self.tools[name]
        try:
            if not self._running:
                self._start()
            result = self._ask("tools/call", {"name": name, "arguments": dict(arguments)})
            return self._content(name, result)
        except _Faulty as error:
            kind = FailureKind.TOOL_ERROR
            if error.fault is McpFault.TIMED_OUT:
                kind = FailureKind.TIMED_OUT
            raise ToolError(f"{error.fault}: {error.words}"[:1000], kind) from None

    def close(self) -> None:
        """End the server. Idempotent."""
        self._running = False
        self._bridge.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    # ------------------------------------------------------------- inside

    def _start(self) -> None:
        self.num_starts += 1
        wait_s = self.server.start_s
        self._send({"op": "start"}, wait_s)
        who = {"name": "clawgym", "version": "0"}
        asked = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": who}
        self._ask("initialize", asked, wait_s)
        self._send({"op": "notify", "method": "notifications/initialized", "params": {}}, wait_s)

    def _listed(self) -> dict[str, Tool]:
        tools: dict[str, Tool] = {}
        page: dict[str, Any] = {}
        for _ in range(MAX_PAGES):
            result = self._ask("tools/list", page, self.server.start_s)
            rows = result.get("tools") if isinstance(result, dict) else None
            if not isinstance(rows, list):
                raise self._fault(McpFault.NONSENSE, "tools/list holds no list of tools")
            for row in rows[: MAX_TOOLS - len(tools)]:
                self._take(row, tools)
            if not result.get("nextCursor"):
                break
            page = {"cursor": str(result["nextCursor"])}
        return tools

    def _take(self, row: Any, tools: dict[str, Tool]) -> None:
        name = str(row.get("name")) if isinstance(row, Mapping) else repr(row)[:60]
        if not isinstance(row, Mapping) or name in tools:
            self.left_out[name] = "it is there twice" if name in tools else "no tool"
            return
        try:
            schema = _current(row.get("inputSchema", PLAIN_OBJECT))
            tools[name] = Tool(name, str(row.get("description") or ""), schema)
            if isinstance(row.get("outputSchema"), Mapping):
                self._results[name] = Checker(_current(row["outputSchema"]))
        except SchemaError as error:
            tools.pop(name, None)
            self.left_out[name] = str(error)

    def _content(self, name: str, result: Any) -> Any:
        parts = result.get("content") if isinstance(result, Mapping) else None
        if not isinstance(parts, list):
            raise self._fault(McpFault.NONSENSE, "a result without content")
        text = "\n".join(_shown(part) for part in parts)
        if result.get("isError"):
            raise ToolError(text[:2000] or "the tool failed")
        structured = result.get("structuredContent")
        if structured is None:
            return text
        if name in self._results and (wrong := self._results[name].failure(structured)):
            raise self._fault(McpFault.NONSENSE, f"a result of another shape: {wrong.message}")
        return structured

    def _ask(self, method: str, params: Mapping[str, Any], timeout_s: float = 0.0) -> Any:
        timeout_s = timeout_s or self.server.timeout_s
        row = {"op": "ask", "method": method, "params": dict(params), "timeout_s": timeout_s}
        return self._send(row, timeout_s)

    def _send(self, row: Mapping[str, Any], timeout_s: float) -> Any:
        try:
            answer = self._bridge.ask(row, timeout_s + GRACE_S)
            status, self._running = str(answer["status"]), bool(answer["running"])
        except (BridgeLost, KeyError) as error:
            self._running = False
            self._bridge.close()
            self._bridge.start()
            raise self._fault(McpFault.LOST, str(error)) from None
        if status == "ok":
            return answer.get("result")
        fault = McpFault(status) if status in list(McpFault) else McpFault.NONSENSE
        raise self._fault(fault, str(answer.get("words", ""))[:1000])

    def _fault(self, fault: McpFault, words: str) -> _Faulty:
        self.faults[str(fault)] += 1
        return _Faulty(fault, words)


def _current(schema: Any) -> Any:
    """Return a schema without the name of an older dialect; what differs in it is refused later."""
    if not isinstance(schema, Mapping):
        raise SchemaError(f"{json.dumps(schema)[:60]} is no schema")
    declared = str(schema.get("$schema", ""))
    if declared.rstrip("#") != OLDER:
        return schema
    return {key: value for key, value in schema.items() if key != "$schema"}


def _shown(part: Any) -> str:
    if not isinstance(part, Mapping):
        return ""
    if part.get("type") == "text":
        return str(part.get("text", ""))
    return f"[{part.get('type', 'something')}, not shown]"
