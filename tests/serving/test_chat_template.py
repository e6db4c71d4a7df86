"""The short way to a chat template writes what transformers' own way does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.chat_template import ChatTemplate, _is_text
from serving.models import resolve
from serving.renderer import Renderer

RENDERER = Renderer(resolve("tiny"))
TEXTS = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": st.text()}
    ),
    min_size=1,
    max_size=4,
)
SOURCES = (
    RENDERER._template,
    "{{ bos_token }}{% for m in messages %}{% set ns = namespace(a=m.role) %}{{ ns.a | upper }}"
    "{{ m['content'] | trim | tojson }}{% endfor %}{{ tools is none }}{{ add_generation_prompt }}",
)


def long_way(tokenizer: object, messages: list[dict[str, str]]) -> str:
    return str(
        tokenizer.apply_chat_template(  # type: ignore[attr-defined]
            messages, tools=None, tokenize=False, add_generation_prompt=True
        )
    )


@given(TEXTS, st.sampled_from(SOURCES))
def test_the_short_way_writes_the_same(messages: list[dict[str, str]], source: str) -> None:
    """Bug prevented: a prompt that differs from the one the model was trained on."""
    tokenizer = RENDERER._tokenizer
    kept, tokenizer.chat_template = tokenizer.chat_template, source
    try:
        assert ChatTemplate(tokenizer).render(messages) == long_way(tokenizer, messages)
    finally:
        tokenizer.chat_template = kept


def test_the_short_way_is_taken() -> None:
    """Bug prevented: a new transformers that compiles elsewhere makes every request slow."""
    assert ChatTemplate(RENDERER._tokenizer)._is_compiled()


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": None},
        {"role": "assistant", "content": "a", "reasoning_content": "b"},
        {"role": "user"},
    ],
)
def test_what_is_more_than_a_text_goes_the_long_way(message: dict[str, object]) -> None:
    assert not _is_text(message)
