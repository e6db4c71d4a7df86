"""A call of an MCP server in a sandbox, over the time the server itself takes for it.

The server is a few lines on standard streams; it is asked inside a sandbox by ``McpTools``, and as
a plain child of this process in the same rounds. What it takes itself is the latter, measured here.
"""

import json
import subprocess
import sys
import time
from statistics import median

from benchmarks.perf.rows import Row
from envs.images import resolve
from envs.sandbox.docker import DockerSandbox
from envs.sandbox.protocol import SandboxSpec
from envs.toolcall.mcp import McpServer, McpTools

SERVER = """
import json, sys
tool = {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {}}}}
for line in sys.stdin:
    row = json.loads(line)
    if "id" not in row:
        continue
    result = {"protocolVersion": "2025-06-18", "capabilities": {}}
    if row["method"] == "tools/list":
        result = {"tools": [tool]}
    if row["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": row["params"]["arguments"]["text"]}]}
    print(json.dumps({"jsonrpc": "2.0", "id": row["id"], "result": result}), flush=True)
"""
GOAL = "<= 5 ms"
ROUNDS = 300
TEXT = "x" * 500


def run(quick: bool) -> list[Row]:
    """Measure. Raises ``MissingDependency``: no engine or no image."""
    resolve("python")
    ours: list[float] = []
    own: list[float] = []
    with (
        DockerSandbox(SandboxSpec("python"), run_id="perf-mcp") as sandbox,
        subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True, bufsize=1) as plain,
    ):  # fmt: skip
        assert plain.stdin is not None and plain.stdout is not None
        sandbox.write_file("/workspace/server.py", SERVER.encode())
        with McpTools(sandbox, McpServer(("python3", "-I", "/workspace/server.py"))) as tools:
            params = {"name": "echo", "arguments": {"text": TEXT}}
            row = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            line = json.dumps(row) + "\n"
            for _ in range(ROUNDS // 10 if quick else ROUNDS):
                begun = time.perf_counter()
                assert tools.call("echo", {"text": TEXT}) == TEXT
                ours.append((time.perf_counter() - begun) * 1e3)
                begun = time.perf_counter()
                plain.stdin.write(line)
                assert TEXT in plain.stdout.readline()
                own.append((time.perf_counter() - begun) * 1e3)
        plain.kill()
    return [
        Row("toolcall", "an MCP call in a sandbox, stdio", "ms", median(ours), median(own),
            "the server's own time"),
        Row("toolcall", "an MCP call over the server's own time", "ms", median(ours) - median(own),
            None, "", GOAL),
    ]  # fmt: skip
