"""Properties every format keeps, whatever a reply holds."""

import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.formats.pieces import Content, Fault, Piece, Reasoning, ToolCall, collect
from serving.formats.table import FORMATS

from .replies import NAMES, TOOLS, good_calls, read, replies, summed

WHITE = r"[ \t\r\n]"
OBJECT = r"\{[^{}]*(?:\{[^{}]*\})?[^{}]*\}"  # as deep as the fragments make them
VALUE = rf"<parameter=[^<>\n]+>[\s\S]*?</parameter>{WHITE}*"  # a value may hold tags
CALL = {
    "hermes": rf"<tool_call>{WHITE}*{OBJECT}{WHITE}*(?:</tool_call>)?",
    "qwen_xml": (
        rf"<tool_call>{WHITE}*<function=\w+>{WHITE}*(?:{VALUE})*</function>"
        rf"{WHITE}*(?:</tool_call>)?"
    ),
    "llama3": rf"(?:<\|python_tag\|>|;)?{WHITE}*{OBJECT}",
    "mistral": (
        rf"\[TOOL_CALLS\]{WHITE}*(?:\w+{WHITE}*(?:\[ARGS\]{WHITE}*)?{OBJECT}|{OBJECT}"
        rf"|\[{WHITE}*{OBJECT}{WHITE}*\])"
    ),
    "gemma": rf"```tool_code{WHITE}*{OBJECT}{WHITE}*(?:```)?",
}
CALL["plain"] = CALL["hermes"]
CALL["mistral_args"] = CALL["mistral"]


def accounted(name: str, pieces: list[Piece], thinks: bool) -> str:
    """Return a pattern of all texts that these pieces tell completely: between two of them stand
    at most marks of thoughts, and white space next to a mark or a call."""
    marks = r"</?think>" + (r"|\[/?THINK\]" if name.startswith("mistral") else "")
    at_mark = f"(?:{WHITE}*(?:(?:{marks}){WHITE}*)+)?"
    at_call = f"{WHITE}*(?:(?:{marks}){WHITE}*)*"
    pattern = f"{WHITE}*" if thinks else ""
    beside_call = False
    for piece in pieces:
        if isinstance(piece, Fault):
            continue
        is_call = isinstance(piece, ToolCall)
        pattern += at_call if is_call or beside_call else at_mark
        pattern += f"(?:{CALL[name]})" if is_call else re.escape(piece.text)
        beside_call = is_call
    return pattern + (at_call if beside_call else at_mark)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_the_pieces_do_not_depend_on_the_cutting(name: str, data: st.DataObject) -> None:
    """Bug prevented: a mark cut in two by a token's edge goes unseen, or is seen too late."""
    text = data.draw(replies(name))
    tools, thinks = data.draw(st.booleans()), data.draw(st.booleans())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = summed(read(name, [text], tools, thinks))
    assert summed(read(name, parts, tools, thinks)) == whole
    assert summed(read(name, list(text), tools, thinks)) == whole


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_every_character_is_accounted_for(name: str, data: st.DataObject) -> None:
    """Bug prevented: text of a broken call, or between calls, is dropped."""
    text = data.draw(replies(name))
    thinks = data.draw(st.booleans())
    pieces = read(name, [text], thinks=thinks)
    assert re.fullmatch(accounted(name, pieces, thinks), text), pieces


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(data=st.data())
def test_without_tools_nothing_is_a_call(name: str, data: st.DataObject) -> None:
    """Bug prevented: an answer about tool calls is taken for one."""
    text = data.draw(
        replies(name).filter(lambda text: "think>" not in text and "THINK" not in text)
    )
    assert collect(read(name, [text], tools=False)).content == text
    assert not any(isinstance(piece, ToolCall | Fault) for piece in read(name, [text], tools=False))


OPENING = {"hermes": "<tool_call>", "qwen_xml": "<tool_call>", "plain": "<tool_call>"}
OPENING |= {"llama3": "<|python_tag|>", "gemma": "```tool_code"}
OPENING |= {"mistral": "[TOOL_CALLS]", "mistral_args": "[TOOL_CALLS]"}


@pytest.mark.parametrize("name", NAMES)
def test_content_is_given_out_at_once(name: str) -> None:
    """Bug prevented: a reply is held until its end because it might hold a call."""
    parser = FORMATS[name].parser(TOOLS)
    assert parser.push("Hello") == [Content("Hello")]
    assert parser.push(", you") == [Content(", you")]
    assert parser.push(" ") == []  # no content if a call follows
    begun = OPENING[name][:-1]
    assert parser.push(begun) == []  # may become a mark
    assert parser.push("!") == [Content(f" {begun}!")]
    assert parser.push("so it is") == [Content("so it is")]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "llama3"])
