"""Bodies as Claude Code sends them: accepted, gone on from exactly, its session found."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from serving.anthropic import CountRequest, MessagesRequest
from serving.renderer import Renderer

from .scripted import ScriptedEngine
from .test_sdks import ANSWER, CLAUDE_TOOLS, USER, assert_exact, serving
from .test_wire import MIXED, post


def claude_code(messages: list[Any], billing: str) -> dict[str, Any]:
    """A request as Claude Code makes it."""
    hour = {"type": "ephemeral", "ttl": "1h", "scope": "global"}
    tools: list[Any] = [
        {**tool, "strict": True, "eager_input_streaming": True} for tool in CLAUDE_TOOLS
    ]
    tools[-1]["cache_control"] = hour
    who = {"device_id": "d", "account_uuid": "", "session_id": "0199-session"}
    return {
        "model": "m",
        "max_tokens": 2000,
        "messages": messages,
        "system": [
            {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1; cch={billing};"},
            {"type": "text", "text": "You are Claude Code.", "cache_control": hour},
        ],
        "tools": tools,
        "thinking": {"type": "adaptive", "display": "omitted"},
        "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "cache_control": {"type": "ephemeral"},
        "metadata": {"user_id": json.dumps(who)},
        "service_tier": "auto",
        "container": None,
        "mcp_servers": [],
        "inference_geo": "eu",
        "speed": "fast",
        "stream": False,
    }


def test_claude_code_goes_on_exactly_though_its_billing_line_changes(tiny: Path) -> None:
    """Bug prevented: every turn forks, since the first line of its system prompt is never twice
    the same."""

    async def play(url: str) -> None:
        user = {"role": "user", "content": [{"type": "text", "text": "What is in /tmp?"}]}
        reminder = {"role": "system", "content": "Be careful."}
        first = await post(url, "/v1/messages", claude_code([user], "a1b2c"))
        assert first["stop_reason"] == "tool_use"
        (call,) = (block for block in first["content"] if block["type"] == "tool_use")
        echoed = [{"type": "redacted_thinking", "data": "abc"}, *first["content"]]
        result: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": call["id"],
            "content": [{"type": "text", "text": "one.txt"}],
            "cache_control": {"type": "ephemeral"},
        }
        later = [
            user,
            {"role": "assistant", "content": echoed},
            {"role": "user", "content": [result]},
            reminder,
        ]
        await post(url, "/v1/messages", claude_code(later, "zz999"))

    with serving(tiny, MIXED, ANSWER) as (engine, url):
        asyncio.run(play(url))
        assert_exact(engine, tiny, MIXED)
        assert_no_billing(engine, tiny)
        assert "Be careful." in Renderer(tiny).decode(engine.prompts[1])


def assert_no_billing(engine: ScriptedEngine, folder: Path) -> None:
    text = Renderer(folder).decode(engine.prompts[0])
    assert "You are Claude Code." in text and "billing" not in text


@pytest.mark.parametrize(
    ("user_id", "session", "user"),
    [
        ('{"device_id":"d","session_id":"s1"}', "s1", ""),
        ('{"device_id":"d"}', None, ""),
        ('{"session_id":7}', None, ""),
        ("user_ab12_account_cd34_session_0199-aa", "0199-aa", ""),
        ("user_ab12_account__session_0199-aa", "0199-aa", ""),
        ("my_session_x", None, "my_session_x"),
        ("ann", None, "ann"),
        ("7", None, "7"),
    ],
)
def test_a_session_is_read_from_a_claude_user_id(
    user_id: str, session: str | None, user: str
) -> None:
    body = {
        "model": "m",
        "max_tokens": 1,
        "messages": [USER],
        "metadata": {"user_id": user_id},
    }
    request = MessagesRequest.model_validate_json(json.dumps(body))
    assert (request.session_hint, request.user) == (session, user)


@pytest.mark.parametrize(
    ("kind", "on"), [("enabled", True), ("adaptive", True), ("disabled", False)]
)
def test_thinking_is_a_hint_to_the_template(kind: str, on: bool) -> None:
    """Bug prevented: Claude Code refused by every template without that option."""
    thinking = {"type": kind, **({"budget_tokens": 4000} if kind == "enabled" else {})}
    body = {"model": "m", "messages": [USER], "thinking": thinking}
    request = CountRequest.model_validate_json(json.dumps(body)).chat()
    assert request.template_hints == {"enable_thinking": on}
    assert request.chat_template_kwargs == {}


def test_a_schema_for_the_whole_reply_is_honoured() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    config = {"effort": "low", "format": {"type": "json_schema", "schema": schema}}
    body = {"model": "m", "messages": [USER], "output_config": config}
    request = CountRequest.model_validate_json(json.dumps(body)).chat()
    assert request.response_format is not None
    assert json.loads(request.response_format.schema_text) == schema
