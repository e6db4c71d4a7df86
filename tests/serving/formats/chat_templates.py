"""Chat templates that behave as those of each family do, in few lines, and their renderer."""

import copy
from typing import Any

from transformers import AutoTokenizer

from serving.models import resolve
from serving.templates import ModelTemplate

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# Qwen2.5: everything is rendered, nothing is rewritten
HERMES = """\
{%- set first = messages[0].content if messages[0].role == 'system' else 'Be kind.' %}
{{- '<|im_start|>system\n' + first }}
{%- if tools %}{% for tool in tools %}{{ '\n' + (tool | tojson) }}{% endfor %}{% endif %}
{{- '<|im_end|>\n' }}
{%- for m in messages %}
  {%- if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}
    {{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
  {%- elif m.role == 'assistant' %}
    {{- '<|im_start|>assistant\n' + m.content }}
    {%- for c in m.tool_calls %}
      {{- '<tool_call>\n{"name": "' + c.function.name + '", "arguments": ' }}
      {{- (c.function.arguments | tojson) + '}\n</tool_call>\n' }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
  {%- elif m.role == 'tool' %}
    {{- '<|im_start|>user\n<tool_response>' + m.content + '</tool_response><|im_end|>\n' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""

# Qwen3: thoughts before the last question are left out
QWEN3 = """\
{%- set ns = namespace(last=0) %}
{%- for m in messages if m.role == 'user' %}{% set ns.last = m %}{% endfor %}
{%- for m in messages %}
  {{- '<|im_start|>' + m.role + '\n' }}
  {%- if m.role == 'assistant' and m.reasoning_content and loop.index0 > messages.index(ns.last) %}
    {{- '<think>\n' + m.reasoning_content + '\n</think>\n\n' }}
  {%- endif %}
  {{- m.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
{#- <tool_call> #}"""

KEEPS_THOUGHTS = QWEN3.replace(" and loop.index0 > messages.index(ns.last)", "")

# Llama 3: today's date, one call a message, results by a role of its own
LLAMA3 = """\
{%- macro turn(role) %}{{ '<|start_header_id|>' + role + '<|end_header_id|>\n\n' }}{% endmacro %}
{{- turn('system') + 'Today: ' + strftime_now('%d %b %Y') }}
{%- for t in tools or [] %}{{ t | tojson }}{% endfor %}<|eot_id|>
{%- for m in messages %}
  {%- if m.tool_calls %}
    {%- if m.tool_calls | length != 1 %}{{ raise_exception('one call at a time') }}{% endif %}
    {%- set f = m.tool_calls[0].function %}
    {{- turn('assistant') + '{"name": "' + f.name + '", "parameters": ' }}
    {{- (f.arguments | tojson) + '}<|eot_id|>' }}
  {%- elif m.role == 'tool' %}
    {{- turn('ipython') + m.content + '<|eot_id|>' }}
  {%- else %}
    {{- turn(m.role) + m.content + '<|eot_id|>' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ turn('assistant') }}{% endif %}"""

# Mistral: tools stand before the last question, ids have nine characters, arguments are text
MISTRAL = """\
{%- set ns = namespace(last=0) %}
{%- for m in messages if m.role == 'user' %}{% set ns.last = m %}{% endfor %}
{%- for m in messages %}
  {%- if m.role == 'user' %}
    {%- if tools and m == ns.last %}[AVAILABLE_TOOLS]{{ tools | tojson }}{% endif %}
    {{- '[INST]' + m.content + '[/INST]' }}
  {%- elif m.tool_calls %}
    {{- '[TOOL_CALLS][' }}
    {%- for c in m.tool_calls %}
      {%- if c.id | length != 9 %}{{ raise_exception('bad id') }}{% endif %}
      {{- '{"name": "' + c.function.name + '", "arguments": ' + c.function.arguments + '}' }}
    {%- endfor %}
    {{- ']' }}
  {%- elif m.role == 'assistant' %}{{ m.content + '</s>' }}
  {%- elif m.role == 'tool' %}{{ '[TOOL_RESULTS]' + m.content + '[/TOOL_RESULTS]' }}
  {%- elif m.role == 'system' %}{{ '[SYSTEM]' + m.content }}
  {%- else %}{{ raise_exception('unknown role') }}
  {%- endif %}
{%- endfor %}"""

# Gemma 2: two roles that alternate, and nothing else
GEMMA = """\
{%- for m in messages %}
  {%- if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}
  {%- set due = ('user', 'assistant')[loop.index0 % 2] %}
  {%- if m.role != due %}{{ raise_exception('roles must alternate') }}{% endif %}
  {{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' }}
  {{- m.content | trim + '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"""

_TOKENIZER: Any = AutoTokenizer.from_pretrained(resolve("tiny"))


def template(source: str) -> ModelTemplate:
    """Return a template with the vocabulary of the tiny model."""
    tokenizer = copy.copy(_TOKENIZER)
    tokenizer.chat_template = source
    return ModelTemplate(tokenizer)