def test_a_fault_follows_its_verbatim_text(name: str) -> None:
    """Bug prevented: the marks of a broken call vanish from the text given back."""
    call = good_calls(name)[0]
    broken = call.replace('"name"', '"name" oops').replace("</function>", "")
    first, second = summed(read(name, ["Look:\n" + broken]))
    assert first == Content("Look:\n" + broken)
    assert isinstance(second, Fault) and second.reason


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("thinks", [False, True])
def test_a_thought_comes_before_calls(name: str, thinks: bool) -> None:
    """Bug prevented: a thought the prompt has opened is shown to the user."""
    call = good_calls(name)[0]
    opening = "" if thinks else "<think>"
    text = f"{opening}\nHm, {call}?\n</think>\n\n{call}"
    pieces = summed(read(name, list(text), thinks=thinks))
    assert pieces[0] == Reasoning(f"Hm, {call}?")
    assert len(pieces) == 2 and isinstance(pieces[1], ToolCall)


def test_an_end_of_thought_alone_is_no_content() -> None:
    """Bug prevented: the bare mark is shown. What came before it has been shown already."""
    assert collect(read("hermes", ["Hm.\n</think>\n\nYes."])).content == "Hm.Yes."
    assert collect(read("hermes", ["Hm.\n</think>\nYes."], thinks=True)).reasoning == "Hm."
    assert collect(read("hermes", ["Hm."], thinks=True)).reasoning == "Hm."


def test_marks_within_a_string_are_part_of_it() -> None:
    """Bug prevented: a call that writes about calls is cut in two."""
    text = '<tool_call>{"name": "ls", "arguments": {"path": "</think></tool_call>"}}</tool_call>'
    assert read("hermes", list(text)) == [ToolCall("ls", '{"path": "</think></tool_call>"}')]


def test_a_quotation_that_never_ends_hides_no_later_call() -> None:
    """Bug prevented: one forgotten quotation mark swallows every call behind it."""
    good = '<tool_call>{"name": "ls", "arguments": {}}</tool_call>'
    bad = '<tool_call>{"name": "ls, "arguments": {}}</tool_call>'
    pieces = summed(read("hermes", [bad + "\n" + good]))
    assert pieces[0] == Content(bad)
    assert isinstance(pieces[1], Fault)
    assert pieces[2:] == [ToolCall("ls", "{}")]


BOMBS = {
    "brackets": "[" * 1_000_000,
    "quotes": '"' * 1_000_000,
    "backslashes": "\\" * 1_000_000,
    "blanks": " " * 1_000_000,
    "objects": '{"name":' * 125_000,
    "ends": '{"name": "</tool_call>```</parameter>' * 27_000,
    "numbers": '{"name": "ls", "arguments": {"n": ' + "9" * 1_000_000,
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bomb", BOMBS)
def test_large_rubbish_is_read_without_error(name: str, bomb: str) -> None:
    """Bug prevented: RecursionError, or a big number's ValueError, ends the stream."""
    for opening in (FORMATS[name].forced_opening("ls"), ""):
        text = opening + BOMBS[bomb]
        parsed = collect(read(name, [text[at : at + 4096] for at in range(0, len(text), 4096)]))
        assert parsed.content == text
        assert not parsed.calls


@pytest.mark.parametrize("name", ["hermes", "llama3", "mistral", "qwen_xml"])
@pytest.mark.parametrize("bomb", BOMBS)
def test_time_grows_with_the_text(name: str, bomb: str) -> None:
    """Bug prevented: all the text so far is searched again for each new token."""
    opening = FORMATS[name].forced_opening("ls")

    def seconds(size: int) -> float:
        text = opening + BOMBS[bomb][:size]
        start = time.process_time()
        read(name, [text[at : at + 4] for at in range(0, len(text), 4)])
        return time.process_time() - start

    small = min(seconds(50_000) for _ in range(3))
    assert min(seconds(200_000) for _ in range(2)) < 9 * small + 0.05  # 4 if linear, else 16


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(
    arguments=st.lists(
        st.dictionaries(
            st.sampled_from(["path", "either"]), st.text(st.characters(codec="utf-8"), max_size=9)
        ),
        min_size=1,
        max_size=3,
    )
)
def test_written_calls_are_read_again(name: str, arguments: list[dict[str, str]]) -> None:
    """Bug prevented: history written into a prompt in another way than replies are read."""
    calls = [ToolCall("ls", json.dumps(each, ensure_ascii=False)) for each in arguments]
    if name == "qwen_xml" and any("</" in v for each in arguments for v in each.values()):
        return  # the family's format cannot quote its own tags
    text = FORMATS[name].written_calls(calls)
    assert read(name, list(text)) == calls


@pytest.mark.parametrize("name", NAMES)
def test_a_forced_opening_is_continued_to_a_call(name: str) -> None:
    """Bug prevented: a forced call that the parser then takes for content."""
    form = FORMATS[name]
    written = form.written_calls([ToolCall("ls", "{}")])
    for opening in (form.forced_opening("ls"), form.forced_opening(None)):
        assert written.startswith(opening)
        assert read(name, [opening, written[len(opening) :]]) == [ToolCall("ls", "{}")]
    assert "ls" in form.instructions(TOOLS)
