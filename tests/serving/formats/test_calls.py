"""What each family's calls look like, good and bad."""

import json

import pytest

from serving.formats.pieces import Content, Fault, ToolCall
from serving.formats.table import FORMATS, detect, find

from .replies import read, summed

LS = ToolCall("ls", '{"path": "/"}')
PWD = ToolCall("pwd", "{}")
GOOD = [
    (
        "hermes",
        '<tool_call>\n{"name": "ls", "arguments": {"path": "/"}}\n</tool_call>\n'
        '<tool_call>\n{"arguments": {}, "name": "pwd"}\n</tool_call>\n',
    ),
    (
        "qwen_xml",
        "<tool_call>\n<function=ls>\n<parameter=path>\n/\n</parameter>\n</function>\n</tool_call>\n"
        "<tool_call>\n<function=pwd>\n</function>\n</tool_call>",
    ),
    (
        "llama3",
        '<|python_tag|>{"name": "ls", "parameters": {"path": "/"}}; '
        '{"type": "function", "name": "pwd", "parameters": {}}',
    ),
    ("llama3", '{"name": "ls", "parameters": {"path": "/"}};{"name":"pwd","parameters":{}}'),
    (
        "mistral",
        '[TOOL_CALLS] [{"name": "ls", "arguments": {"path": "/"}}, '
        '{"name": "pwd", "arguments": {}, "id": "123456789"}]',
    ),
    ("mistral", '[TOOL_CALLS]ls[ARGS]{"path": "/"}[TOOL_CALLS]pwd[CALL_ID]123456789[ARGS]{}'),
    (
        "gemma",
        '```tool_code\n{"name": "ls", "parameters": {"path": "/"}}\n```\n'
        '```tool_code\n{"name": "pwd", "arguments": {}}\n```',
    ),
    (
        "plain",
        '<tool_call>{"name": "ls", "arguments": {"path": "/"}}</tool_call>'
        '<tool_call>{"name": "pwd", "arguments": "{}"}</tool_call>',
    ),
]


@pytest.mark.parametrize(("name", "text"), GOOD)
def test_calls_of_each_family(name: str, text: str) -> None:
    """Bug prevented: the second of two calls is lost, or arguments are written anew."""
    assert read(name, [text]) == [LS, PWD]
    if name != "llama3" or text.startswith("<"):
        assert summed(read(name, ["Yes.\n\n" + text])) == [Content("Yes."), LS, PWD]


BAD = [
    ("hermes", '<tool_call>{"name": "ls"}</tool_call>', 'no "arguments"'),
    ("hermes", '<tool_call>{"arguments": {}}</tool_call>', 'no "name"'),
    ("hermes", '<tool_call>{"name": 3, "arguments": {}}</tool_call>', "name"),
    ("hermes", '<tool_call>{"name": "l\\ud800", "arguments": {}}</tool_call>', "name"),
    ("hermes", '<tool_call>{"name": "ls", "arguments": [1]}</tool_call>', "not a JSON object"),
    ("hermes", '<tool_call>{"name": "ls", "arguments": {"n": NaN}}</tool_call>', "NaN"),
    ("hermes", '<tool_call>{"name": "ls", "arguments": {}', "unfinished"),
    ("hermes", "<tool_call>", "unfinished"),
    ("hermes", "<tool_call>ls /</tool_call>", "not JSON"),
    ("hermes", '<tool_call>{"name": "ls", "arguments": {}} {}</tool_call>', "more text"),
    ("qwen_xml", "<tool_call><function=ls></tool_call>", "</function>"),
    ("qwen_xml", "<tool_call>ls</tool_call>", "<function="),
    ("qwen_xml", "<tool_call><function=ls><parameter=path>/", "unfinished"),
    (
        "qwen_xml",
        "<tool_call><function=ls><parameter=n>many</parameter></function></tool_call>",
        "'n' is not of type integer",
    ),
    ("llama3", '<|python_tag|>ls.call(path="/")', "no JSON"),
    ("llama3", '{"name": "ls", "parameters": {"path": "/"', "unfinished"),
    ("mistral", "[TOOL_CALLS] ls and more", "neither"),
    ("mistral", '[TOOL_CALLS] [{"name": "ls", "arguments": {}}, 3]', "missing"),
    ("mistral", '[TOOL_CALLS]ls[ARGS]{"path": ', "unfinished"),
    ("gemma", '```tool_code\nls(path="/")\n```', "not JSON"),
]


@pytest.mark.parametrize(("name", "text", "reason"), BAD)
def test_malformed_calls_come_back_as_text_with_the_reason(
    name: str, text: str, reason: str
) -> None:
    """Bug prevented: a malformed call is dropped, and nobody learns why."""
    pieces = read(name, [text])
    assert "".join(piece.text for piece in pieces if isinstance(piece, Content)) == text
    (fault,) = [piece for piece in pieces if isinstance(piece, Fault)]
    assert reason in fault.reason and "\n" not in fault.reason


