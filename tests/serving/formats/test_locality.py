"""Rendering a turn without its history writes what rendering all of it writes."""

import random
from typing import Any

import pytest

from serving.errors import RequestRefused
from serving.formats.locality import reach
from serving.models import resolve
from serving.renderer import SENTINEL, Context, Renderer

from .chat_templates import CHATML, GEMMA, HERMES, KEEPS_THOUGHTS, LLAMA3, MISTRAL, QWEN3

LOOP = "{% for m in messages %}EACH{% endfor %}"

# results of several calls stand in one turn, as Qwen2.5 has it
NEIGHBOURS = """\
{%- for m in messages %}
  {%- if m.role == 'tool' %}
    {%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' -%}
      <|im_start|>user
    {%- endif %}
    {{- '\n<tool_response>\n' + m.content + '\n</tool_response>' }}
    {%- if loop.last or (messages[loop.index0 + 1].role != 'tool') %}<|im_end|>{% endif %}
  {%- else %}
    {{- '<|im_start|>' + m.role + '\n' + m.content }}
    {%- for c in m.tool_calls or [] %}
      {{- '\n<tool_call>\n' + c.function.name }}{{ c.function.arguments | tojson }}
      {{- '' if loop.last else ',' }}</tool_call>
    {%- endfor %}<|im_end|>
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


@pytest.mark.parametrize(
    ("source", "known"),
    [
        (CHATML, 0),
        (HERMES, 0),
        (NEIGHBOURS, 1),
        *((source, None) for source in (QWEN3, KEEPS_THOUGHTS, LLAMA3, MISTRAL, GEMMA)),
        (LOOP.replace("EACH", "{{ m.content }}{% if loop.first %}a{% endif %}"), 0),
        (LOOP.replace("EACH", "{% if messages[0].role != 'system' %}a{% endif %}"), 0),
        (LOOP.replace("EACH", "{{ loop.nextitem.role }}"), 1),
        *(
            (LOOP.replace("EACH", each), None)
            for each in (
                "{{ loop.index }}",
                "{{ messages[-1].content }}",
                "{{ messages[loop.index0 - 2].content }}",
                "{{ messages[loop.index0] }}",
                "{{ messages | length }}",
                "{% break %}",
                "{{ joiner(',')() }}",
                "{% for p in messages %}{{ p }}{% endfor %}",
                "{% for p in m.content if messages[3] %}{% endfor %}",
                "{% set m = messages[0] %}{{ m.content }}",
            )
        ),
        (f"{{{{ messages | length }}}}{LOOP}", None),
        (f"{{% set messages = messages[1:] %}}{LOOP}", None),
        (f"{{% set sep = joiner() %}}{LOOP}", None),
        ("{% set ns = namespace(n=0) %}" + LOOP.replace("EACH", "{% set ns.n = 1 %}"), None),
        (LOOP + LOOP, None),
        (LOOP.replace("messages %}", "messages if m.role != 'tool' %}"), None),
    ],
)
def test_the_reach_is_proved_or_unknown(source: str, known: int | None) -> None:
    """Bug prevented: a template that looks at the whole conversation taken for one that does not,
    and prompts it would never write."""
    assert reach(source) == known


def renderer_of(source: str) -> Renderer:
    renderer = Renderer(resolve("tiny"))
    renderer._tokenizer.chat_template = renderer._template = source
    renderer._reach = reach(source)
    return renderer


def conversation(rng: random.Random) -> list[dict[str, Any]]:
    """Return some turns in an order that clients send, and some that few do."""
    messages: list[dict[str, Any]] = []
    for at in range(rng.randrange(2, 9)):
        role = rng.choice(["user", "user", "assistant", "assistant", "tool", "system", "developer"])
        message: dict[str, Any] = {"role": role, "content": f"{role} {at} <|im_end|> é"}
        if role == "assistant" and rng.random() < 0.5:
            function = {"name": f"f{at}", "arguments": '{"a": 1}'}
            call = {"id": f"call{at % 2:05}", "type": "function", "function": function}
            message["tool_calls"] = [call] * rng.randrange(1, 3)
        if role == "tool":
            message["tool_call_id"] = f"call{at % 2:05}"
        messages.append(message)
    return messages


TOOLS = [{"type": "function", "function": {"name": "f1", "description": "d", "parameters": {}}}]


@pytest.mark.parametrize("source", [CHATML, HERMES, NEIGHBOURS])
def test_a_turn_rendered_alone_is_the_turn_rendered_in_its_conversation(source: str) -> None:
    """Bug prevented: a prompt whose tail lacks what its neighbours would have added."""
    quick, slow = renderer_of(source), renderer_of(source)
    slow._reach = None
    rng, num_alone = random.Random(7), 0
    for messages in (conversation(rng) for _ in range(200)):
        for at in (i for i, said in enumerate(messages) if said["role"] == "assistant" and i):
            context = Context(tools=TOOLS if rng.random() < 0.3 else ())
            marked = [*messages]
            marked[at] = {"role": "assistant", "content": SENTINEL}
            alone = quick._tail_alone(marked, context)
            num_alone += alone is not None
            try:
                whole = slow._tail(messages, at, context)
            except RequestRefused:
                continue
            assert alone is None or alone == whole
            assert quick._tail(messages, at, context) == whole
    assert num_alone > 100
