"""The vendors' own SDKs against a running server: tools, thoughts, streams, next turns."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from serving.renderer import Renderer
from serving.server import PolicyServer, ServerOptions

from .scripted import ScriptedEngine

CALLS = (
    'I look.<tool_call>{"name": "ls", "arguments": {"path": "/tmp"}}</tool_call>\n'
    '<tool_call>{"name": "cat", "arguments": {"path":"/a \\"b\\""}}</tool_call>'
)
ANSWER = "It holds one file é😀."
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"runs {name}",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
    for name in ("ls", "cat")
]
CLAUDE_TOOLS: list[Any] = [
    {
        "name": tool["function"]["name"],
        "description": tool["function"]["description"],
        "input_schema": tool["function"]["parameters"],
    }
    for tool in TOOLS
]
USER: Any = {"role": "user", "content": "What is in /tmp?"}


@contextmanager
def serving(
    folder: Path,
    *texts: str | Exception,
    options: ServerOptions | None = None,
    kind: type[ScriptedEngine] = ScriptedEngine,
) -> Iterator[tuple[ScriptedEngine, str]]:
    """Serve a script; yields the engine and the base URL."""
    renderer = Renderer(folder)
    engine = kind(renderer, *texts)
    with PolicyServer(
        engine, renderer, api_key="secret", model_name="m", options=options
    ) as server:
        yield engine, server.base_url


def openai_client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="secret", max_retries=0)


def claude(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="secret", max_retries=0)


def assert_exact(engine: ScriptedEngine, folder: Path, said: str) -> None:
    """The second prompt starts with the first and the tokens sampled after it."""
    renderer = Renderer(folder)
    sampled = [*renderer.encode(said), min(renderer.end_ids)]
    before = (*engine.prompts[0], *sampled)
    assert engine.prompts[1][: len(before)] == before


def test_openai_calls_and_their_results_go_on_exactly(tiny: Path) -> None:
    """Bug prevented: calls rendered anew in the next prompt, other tokens than were sampled."""
    with serving(tiny, CALLS, ANSWER) as (engine, url), openai_client(url) as client:
        messages: list[Any] = [USER]
        first = client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
        choice = first.choices[0]
        assert choice.finish_reason == "tool_calls" and choice.message.content == "I look."
        assert choice.message.tool_calls is not None
        assert [call.function.name for call in choice.message.tool_calls] == ["ls", "cat"]  # type: ignore[union-attr]
        assert json.loads(choice.message.tool_calls[1].function.arguments) == {"path": '/a "b"'}  # type: ignore[union-attr]
        messages.append(choice.message.model_dump(exclude_none=True))
        for call in choice.message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "one.txt"})
        second = client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
        assert second.choices[0].message.content == ANSWER
        assert second.choices[0].finish_reason == "stop"
        assert_exact(engine, tiny, CALLS)


def test_openai_streams_the_same_calls(tiny: Path) -> None:
    with serving(tiny, CALLS) as (_, url), openai_client(url) as client:
        content, calls = "", {}
        for chunk in client.chat.completions.create(
            model="m", messages=[USER], tools=TOOLS, stream=True
        ):
            for choice in chunk.choices:
                content += choice.delta.content or ""
                for call in choice.delta.tool_calls or []:
                    assert call.function is not None
                    calls[call.index] = (call.id, call.function.name, call.function.arguments)
                ending = choice.finish_reason
        assert content == "I look." and ending == "tool_calls"
        assert [call[1] for call in calls.values()] == ["ls", "cat"]
        assert json.loads(calls[0][2] or "") == {"path": "/tmp"}
        assert calls[0][0] != calls[1][0]


@pytest.mark.parametrize("streamed", [False, True])
def test_one_call_where_a_client_takes_one(tiny: Path, streamed: bool) -> None:
    """What is sampled behind the call is neither told nor recorded."""
    with serving(tiny, CALLS, ANSWER) as (engine, url), openai_client(url) as client:
        ask: dict[str, Any] = {
            "model": "m",
            "messages": [USER],
            "tools": TOOLS,
            "parallel_tool_calls": False,
            "extra_headers": {"X-Session-Id": "s"},
        }
        if streamed:
            with client.chat.completions.stream(**ask) as stream:
                message = stream.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(**ask).choices[0].message
        assert message.tool_calls is not None and len(message.tool_calls) == 1
        ask["messages"] = [
            USER,
            {
                "role": "assistant",
                "content": message.content,
                "tool_calls": [message.tool_calls[0].model_dump(exclude_none=True)],
            },
            {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "x"},
        ]
        client.chat.completions.create(**ask)
        renderer = Renderer(tiny)
        one = renderer.encode(CALLS[: CALLS.index("\n")])
        before = (*engine.prompts[0], *one)
        assert engine.prompts[1][: len(before)] == before
        assert "cat" not in renderer.decode(engine.prompts[1][len(engine.prompts[0]) :])


def test_a_forced_call_is_opened_for_the_model(tiny: Path) -> None:
    with (
        serving(tiny, '{"path": "/x"}}</tool_call>') as (engine, url),
        openai_client(url) as client,
    ):
        named: Any = {"type": "function", "function": {"name": "cat"}}
        message = (
            client.chat.completions.create(
                model="m", messages=[USER], tools=TOOLS, tool_choice=named
            )
            .choices[0]
            .message
        )
        assert message.tool_calls is not None and not message.content
        function = message.tool_calls[0].function  # type: ignore[union-attr]
        assert (function.name, json.loads(function.arguments)) == ("cat", {"path": "/x"})
        assert Renderer(tiny).decode(engine.prompts[0]).endswith('"name": "cat", "arguments": ')


def test_a_malformed_call_comes_back_as_text_with_its_reason(tiny: Path) -> None:
    bad = 'Now <tool_call>{"name": "ls", "arguments": [1]}</tool_call>'
    with serving(tiny, bad) as (_, url), openai_client(url) as client:
        choice = client.chat.completions.create(model="m", messages=[USER], tools=TOOLS).choices[0]
        assert choice.message.tool_calls is None and choice.message.content == bad
        assert choice.finish_reason == "stop"
        assert choice.model_extra is not None and choice.model_extra["tool_call_faults"]


def test_claude_calls_and_their_results_go_on_exactly(tiny: Path) -> None:
    with serving(tiny, CALLS, ANSWER) as (engine, url), claude(url) as client:
        ask: dict[str, Any] = {
            "model": "m",
            "max_tokens": 500,
            "tools": CLAUDE_TOOLS,
            "system": [
                {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
            ],
        }
        first = client.messages.create(messages=[USER], **ask)
        assert first.stop_reason == "tool_use"
        assert [block.type for block in first.content] == ["text", "tool_use", "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "one.txt"}
            for block in first.content
            if block.type == "tool_use"
        ]
        said: Any = [
            USER,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": results},
        ]
        second = client.messages.create(messages=said, **ask)
        assert second.content[0].text == ANSWER and second.stop_reason == "end_turn"  # type: ignore[union-attr]
        assert_exact(engine, tiny, CALLS)


def test_claude_streams_the_same_blocks(tiny: Path) -> None:
    with serving(tiny, CALLS) as (_, url), claude(url) as client:
        ask: dict[str, Any] = {"model": "m", "max_tokens": 500, "tools": CLAUDE_TOOLS}
        with client.messages.stream(messages=[USER], **ask) as stream:
            kinds = [event.type for event in stream]
            message = stream.get_final_message()
        assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
        assert [block.type for block in message.content] == ["text", "tool_use", "tool_use"]
        assert message.content[1].input == {"path": "/tmp"}  # type: ignore[union-attr]
        assert message.stop_reason == "tool_use" and message.usage.output_tokens > 10
        counted = client.messages.count_tokens(model="m", messages=[USER], tools=CLAUDE_TOOLS)
        assert counted.input_tokens == message.usage.input_tokens


def test_both_clients_list_the_models(tiny: Path) -> None:
    """Bug prevented: a model without type and name where Anthropic's client shows a choice."""
    with serving(tiny, "fine") as (_, url):
        assert [model.id for model in openai_client(url).models.list()] == ["m"]
        (card,) = claude(url).models.list()
        assert (card.id, card.type, card.display_name) == ("m", "model", "m")
        assert claude(url).models.retrieve("m").created_at.year == 1970