def test_json_that_only_looks_like_a_llama_call_is_content() -> None:
    """Bug prevented: a JSON answer is called a fault, or a function nobody offers is called."""
    for text in (
        '{"name": "Ann", "age": 3}',
        '{"name": "rm", "parameters": {}}',
        '{"age": 3, "name": "ls"}',
        'As JSON: {"name": "ls", "parameters": {}}',
        "{",
    ):
        assert summed(read("llama3", list(text))) == [Content(text)]


def test_arguments_keep_the_text_of_the_model() -> None:
    """Bug prevented: 1.0 becomes 1, an escape a character, and the next prompt another text."""
    arguments = '{ "a" : 1.0,\n"b":"\\u00e9", "a": 1e5}'
    text = f'<tool_call>{{"name": "ls", "arguments": {arguments} }}</tool_call>'
    assert read("hermes", list(text)) == [ToolCall("ls", arguments)]


def test_xml_values_take_the_types_of_the_schema() -> None:
    """Bug prevented: a path of digits becomes a number, a list stays text."""
    values = {"path": "12", "n": "12", "deep": "True", "ratio": "1e3", "tags": '["a"]'}
    values |= {"either": "null", "unknown": "[1]"}
    body = "".join(f"<parameter={key}>\n{text}\n</parameter>\n" for key, text in values.items())
    text = f"<tool_call>\n<function=ls>\n{body}</function>\n</tool_call>"
    (call,) = read("qwen_xml", [text])
    assert isinstance(call, ToolCall)
    expected = {"path": "12", "n": 12, "deep": True, "ratio": 1000.0, "tags": ["a"]}
    assert json.loads(call.arguments) == {**expected, "either": None, "unknown": "[1]"}


def test_xml_values_keep_lines_and_tags() -> None:
    """Bug prevented: code in a parameter loses its indentation or ends at a tag in it."""
    code = "\n  if a < b:\n    print('</tool_call><function=x>')\n"
    text = (
        f"<tool_call>\n<function=ls>\n<parameter=path>\n{code}\n</parameter>\n"
        "</function>\n</tool_call>"
    )
    (call,) = read("qwen_xml", list(text))
    assert isinstance(call, ToolCall)
    assert json.loads(call.arguments) == {"path": code}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"$ref": "#/$defs/Point"}, '{"x": 1}', {"x": 1}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "None", None),
        ({"enum": [1, 2]}, "2", 2),
        ({"enum": ["1", "2"]}, "2", "2"),
        ({"type": "integer"}, "3.0", 3),
        ({"type": ["integer", "string"]}, "three", "three"),
        ({}, "3", "3"),
    ],
)
def test_types_are_found_in_any_schema(schema: object, text: str, value: object) -> None:
    """Bug prevented: a parameter declared by reference or by choice arrives as text."""
    parameters = {"properties": {"p": schema}, "$defs": {"Point": {"type": "object"}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    parser = FORMATS["qwen_xml"].parser(tools)
    body = f"<function=f><parameter=p>{text}</parameter></function>"
    (call,) = parser.push(f"<tool_call>{body}</tool_call>")
    assert isinstance(call, ToolCall)
    assert json.loads(call.arguments) == {"p": value}


@pytest.mark.parametrize(
    ("template", "tokens", "name"),
    [
        ("{{ '<tool_call>' }} {{ '<function=' }} {{ '<parameter=' }}", (), "qwen_xml"),
        ("<|start_header_id|> <tool_call>", ("<|python_tag|>",), "hermes"),
        ("<|start_header_id|>{{ role }}", ("<|python_tag|>",), "llama3"),
        ('<|start_header_id|> {"name": f, "parameters": {}}', (), "llama3"),
        ("[INST] [TOOL_CALLS] ", ("[ARGS]",), "mistral"),
        ("[INST] [TOOL_CALLS] [ARGS] ", (), "mistral_args"),
        ("[INST]", ("[TOOL_CALLS]", "[ARGS]"), "mistral_args"),
        ("<start_of_turn>", (), "gemma"),
        ("<|im_start|>", ("<tool_call>",), "hermes"),
        ("<|im_start|>", ("<|im_end|>",), "plain"),
    ],
)
def test_the_format_is_found_by_the_template(
    template: str, tokens: tuple[str, ...], name: str
) -> None:
    """Bug prevented: a model trained to write Hermes' calls on Llama's vocabulary is misread."""
    assert detect(template, tokens).name == name


def test_a_format_is_found_by_name() -> None:
    assert find("hermes") is FORMATS["hermes"]
    with pytest.raises(ValueError, match="did you mean 'mistral'"):
        find("mistrl")


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("hermes", {"<tool_call>", "</tool_call>", "<think>", "</think>"}),
        ("qwen_xml", {"<tool_call>", "</tool_call>", "<think>", "</think>"}),
        ("llama3", {"<|python_tag|>"}),
        ("mistral", {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"}),
        ("mistral_args", {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"}),
    ],
)
def test_marks_that_may_be_special_tokens_are_kept(name: str, marks: set[str]) -> None:
    """Bug prevented: a mark that is a special token is decoded away before the parser sees it."""
    assert marks <= FORMATS[name].kept_tokens
    assert FORMATS[name].name == name
