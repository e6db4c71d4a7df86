"""Replies to read, made of fragments of every family, and helpers to read them."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from serving.formats.pieces import Content, Piece, Reasoning
from serving.formats.table import FORMATS

NAMES = tuple(FORMATS)
SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "n": {"type": "integer"},
        "deep": {"type": "boolean"},
        "ratio": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "either": {"type": ["string", "null"]},
    },
}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "description": "", "parameters": SCHEMA}}
    for name in ("ls", "pwd")
]

GOOD = {  # one call each
    "json": ['{"name": "ls", "ARGS": {"path": "/"}}', '{"name":"pwd","ARGS":{}}'],
    "hermes": ["<tool_call>\nJSON\n</tool_call>", "<tool_call>JSON</tool_call>"],
    "qwen_xml": [
        "<tool_call>\n<function=ls>\n<parameter=path>\n/\n</parameter>\n</function>\n</tool_call>",
        "<tool_call><function=pwd></function></tool_call>",
    ],
    "llama3": ["<|python_tag|>JSON", "JSON", "; JSON"],
    "mistral": ["[TOOL_CALLS] [JSON]", '[TOOL_CALLS]ls[ARGS]{"path": "/"}', "[TOOL_CALLS]pwd{}"],
    "gemma": ["```tool_code\nJSON\n```"],
}
GOOD["plain"] = GOOD["hermes"]
GOOD["mistral_args"] = GOOD["mistral"]
FRAGMENTS = [
    *("a", "bc", "d e", " ", "\n", "\n\n", "\t", "é", "\u00a0", "{", "}", '"', "\\", ";", "[", "]"),
    *("<think>", "</think>", "[THINK]", "[/THINK]", "<", "</", "<tool_call>", "</tool_call>"),
    *("<function=ls>", "<parameter=n>", "</parameter>", "</function>", "[TOOL_CALLS]", "[ARGS]"),
    *("<|python_tag|>", "```tool_code", "```", "`", '{"name": "ls"', '"x": "', "{{", "]]"),
]


def good_calls(name: str) -> list[str]:
    """Return texts that are one call each to a format."""
    key = "parameters" if name in ("llama3", "gemma") else "arguments"
    objects = [json.replace("ARGS", key) for json in GOOD["json"]]
    return [
        frame.replace("JSON", json) for frame in GOOD[name] for json in objects if "JSON" in frame
    ] + [frame for frame in GOOD[name] if "JSON" not in frame]


def replies(name: str) -> st.SearchStrategy[str]:
    """Return replies to a format: calls, thoughts and rubbish in any order."""
    thoughts = ["<think>\nhm\n</think>\n\n", "<think>", "</think>"]
    halves = [part for call in good_calls(name) for part in (call[: len(call) // 2], call[-14:])]
    fragment = st.one_of(
        st.sampled_from(FRAGMENTS),
        st.sampled_from(good_calls(name)),
        st.sampled_from([*thoughts, *halves, " ", "\n"]),
    )
    return st.lists(fragment, max_size=14).map("".join)


def read(name: str, parts: Sequence[str], tools: bool = True, thinks: bool = False) -> list[Piece]:
    """Return the pieces of a reply given part by part."""
    parser = FORMATS[name].parser(TOOLS if tools else (), in_reasoning=thinks)
    pieces = [piece for part in parts for piece in parser.push(part)]
    return pieces + parser.finish()


def summed(pieces: Sequence[Piece]) -> list[Piece]:
    """Return pieces with neighbours of one kind joined."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, Content) and isinstance(last, Content):
            joined[-1] = Content(last.text + piece.text)
        elif isinstance(piece, Reasoning) and isinstance(last, Reasoning):
            joined[-1] = Reasoning(last.text + piece.text)
        else:
            joined.append(piece)
    return joined
