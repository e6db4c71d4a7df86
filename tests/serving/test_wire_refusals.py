"""What a wire refuses, it refuses by the plain name of the field a client wrote."""

import json
from typing import Any

import pydantic
import pytest

from serving.anthropic import CountRequest, MessagesRequest
from serving.errors import RequestRefused
from serving.protocol import ChatRequest, CompletionRequest, refusal
from serving.responses_api import ResponsesRequest, chat
from serving.sessions import SessionStore
from serving.wire import LONGEST_STOP, MOST_STOPS, Wire

from .test_sdks import CLAUDE_TOOLS, TOOLS, USER

RESPONSES_TOOLS: list[Any] = [
    {"type": "function", "strict": False, **tool["function"]} for tool in TOOLS
]
IMAGE = "data:image/png;base64,AAAA"
NO_IMAGES = "images are not offered by this model"


def refused(model: type[Wire], body: Any) -> tuple[str | None, str]:
    """Return the field and the words a body is refused with."""
    try:
        request = model.model_validate_json(json.dumps(body))
        if isinstance(request, CountRequest):
            request.chat()
        if isinstance(request, ResponsesRequest):
            chat(SessionStore(), "", request)
    except pydantic.ValidationError as error:
        fault = refusal(error)
    except RequestRefused as error:
        fault = error
    else:
        return None, ""
    return fault.field, str(fault)


MODELS: dict[str, tuple[type[Wire], dict[str, Any]]] = {
    "chat": (ChatRequest, {"messages": [USER]}),
    "text": (CompletionRequest, {"prompt": "x"}),
    "messages": (MessagesRequest, {"model": "m", "max_tokens": 5, "messages": [USER]}),
    "responses": (ResponsesRequest, {"input": "x"}),
}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}


def says(*parts: Any) -> list[Any]:
    return [USER, {"role": "user", "content": [*parts]}]


def result(*parts: Any) -> list[Any]:
    return [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": parts}]}
    ]


@pytest.mark.parametrize(
    ("wire", "fields", "field", "words"),
    [
        # images and files
        ("chat", {"messages": says({"type": "image_url", "image_url": {"url": IMAGE}})},
         "messages.1.content.0", NO_IMAGES),
        ("messages", {"messages": says({"type": "text", "text": "x"}, {"type": "image"})},
         "messages.1.content.1", NO_IMAGES),
        ("messages", {"messages": result({"type": "image", "source": {}})},
         "messages.0.content.0.content.0", NO_IMAGES),
        ("messages", {"messages": says({"type": "document", "source": {}})},
         "messages.1.content.0", NO_IMAGES),
        ("responses", {"input": says({"type": "input_image", "image_url": IMAGE})},
         "input.1.content.0", NO_IMAGES),
        ("responses", {"input": says({"type": "input_file", "file_id": "f"})},
         "input.1.content.0", NO_IMAGES),
        ("responses", {"input": [{"type": "function_call_output", "call_id": "1",
                                  "output": [{"type": "input_image", "image_url": IMAGE}]}]},
         "input.0.output.0", NO_IMAGES),
        # unions
        ("chat", {"messages": [{"role": "user", "content": 3}]},
         "messages.0.content", "a text or a list"),
        ("chat", {"messages": says({"type": "text", "text": 3})},
         "messages.1.content.0.text", "string"),
        ("chat", {"messages": says({"type": "poem"})}, "messages.1.content.0.type", "'text'"),
        ("chat", {"tool_choice": {"type": "custom"}}, "tool_choice", "allowed_tools"),
        ("chat", {"tool_choice": {"type": "function"}}, "tool_choice.function", "required"),
        ("chat", {"stop": 5}, "stop", "a text or a list"),
        ("text", {"prompt": {}}, "prompt", "token ids"),
        ("text", {"prompt": ["a", 1]}, "prompt.1", "string"),
        ("messages", {"system": 3}, "system", "a text or a list"),
        ("messages", {"messages": [{"role": "user", "content": 3}]},
         "messages.0.content", "a text or a list"),
        ("messages", {"messages": says({"type": "poem"})}, "messages.1.content.0", "tool_result"),
        ("messages", {"messages": result({"type": "text"})},
         "messages.0.content.0.content.0.text", "required"),
        ("responses", {"input": 3}, "input", "a text or a list"),
        ("responses", {"input": [{"type": "computer_call"}]}, "input.0", "function_call"),
        ("responses", {"input": [{"role": "user", "content": 3}]},
         "input.0.content", "a text or a list"),
        ("responses", {"tool_choice": {"type": "web_search"}}, "tool_choice", "function"),
        # options that would change the answer
        ("chat", {"tools": TOOLS, "response_format": SCHEMA},
         "response_format", "cannot be combined with tools"),
        ("responses", {"tools": RESPONSES_TOOLS,
                       "text": {"format": {"type": "json_schema", "schema": {}}}},
         "text.format", "cannot be combined with tools"),
        ("messages", {"tools": CLAUDE_TOOLS, "output_config":
                      {"format": {"type": "json_schema", "schema": {}}}},
         "output_config.format", "cannot be combined with tools"),
        ("chat", {"tools": [{"type": "custom", "custom": {"name": "x"}}]},
         "tools.0", "only functions are offered"),
        ("responses", {"tools": [*RESPONSES_TOOLS, {"type": "web_search"}]},
         "tools.2", "only functions are offered"),
        ("messages", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
         "tools.0", "only functions are offered"),
        ("responses", {"input": [{"type": "item_reference", "id": "msg_1"}]},
         "input.0", "item_reference"),
        ("responses", {"include": ["file_search_call.results"]},
         "include.0", "file_search_call.results"),
        ("responses", {"max_tool_calls": 3}, "max_tool_calls", "unsupported"),
        ("responses", {"text": {"verbosity": "huge"}}, "text.verbosity", "'medium'"),
        ("messages", {"mcp_servers": [{"url": "x"}]}, "mcp_servers", "at most 0"),
        ("messages", {"container": "c"}, "container", "unsupported"),
        ("chat", {"prediction": {"type": "content"}}, "prediction", "unsupported"),
        # stop strings
        ("chat", {"stop": ["x"] * (MOST_STOPS + 1)}, "stop", str(MOST_STOPS)),
        ("chat", {"stop": "x" * (LONGEST_STOP + 1)}, "stop", str(LONGEST_STOP)),
        ("text", {"stop": ["x", "x" * (LONGEST_STOP + 1)]}, "stop.1", str(LONGEST_STOP)),
        ("messages", {"stop_sequences": ["x"] * (MOST_STOPS + 1)},
         "stop_sequences", str(MOST_STOPS)),
        ("messages", {"stop_sequences": ["x" * (LONGEST_STOP + 1)]},
         "stop_sequences.0", str(LONGEST_STOP)),
    ],
)  # fmt: skip
def test_a_refusal_names_the_field_a_client_wrote(
    wire: str, fields: dict[str, Any], field: str, words: str
) -> None:
    """Bug prevented: ``messages.0.content.list[TextPart].0.text`` and the like."""
    model, body = MODELS[wire]
    assert refused(model, body) == (None, "")
    found, said = refused(model, {**body, **fields})
    assert found == field and words in said
