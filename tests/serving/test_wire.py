"""Bodies as common clients send them: accepted, and gone on from exactly."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pydantic
import pytest

from serving.protocol import ChatRequest
from serving.responses_api import ResponsesRequest, chat
from serving.sessions import SessionStore

from .test_sdks import ANSWER, CALLS, TOOLS, USER, assert_exact, openai_client, serving
from .test_wire_refusals import RESPONSES_TOOLS, refused

MIXED = (
    "<think>a hunch</think>\n\nI look."
    '<tool_call>{"name": "ls", "arguments": {"path": "/tmp"}}</tool_call> And wait.'
)


async def post(url: str, path: str, body: Any) -> Any:
    headers = {"Authorization": "Bearer secret"}
    async with (
        aiohttp.ClientSession(headers=headers) as http,
        http.post(url + path, json=body) as response,
    ):
        answer = await response.json()
        assert response.status == 200, answer
        return answer


async def events(url: str, path: str, body: Any) -> AsyncIterator[Any]:
    headers = {"Authorization": "Bearer secret"}
    async with (
        aiohttp.ClientSession(headers=headers) as http,
        http.post(url + path, json=body) as response,
    ):
        assert response.status == 200, await response.text()
        async for line in response.content:
            if line.startswith(b"data: {"):
                yield json.loads(line[6:])


# chat completions


class Ls(pydantic.BaseModel):
    """Lists a folder."""

    path: str


def test_the_sdk_parses_strict_tools_and_sends_its_own_message_back(tiny: Path) -> None:
    """Bug prevented: ``strict: true``, which the SDK writes by itself, and ``parsed_arguments``,
    which it adds to a call, answered by 400."""
    said = 'I look.<tool_call>{"name": "Ls", "arguments": {"path": "/tmp"}}</tool_call>'
    with serving(tiny, said, ANSWER) as (engine, url), openai_client(url) as client:
        tools = [openai.pydantic_function_tool(Ls)]
        ask: dict[str, Any] = {
            "model": "m",
            "tools": tools,
            "reasoning_effort": "low",
            "prompt_cache_key": "k",
            "safety_identifier": "u",
            "verbosity": "low",
            "store": True,
            "prediction": None,
        }
        first = client.chat.completions.parse(messages=[USER], **ask).choices[0].message
        assert first.tool_calls is not None
        assert first.tool_calls[0].function.parsed_arguments == Ls(path="/tmp")
        result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "one.txt"}
        messages: Any = [USER, first.model_dump(), result]
        second = client.chat.completions.create(messages=messages, **ask)
        assert second.choices[0].message.content == ANSWER
        assert_exact(engine, tiny, said)


def test_openclaw_goes_on_exactly_from_a_message_with_other_vendors_fields(tiny: Path) -> None:
    """Bug prevented: what routers and agents add to a reply they send back answered by 400."""
    system = {
        "role": "system",
        "content": [
            {"type": "text", "text": "You are Claw.", "cache_control": {"type": "ephemeral"}}
        ],
    }
    ask: dict[str, Any] = {
        "model": "m",
        "messages": [system, USER],
        "tools": [{**tool, "cache_control": {"type": "ephemeral"}} for tool in TOOLS],
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
        "store": False,
        "max_completion_tokens": 900,
        "metadata": {"session_id": "claw"},
    }

    async def play(url: str) -> None:
        content = ""
        calls: list[Any] = []
        async for event in events(url, "/v1/chat/completions", ask):
            for choice in event["choices"]:
                content += choice["delta"].get("content") or ""
                calls += choice["delta"].get("tool_calls") or []
        echoed = {
            "role": "assistant",
            "content": [{"type": "text", "text": content}],
            "tool_calls": [{**call, "provider_specific_fields": {"a": 1}} for call in calls],
            "provider_specific_fields": {"refusal": None},
            "reasoning": "a hunch",
            "reasoning_details": [{"type": "reasoning.text", "text": "a hunch"}],
            "refusal": None,
            "annotations": [{"type": "url_citation"}],
            "audio": None,
            "function_call": None,
            "phase": "commentary",
        }
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": "one.txt"} for call in calls
        ]
        more = {**ask, "stream": False, "messages": [system, USER, echoed, *results]}
        del more["stream_options"]
        answer = await post(url, "/v1/chat/completions", more)
        assert answer["choices"][0]["message"]["content"] == ANSWER

    with serving(tiny, CALLS, ANSWER) as (engine, url):
        asyncio.run(play(url))
        assert_exact(engine, tiny, CALLS)


def test_what_an_assistant_refused_is_what_it_said() -> None:
    parts = [{"type": "refusal", "refusal": "No."}, {"type": "thinking", "thinking": "x"}]
    for said in ({"refusal": "No.", "content": None}, {"content": parts}):
        request = chat_request(messages=[USER, {"role": "assistant", **said}, USER])
        assert request.messages[1].text == "No."
    assert refused(ChatRequest, {"messages": [{"role": "user", "content": parts}]})[0] == (
        "messages.0.content.0.type"
    )
    assert refused(ChatRequest, {"messages": [{**USER, "reasoning_details": [1]}]})[0] == (
        "messages.0.reasoning_details"
    )


def chat_request(**fields: Any) -> ChatRequest:
    return ChatRequest.model_validate_json(json.dumps({"messages": [USER], **fields}))


def test_tools_stay_in_the_prompt_when_none_may_be_called() -> None:
    """Bug prevented: one turn without calls renders the whole conversation anew."""
    shown = chat_request(tools=TOOLS).plain_tools()
    request = chat_request(tools=TOOLS, tool_choice="none")
    assert request.plain_tools() == shown and not request.parses_calls
    assert chat_request(tools=TOOLS).parses_calls
    free = chat_request(tools=TOOLS, tool_choice="none", response_format={"type": "json_object"})
    assert free.response_format is not None


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_allowed_tools_are_all_that_is_offered(mode: str) -> None:
    named = [{"type": "function", "function": {"name": "cat"}}]
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": named}}
    request = chat_request(tools=TOOLS, tool_choice=allowed)
    assert [tool["function"]["name"] for tool in request.plain_tools()] == ["cat"]
    assert request.must_call == (mode == "required") and request.forced_function == "cat"
    choice = {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": "cat"}]}
    body = {"input": "x", "tools": RESPONSES_TOOLS, "tool_choice": choice}
    again = chat(SessionStore(), "", ResponsesRequest.model_validate_json(json.dumps(body)))
    assert again.plain_tools() == request.plain_tools() and again.must_call == request.must_call
    field, words = refused(
        ChatRequest, {"messages": [USER], "tools": TOOLS[:1], "tool_choice": allowed}
    )
    assert field == "tool_choice" and "'cat'" in words


def test_a_limit_is_only_what_a_client_named() -> None:
    assert chat_request().limit is None
    assert chat_request(max_tokens=5).limit == 5
    assert chat_request(max_tokens=5, max_completion_tokens=6).limit == 6
    whole = ResponsesRequest(input="x")
    assert chat(SessionStore(), "", whole).limit is None


def test_a_cache_key_is_no_session() -> None:
    """Bug prevented: conversations that share a prompt's beginning taken for one."""
    assert chat_request(prompt_cache_key="k").session_hint is None
    assert chat_request(metadata={"session_id": "s"}).session_hint == "s"
    assert ResponsesRequest(input="x", prompt_cache_key="k").session_hint is None
    assert ResponsesRequest(input="x", metadata={"session_id": "s"}).session_hint == "s"


