"""Conversations made fit for templates that render only part of them."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from serving.formats.adapt import TemplateSupport, adapt
from serving.formats.table import FORMATS, detect

from .chat_templates import CHATML, GEMMA, HERMES, LLAMA3, MISTRAL, template
from .replies import TOOLS

NOTHING = TemplateSupport(system_role=True)
ALL = TemplateSupport(
    tools=True, tool_calls=True, parallel_calls=True, tool_role=True, system_role=True
)
FUNCTION = {"name": "ls", "arguments": '{"path": "/"}'}
DIALOGUE: list[dict[str, Any]] = [
    {"role": "user", "content": "Look."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call00001", "type": "function", "function": FUNCTION},
            {"id": "call00002", "type": "function", "function": {"name": "pwd", "arguments": ""}},
        ],
    },
    {"role": "tool", "tool_call_id": "call00001", "content": "bin etc"},
    {"role": "tool", "tool_call_id": "call00002", "content": [{"type": "text", "text": "/"}]},
    {"role": "assistant", "content": "bin and etc."},
]


@pytest.mark.parametrize(
    ("source", "support"),
    [
        (CHATML, TemplateSupport(system_role=True)),
        (HERMES, ALL),
        (LLAMA3, replace(ALL, parallel_calls=False)),
        (MISTRAL, replace(ALL, text_arguments=True)),
        (GEMMA, TemplateSupport()),
        ("{{ raise_exception('never') }}", TemplateSupport()),
    ],
)
def test_support_is_found_by_probes(source: str, support: TemplateSupport) -> None:
    """Bug prevented: a template that writes any role's name counts as one that knows tools."""
    assert TemplateSupport.probe(template(source).text) == support


def test_any_failure_of_a_template_means_no_support() -> None:
    """Bug prevented: a template that stumbles over a probe stops the server."""

    def render(messages: Sequence[Any], tools: Sequence[Any]) -> str:
        raise ZeroDivisionError

    assert TemplateSupport.probe(render) == TemplateSupport()


@pytest.mark.parametrize("source", [CHATML, HERMES, LLAMA3, MISTRAL, GEMMA])
def test_every_word_reaches_the_prompt(source: str) -> None:
    """Bug prevented: a call, a result, a rule or a tool is left out of the prompt unseen."""
    chat = template(source)
    support = TemplateSupport.probe(chat.text)
    form = detect(chat.source, chat.special_tokens)
    messages = [
        {"role": "developer", "content": "Rule."},
        *DIALOGUE,
        {"role": "user", "content": "Thanks."},
    ]
    before = copy.deepcopy(messages)
    text = chat.text(adapt(messages, TOOLS, form, support), TOOLS if support.tools else ())
    assert messages == before
    words = ["Rule.", "Look.", '"path": "/"', "bin etc", "bin and etc.", "Thanks.", "pwd"]
    places = [text.index(word) for word in words[:-1] if word != '"path": "/"']
    assert all(word in text for word in words)
    assert places == sorted(places)


def test_calls_and_results_become_text() -> None:
    """Bug prevented: results in two user messages in a row, which many templates refuse."""
    plain = FORMATS["plain"]
    adapted = adapt([*DIALOGUE[:4], {"role": "user", "content": "And?"}], (), plain, NOTHING)
    assert [message["role"] for message in adapted] == ["user", "assistant", "user"]
    assert adapted[1] == {
        "role": "assistant",
        "content": '<tool_call>{"name": "ls", "arguments": {"path": "/"}}</tool_call>\n'
        '<tool_call>{"name": "pwd", "arguments": {}}</tool_call>',
    }
    assert adapted[2]["content"] == "ls returned:\nbin etc\npwd returned:\n/\nAnd?"


def test_several_calls_are_text_where_the_template_takes_one() -> None:
    """Bug prevented: the model calls two functions, and its own history is then refused."""
    llama = FORMATS["llama3"]
    adapted = adapt(DIALOGUE, TOOLS, llama, replace(ALL, parallel_calls=False))
    text = '{"name": "ls", "parameters": {"path": "/"}}; {"name": "pwd", "parameters": {}}'
    assert adapted[1] == {"role": "assistant", "content": text}
    assert adapted[2]["role"] == "tool"
    no_calls = [{"role": "assistant", "content": "Hm.", "tool_calls": []}]
    assert adapt(no_calls, (), llama, ALL) == [{"role": "assistant", "content": "Hm."}]


def test_arguments_become_objects_where_the_template_renders_calls() -> None:
    """Bug prevented: arguments written as a JSON string within JSON."""
    form = FORMATS["hermes"]
    (_, message, result, *_) = adapt(DIALOGUE, TOOLS, form, ALL)
    assert [call["function"]["arguments"] for call in message["tool_calls"]] == [{"path": "/"}, {}]
    assert result["name"] == "ls"  # some templates print it
    broken = copy.deepcopy(DIALOGUE[:2])
    broken[1]["tool_calls"][0]["function"]["arguments"] = "[" * 9999
    (_, message) = adapt(broken, TOOLS, form, ALL)
    assert message["tool_calls"][0]["function"]["arguments"] == "[" * 9999


def test_tools_are_taught_where_the_template_ignores_them() -> None:
    """Bug prevented: a model asked to use tools that it has never been told of."""
    plain = FORMATS["plain"]
    rule = {"role": "system", "content": "Rule."}
    question = {"role": "user", "content": [{"type": "text", "text": "Look."}]}
    taught = plain.instructions(TOOLS)
    assert adapt([rule, question], TOOLS, plain, NOTHING)[0]["content"] == f"Rule.\n\n{taught}"
    assert adapt([question], TOOLS, plain, NOTHING)[0] == {"role": "system", "content": taught}
    assert adapt([rule, question], TOOLS, plain, ALL) == [rule, {**question, "content": "Look."}]
    (only,) = adapt([rule, question], TOOLS, plain, TemplateSupport())
    assert only == {"role": "user", "content": f"Rule.\n\n{taught}\n\nLook."}
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    (only,) = adapt([rule, {"role": "user", "content": [image]}], (), plain, TemplateSupport())
    assert only["content"][0]["text"] == "Rule." and only["content"][-1] == image


def test_a_developer_message_is_a_system_message() -> None:
    """Bug prevented: two system messages in a row, or a developer's rule left out."""
    messages = [
        {"role": "system", "content": "One."},
        {"role": "developer", "content": "Two."},
        {"role": "user", "content": "Look."},
    ]
    plain = FORMATS["plain"]
    assert adapt(messages, (), plain, NOTHING)[0] == {"role": "system", "content": "One.\nTwo."}
    known = TemplateSupport(system_role=True, developer_role=True)
    assert adapt(messages, (), plain, known) == messages