def test_claude_reads_our_errors(tiny: Path) -> None:
    with serving(tiny, "one STOP two", RuntimeError("broke")) as (_, url), claude(url) as client:
        ask: dict[str, Any] = {"model": "m", "max_tokens": 50, "messages": [USER]}
        stopped = client.messages.create(**ask, stop_sequences=["STOP"])
        assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "STOP")
        assert stopped.content[0].text == "one "  # type: ignore[union-attr]
        with pytest.raises(anthropic.BadRequestError, match="top_k"):
            client.messages.create(**ask, extra_body={"top_k": 5})
        with pytest.raises(anthropic.NotFoundError, match="no model"):
            client.messages.create(**{**ask, "model": "claude"})
        with pytest.raises(anthropic.InternalServerError, match="broke"):
            client.messages.create(**ask)
        with pytest.raises(anthropic.APIError, match="broke"), client.messages.stream(**ask) as s:
            s.get_final_message()
        wrong = anthropic.Anthropic(base_url=url, api_key="wrong", max_retries=0)
        with pytest.raises(anthropic.AuthenticationError):
            wrong.messages.create(**ask)


def test_responses_whole_streamed_and_continued(tiny: Path) -> None:
    with serving(tiny, CALLS, ANSWER, ANSWER) as (engine, url), openai_client(url) as client:
        tools: list[Any] = [{"type": "function", **tool["function"]} for tool in TOOLS]
        ask: dict[str, Any] = {"model": "m", "tools": tools, "instructions": "Be brief."}
        first = client.responses.create(input="What is in /tmp?", **ask)
        assert [item.type for item in first.output] == ["message", "function_call", "function_call"]
        assert first.output_text == "I look." and first.status == "completed"
        results: list[Any] = [
            {"type": "function_call_output", "call_id": item.call_id, "output": "one.txt"}
            for item in first.output
            if item.type == "function_call"
        ]
        with client.responses.stream(input=results, previous_response_id=first.id, **ask) as stream:
            kinds = [event.type for event in stream]
            second = stream.get_final_response()
        assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
        assert second.output_text == ANSWER
        assert_exact(engine, tiny, CALLS)
        sent_back: list[Any] = [{"role": "user", "content": "What is in /tmp?"}]
        sent_back += [item.model_dump(exclude_none=True) for item in first.output]
        client.responses.create(input=[*sent_back, *results], **ask)
        assert engine.prompts[2] == engine.prompts[1]
        with pytest.raises(openai.NotFoundError, match="no response"):
            client.responses.create(input="x", previous_response_id="resp_none", **ask)


def test_text_completions_take_text_and_tokens(tiny: Path) -> None:
    with serving(tiny, "<think>a</think> b") as (engine, url), openai_client(url) as client:
        renderer = Renderer(tiny)
        prompts: Any = [[5, 6, 7], [8]]
        whole = client.completions.create(model="m", prompt=prompts, n=2, logprobs=0, max_tokens=90)
        assert [choice.text for choice in whole.choices] == ["<think>a</think> b"] * 4
        assert sorted(engine.prompts) == [(5, 6, 7), (5, 6, 7), (8,), (8,)]
        logprobs = whole.choices[0].logprobs
        assert logprobs is not None and logprobs.tokens is not None
        assert len(logprobs.tokens) == len(renderer.encode("<think>a</think> b")) + 1
        text = "".join(
            chunk.choices[0].text
            for chunk in client.completions.create(
                model="m", prompt="x<|im_end|>", stream=True, max_tokens=90
            )
        )
        assert text == "<think>a</think> b"
        assert engine.prompts[-1][-1] in renderer.end_ids