def test_hints_for_templates_are_not_a_clients_to_set() -> None:
    body = {"messages": [USER], "template_hints": {"enable_thinking": True}}
    assert refused(ChatRequest, body)[0] == "template_hints"
    assert "template_hints" not in json.dumps(ChatRequest.model_json_schema())


# responses


def codex(items: list[Any], stream: bool) -> dict[str, Any]:
    """A request as Codex makes it: the whole conversation every time, nothing stored."""
    return {
        "model": "m",
        "instructions": "You are Codex.",
        "input": items,
        "tools": RESPONSES_TOOLS,
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": False,
        "stream": stream,
        "stream_options": {"include_obfuscation": False},
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "0199-conversation",
        "text": {"verbosity": "low"},
        "service_tier": "auto",
        "truncation": "auto",
        "safety_identifier": "u",
        "max_tool_calls": None,
        "client_metadata": {"x-codex-installation-id": "1"},
    }


@pytest.mark.parametrize("stream", [False, True])
def test_codex_goes_on_exactly_from_the_items_it_was_given(tiny: Path, stream: bool) -> None:
    """Bug prevented: message, call and message of one reply taken for three replies, whose prompt
    forks; a hint of Codex's answered by 400."""
    asked: list[Any] = [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "<permissions>"}],
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "What is in /tmp?"}],
        },
    ]

    async def turn(url: str, items: list[Any]) -> list[Any]:
        if not stream:
            whole = await post(url, "/v1/responses", codex(items, False))
            return list(whole["output"])
        done: list[Any] = []
        async for event in events(url, "/v1/responses", codex(items, True)):
            if event["type"] == "response.output_item.done":
                done.append(event["item"])
        return done

    async def play(url: str) -> None:
        items = await turn(url, asked)
        assert {item["type"] for item in items} == {"reasoning", "message", "function_call"}
        for item in items:
            item.pop("id")
            if item["type"] == "reasoning":
                item["encrypted_content"] = None
            elif item["type"] == "message":
                item["phase"] = "commentary"
        (call,) = (item for item in items if item["type"] == "function_call")
        result = {
            "type": "function_call_output",
            "call_id": call["call_id"],
            "output": [{"type": "input_text", "text": "one.txt"}],
        }
        (last,) = await turn(url, [*asked, *items, result])
        assert last["content"][0]["text"] == ANSWER

    with serving(tiny, MIXED, ANSWER) as (engine, url):
        asyncio.run(play(url))
        assert_exact(engine, tiny, MIXED)


