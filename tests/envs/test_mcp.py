"""MCP servers as tool sets: real ones from the registries, and one that misbehaves in every way."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from envs.errors import SetupError
from envs.images import ensure
from envs.sandbox.docker import DockerSandbox
from envs.sandbox.protocol import SandboxSpec
from envs.toolcall.mcp import McpFault, McpServer, McpStartError, McpTools
from envs.toolcall.world import ToolError

pytestmark = pytest.mark.docker
BAD = Path(__file__).with_name("mcp_bad_server.py")
FILES = "/opt/node/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[DockerSandbox]:
    ensure("mcp")
    spec = SandboxSpec("mcp", disk_bytes=128 << 20)
    with DockerSandbox(spec, run_id="test-mcp") as made:
        yield made


def bad(sandbox: DockerSandbox, how: str, timeout_s: float = 1.0) -> McpTools:
    sandbox.write_file("/workspace/bad.py", BAD.read_bytes())
    argv = ("python3", "-I", "/workspace/bad.py", how)
    return McpTools(sandbox, McpServer(argv, timeout_s=timeout_s, start_s=3.0))


# ------------------------------------------------------------- real servers


def test_time(sandbox: DockerSandbox) -> None:
    with McpTools(sandbox, McpServer(("mcp-server-time",))) as tools:
        assert {"get_current_time", "convert_time"} <= set(tools.tools)
        found = tools.call("get_current_time", {"timezone": "Europe/Madrid"})
        assert "Europe/Madrid" in json.dumps(found)
        with pytest.raises(ToolError, match=r"(?i)timezone"):
            tools.call("get_current_time", {"timezone": "Nowhere/Land"})


def test_git(sandbox: DockerSandbox) -> None:
    sandbox.shell("rm -rf repo; git init -q repo; echo one >repo/a.txt")
    with McpTools(sandbox, McpServer(("mcp-server-git",))) as tools:
        tools.call("git_add", {"repo_path": "/workspace/repo", "files": ["a.txt"]})
        status = tools.call("git_status", {"repo_path": "/workspace/repo"})
    assert "new file:   a.txt" in str(status)


def test_sqlite(sandbox: DockerSandbox) -> None:
    server = McpServer(("mcp-server-sqlite", "--db-path", "/workspace/shop.db"))
    with McpTools(sandbox, server) as tools:
        tools.call("create_table", {"query": "CREATE TABLE item (name TEXT, price INTEGER)"})
        tools.call("write_query", {"query": "INSERT INTO item VALUES ('lamp', 12)"})
        assert "lamp" in str(tools.call("read_query", {"query": "SELECT * FROM item"}))
    assert sandbox.exec(["sqlite3", "shop.db", "select price from item"]).output == "12\n"


def test_fetch_of_a_page_in_the_sandbox(sandbox: DockerSandbox) -> None:
    """No network: the page is served on the sandbox's own loopback."""
    sandbox.shell("mkdir -p site; echo '<h1>Opening hours</h1><p>Nine to five.</p>' >site/a.html")
    server = McpServer(("mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips"))
    with McpTools(sandbox, server) as tools:
        sandbox.shell("(cd site && exec python3 -m http.server 8123 >/dev/null 2>&1) & disown; "
                      "for i in $(seq 100); do (: </dev/tcp/127.0.0.1/8123) 2>/dev/null && break; "
                      "sleep 0.1; done", timeout_s=15.0)  # fmt: skip
        page = tools.call("fetch", {"url": "http://127.0.0.1:8123/a.html"})
        assert "Nine to five" in str(page)


def test_files_of_the_node_registry(sandbox: DockerSandbox) -> None:
    with McpTools(sandbox, McpServer(("node", FILES, "/workspace"))) as tools:
        assert len(tools.tools) >= 10 and not tools.left_out
        tools.call("write_file", {"path": "/workspace/note.txt", "content": "caf\u00e9"})
        with pytest.raises(ToolError, match=r"(?i)denied|outside"):
            tools.call("read_text_file", {"path": "/etc/passwd"})
    assert sandbox.read_file("/workspace/note.txt").decode() == "caf\u00e9"


def test_streamable_http(sandbox: DockerSandbox) -> None:
    """A server of the SDK itself, on a port of the sandbox's loopback."""
    code = (
        "from mcp.server import MCPServer\nserver = MCPServer('adder')\n"
        "@server.tool()\ndef add(a: int, b: int) -> int:\n    return a + b\n"
        "server.run('streamable-http', host='127.0.0.1', port=8124)\n"
    )
    sandbox.write_file("/workspace/adder.py", code.encode())
    server = McpServer(("python3", "/workspace/adder.py"), url="http://127.0.0.1:8124/mcp")
    with McpTools(sandbox, server) as tools:
        assert tools.tools["add"].parameters["required"] == ["a", "b"]
        assert tools.call("add", {"a": 2, "b": 40}) == {"result": 42}


# ------------------------------------------------------------- bad servers


@pytest.mark.parametrize(
    ("how", "fault", "words"),
    [
        ("die", McpFault.DIED, "no such configuration"),
        ("flood", McpFault.FLOODED, "a line of more than"),
        ("chatter", McpFault.FLOODED, "no answer"),
        ("silent", McpFault.TIMED_OUT, "no answer"),
        ("nonsense", McpFault.NONSENSE, "no list of tools"),
    ],
)
def test_a_handshake_that_fails_has_a_name(
    sandbox: DockerSandbox, how: str, fault: McpFault, words: str
) -> None:
    with pytest.raises(McpStartError, match=words) as caught:
        bad(sandbox, how)
    assert caught.value.fault is fault and isinstance(caught.value, SetupError)


