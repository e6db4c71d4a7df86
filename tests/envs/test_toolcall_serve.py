"""A world of this package as an MCP server: over its streams, over HTTP, and against bad input."""

import json
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from envs.toolcall.serve import Server, main, world_of

START = [sys.executable, "-m", "envs.toolcall.serve", "world=office", "seed=3"]


def ask(method: str, ident: int = 1, **params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": ident, "method": method, "params": params})


@pytest.fixture
def server() -> Server:
    return Server(*world_of({"world": "office", "seed": "3"}))


def test_over_its_streams() -> None:
    lines = [
        ask("initialize", 1, protocolVersion="2025-06-18"),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        ask("tools/list", 2),
        "no JSON",
        ask("tools/call", 3, name="flag_mail", arguments={"mail_id": "M-1", "flagged": True}),
        ask("tools/call", 4, name="read_mail", arguments={"mail_id": "M-1"}),
    ]
    done = subprocess.run(START, input="\n".join(lines), capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["id"] for row in rows] == [1, 2, None, 3, 4]
    assert rows[0]["result"]["protocolVersion"] == "2025-06-18"
    assert "calendar" in rows[0]["result"]["instructions"]
    assert len(rows[1]["result"]["tools"]) == 16
    assert rows[4]["result"]["structuredContent"]["flagged"] is True


def test_over_http() -> None:
    process = subprocess.Popen([*START, "port=0"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        request = urllib.request.Request(url, ask("ping").encode(), {"Content-Type": "text/json"})
        with urllib.request.urlopen(request, timeout=30) as response:
            assert json.load(response)["result"] == {}
        request.add_header("Origin", "http://elsewhere.example")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request, timeout=30)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", -32700), ("{", -32700), ("NaN", -32700), ('{"a": 1, "a": 2}', -32700), ("[]", -32600),
        ("5", -32600), ('{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
        ('{"jsonrpc": "2.0", "id": [], "method": "ping"}', -32600),
        ('{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 5}', -32602),
        (ask("resources/list"), -32601), (ask("tools/call"), -32602), ("[" * 90000, -32700),
        ('{"jsonrpc": "2.0", "id": 1, "method": 5}', -32600), ("x" * (2 << 20), -32700),
    ],
)  # fmt: skip
def test_messages_that_are_none_get_an_error(server: Server, text: str, code: int) -> None:
    answer = server.answer(text)
    assert answer is not None and answer["error"]["code"] == code


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("__class__", {}, "unknown_tool"), ("read_mail", {}, "missing_field"),
        ("read_mail", {"mail_id": 5}, "wrong_type"), ("read_mail", "x", "not_json"),
        ("read_mail", {"mail_id": "M-99"}, "tool_error"),
        ("read_mail", {"mail_id": "M-1", "more": 1}, "extra_field"),
    ],
)  # fmt: skip
def test_wrong_calls_are_results_that_name_the_failure(
    server: Server, name: str, arguments: object, kind: str
) -> None:
    answer = server.answer(ask("tools/call", name=name, arguments=arguments))
    assert answer is not None and answer["result"]["isError"] is True
    assert json.loads(answer["result"]["content"][0]["text"])["error"] == kind


def test_answers_and_notifications_get_no_answer(server: Server) -> None:
    """Bug prevented: two servers that answer each other's errors for ever."""
    assert server.answer('{"jsonrpc": "2.0", "id": 1, "result": {}}') is None
    assert server.answer('{"jsonrpc": "2.0", "method": "notifications/initialized"}') is None


@pytest.mark.parametrize(
    "words", [[], ["world=shp"], ["task=toolcall/none"], ["world=shop", "seed=x"], ["colour=1"]]
)
def test_the_command_line_names_what_is_wrong(words: list[str], capsys) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.strip()