def test_thoughts_are_only_counted_where_the_number_is_known(tiny: Path) -> None:
    """Bug prevented: 0 thought tokens reported of a reply that thought."""

    async def play(url: str) -> None:
        thought = await post(url, "/v1/responses", {"input": "x"})
        assert "output_tokens_details" not in thought["usage"]
        plain = await post(url, "/v1/responses", {"input": "x"})
        assert plain["usage"]["output_tokens_details"] == {"reasoning_tokens": 0}

    with serving(tiny, "<think>a</think>b", "b") as (_, url):
        asyncio.run(play(url))


def test_an_assistants_items_are_one_message() -> None:
    call = {"type": "function_call", "call_id": "1", "name": "ls", "arguments": "{}"}
    items = [
        {"role": "user", "content": "x"},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
        call,
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "b"}]},
        {"type": "function_call_output", "call_id": "1", "output": "r"},
        {"type": "reasoning", "summary": [], "encrypted_content": "abc"},
        {"role": "user", "content": "y"},
    ]
    body = ResponsesRequest.model_validate_json(json.dumps({"input": items, "store": False}))
    said = chat(SessionStore(), "", body).plain_messages()
    assert [message["role"] for message in said] == ["user", "assistant", "tool", "user"]
    assert said[1]["content"] == "ab" and said[1]["reasoning_content"] == "t"
    assert [made["id"] for made in said[1]["tool_calls"]] == ["1"]
    assert not body.keeps and ResponsesRequest(input="x").keeps


# text completions


def test_offsets_run_on_through_a_stream(tiny: Path) -> None:
    """Bug prevented: every token of a stream said to begin the text."""
    body = {"prompt": "x", "logprobs": 0, "max_tokens": 50}

    async def play(url: str) -> None:
        whole = await post(url, "/v1/completions", body)
        offsets: list[int] = []
        async for event in events(url, "/v1/completions", {**body, "stream": True}):
            for choice in event["choices"]:
                offsets += (choice["logprobs"] or {"text_offset": []})["text_offset"]
        assert offsets == whole["choices"][0]["logprobs"]["text_offset"]
        assert offsets == sorted(offsets) and offsets[-1] > 0

    with serving(tiny, "one two three four") as (_, url):
        asyncio.run(play(url))


def test_bytes_are_not_made_up_for_a_part_of_a_character(tiny: Path) -> None:
    """Bug prevented: the bytes of U+FFFD listed for each token of an emoji."""
    body = {"messages": [USER], "logprobs": True}

    async def play(url: str) -> None:
        answer = await post(url, "/v1/chat/completions", body)
        for token in answer["choices"][0]["logprobs"]["content"]:
            split = "\ufffd" in token["token"]
            assert token["bytes"] == (None if split else list(token["token"].encode()))

    with serving(tiny, "é😀 a") as (_, url):
        asyncio.run(play(url))
