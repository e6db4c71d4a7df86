"""The fixed dialogues a chat template is checked with; see ``serving.templates``."""

import re
from collections.abc import Iterator

from .adapt import Message
from .protocol import Tool
from .reader import THINK_MISTRAL

USER: Message = {"role": "user", "content": "Question one."}


def as_sampled(reply: Message) -> tuple[str, str]:
    """Return a pattern of the text a model sampled for a reply, and that text for people."""
    opening, closing = ("|".join(map(re.escape, m)) for m in _mark_sets())
    pattern, words = "", ""
    thought = reply.get("reasoning_content")
    if thought:
        pattern = rf"\s*(?:(?:{opening})\s*)?{re.escape(thought)}\s*(?:{closing})\s*"
        words = f"<think>{thought}</think>"
    content = reply.get("content") or ""
    pattern += re.escape(content)
    for call in reply.get("tool_calls") or ():
        function = call["function"]
        value = re.search(r"value-\w+", function["arguments"])
        pattern += f".*?{function['name']}.*?{value[0] if value else ''}"
        words += f"{function['name']}({function['arguments']})"
    return pattern, words + content


def _mark_sets() -> tuple[tuple[str, ...], tuple[str, ...]]:
    return THINK_MISTRAL.openings, THINK_MISTRAL.closings


def _user(word: str) -> Message:
    return {"role": "user", "content": f"Question {word}."}


def _assistant(word: str, thought: str = "") -> Message:
    reply = {"role": "assistant", "content": f"Answer {word}."}
    return {**reply, "reasoning_content": f"Thought {thought}."} if thought else reply


def _calls(*words: str) -> Message:
    calls = [
        {
            "id": f"call{word:0>5}",
            "type": "function",
            "function": {"name": "look_up", "arguments": f'{{"word": "value-{word}"}}'},
        }
        for word in words
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _result(word: str) -> Message:
    content = f"Result {word}."
    return {
        "role": "tool",
        "tool_call_id": f"call{word:0>5}",
        "name": "look_up",
        "content": content,
    }


def dialogues(source: str) -> Iterator[tuple[str, tuple[list[Message], list[Tool]]]]:
    """Yield kinds of dialogue with their messages and tools.

    Args:
        source: of the template they are for.
    """
    plain = [_user("one"), _assistant("one"), _user("two"), _assistant("two"), _user("three")]
    yield "plain", (plain, [])
    yield "system", ([{"role": "system", "content": "Rule one."}, *plain], [])
    schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    function = {"name": "look_up", "description": "Looks a word up.", "parameters": schema}
    with_calls = [
        _user("one"),
        _calls("a"),
        _result("a"),
        _calls("b", "c"),
        _result("b"),
        _result("c"),
        *plain[1:],
    ]
    yield "tools", (with_calls, [{"type": "function", "function": function}])
    thinking = [
        _user("one"),
        _assistant("one", thought="one"),
        _user("two"),
        _assistant("two", thought="two"),
        _user("three"),
    ]
    yield "reasoning", ([_with_thought(each, source) for each in thinking], [])


def _with_thought(message: Message, source: str) -> Message:
    """Return a message with its thought as clients send it to a template: in the content if the
    template knows of no thoughts."""
    knows = any(word in source for word in ("reasoning", "thinking", *THINK_MISTRAL.all))
    thought = message.get("reasoning_content")
    if not thought or knows:
        return message
    content = f"<think>\n{thought}\n</think>\n\n{message['content']}"
    return {"role": message["role"], "content": content}