def test_a_server_that_is_not_there_is_named(sandbox: DockerSandbox) -> None:
    with pytest.raises(McpStartError, match="cannot be started"):
        McpTools(sandbox, McpServer(("no-such-server",)))


def test_words_on_standard_output_that_are_no_message_are_passed_over(
    sandbox: DockerSandbox,
) -> None:
    with bad(sandbox, "noise") as tools:
        assert tools.call("echo", {"text": "hi"}) == "hi"


def test_a_tool_that_never_returns_is_a_time_out_and_the_next_call_works(
    sandbox: DockerSandbox,
) -> None:
    """Bug prevented: one call that hangs takes all later ones with it."""
    with bad(sandbox, "fine") as tools:
        with pytest.raises(ToolError, match="timed_out"):
            tools.call("hang", {})
        assert tools.call("echo", {"text": "still here"}) == "still here"
        assert tools.num_starts == 2 and tools.faults == {"timed_out": 1}


def test_a_server_that_lives_on_after_a_time_out_keeps_its_state(sandbox: DockerSandbox) -> None:
    with bad(sandbox, "fine") as tools:
        assert tools.call("count", {}) == "1"
        with pytest.raises(ToolError, match="timed_out"):
            tools.call("sulk", {})
        assert tools.call("count", {}) == "2" and tools.num_starts == 1


@pytest.mark.parametrize(("name", "fault"), [("die", "died"), ("flood", "flooded")])
def test_a_server_that_breaks_in_a_call_is_started_again(
    sandbox: DockerSandbox, name: str, fault: str
) -> None:
    with bad(sandbox, "fine") as tools:
        with pytest.raises(ToolError, match=fault):
            tools.call(name, {})
        assert tools.call("echo", {"text": "again"}) == "again"
        assert tools.faults == {fault: 1} and tools.num_starts == 2


def test_a_result_of_another_shape_is_named(sandbox: DockerSandbox) -> None:
    with bad(sandbox, "fine") as tools, pytest.raises(ToolError, match="nonsense"):
        tools.call("cuckoo", {})


def test_tools_that_cannot_be_used_are_left_out_by_name(sandbox: DockerSandbox) -> None:
    with bad(sandbox, "schemas") as tools:
        assert {"far", "loop", "boom", "bad name!", "list", "7"} <= set(tools.left_out)
        assert tools.call("echo", {"text": "the first of two"}) == "the first of two"
        assert "leads elsewhere" in tools.left_out["far"]
        assert tools.call("exec", {"text": "a name like any other"}) == "a name like any other"


def test_killing_all_that_runs_there_is_named_and_mended(sandbox: DockerSandbox) -> None:
    with bad(sandbox, "fine") as tools:
        sandbox.kill_processes()
        with pytest.raises(ToolError, match="lost"):
            tools.call("echo", {"text": "gone"})
        assert tools.call("echo", {"text": "back"}) == "back"


def test_a_server_needs_a_command_or_an_address() -> None:
    with pytest.raises(ValueError, match="argv, url, or both"):
        McpServer()
    with pytest.raises(ValueError, match=r"http://127\.0\.0\.1"):
        McpServer(url="https://example.org")


# ------------------------------------------------------------- our tools as a server

CLIENT = """
import anyio, json, sys
from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

async def main():
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "answers"])
    async with stdio_client(parameters) as (source, sink), ClientSession(source, sink) as session:
        await session.initialize()
        names = [tool.name for tool in (await session.list_tools()).tools]
        good = await session.call_tool("list_people", {})
        bad = await session.call_tool("get_event", {"event_id": 5})
        print(json.dumps([names, good.model_dump(by_alias=True), bad.model_dump(by_alias=True)]))

anyio.run(main)
"""
RELAY = """
import json, sys
answers = json.load(open("/workspace/answers.json"))
for line in sys.stdin:
    row = json.loads(line)
    if "id" in row:
        key = row["method"] + json.dumps((row.get("params") or {}).get("name"))
        print(json.dumps({**answers[key], "id": row["id"]}), flush=True)
"""


def test_the_real_sdk_reads_what_our_server_answers(sandbox: DockerSandbox) -> None:
    """The SDK's client is in the sandbox, our server is not: its answers are carried over."""
    from envs.toolcall.serve import Server, world_of

    world, name = world_of({"world": "office", "seed": "3"})
    server, answers = Server(world, name), {}
    asked = [
        ("initialize", {"protocolVersion": "2025-06-18"}), ("tools/list", {}),
        ("tools/call", {"name": "list_people", "arguments": {}}),
        ("tools/call", {"name": "get_event", "arguments": {"event_id": 5}}),
    ]  # fmt: skip
    for method, params in asked:
        text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        answers[method + json.dumps(params.get("name"))] = server.answer(text)
    for path, data in (("client.py", CLIENT), ("answers.py", RELAY),
                       ("answers.json", json.dumps(answers))):  # fmt: skip
        sandbox.write_file(f"/workspace/{path}", data.encode())
    done = sandbox.exec(["/opt/venv/bin/python3", "client.py"])
    assert done.exit_code == 0, done.output
    names, good, wrong = json.loads(done.output.strip().splitlines()[-1])
    assert names == list(world.tools)
    assert good["isError"] is False and good["structuredContent"] == world.call("list_people", {})
    assert wrong["isError"] is True and "wrong_type" in wrong["content"][0]["text"]
