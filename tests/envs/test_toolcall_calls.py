"""Checking calls: what is right passes, what is wrong is named, what is hostile ends at once."""

import json
import pickle
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from envs.toolcall.action import MAX_CALLS, Action, Call, parse_action
from envs.toolcall.failures import Failure, FailureKind
from envs.toolcall.patterns import UnsafePattern, longest
from envs.toolcall.quick import quick
from envs.toolcall.schema import SchemaError, compiled
from envs.toolcall.strict import BadJson, loads
from envs.toolcall.tools import Tool, check_call, check_value, offered, unknown_tool

LINE = {
    "type": "object",
    "properties": {"sku": {"type": "string"}, "quantity": {"type": "integer", "minimum": 1}},
    "required": ["sku", "quantity"],
    "additionalProperties": False,
}
ORDER = Tool(
    "order",
    "Order things.",
    {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "pattern": "^O-[0-9]{4}$"},
            "lines": {"type": "array", "items": LINE, "minItems": 1, "uniqueItems": True},
            "method": {"enum": ["card", "voucher"]},
            "when": {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 10}]},
        },
        "required": ["order_id"],
        "additionalProperties": False,
    },
)


def parameters(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def fails(arguments: str, tool: Tool = ORDER) -> Failure:
    found = check_call(tool, arguments)
    assert isinstance(found, Failure), found
    assert 0 < len(found.message) < 700
    return found


def test_a_right_call_gives_its_arguments() -> None:
    text = '{"order_id": "O-0001", "lines": [{"sku": "ž", "quantity": 2}], "method": "card"}'
    assert check_call(ORDER, text) == json.loads(text)


@pytest.mark.parametrize(
    ("arguments", "kind", "path", "words"),
    [
        ("{", FailureKind.NOT_JSON, "", "not JSON"),
        ('{"order_id": "O-0001"} x', FailureKind.NOT_JSON, "", "Extra data"),
        ("[]", FailureKind.NOT_AN_OBJECT, "", "must be a JSON object"),
        ("{}", FailureKind.MISSING_FIELD, "", '"order_id" is missing'),
        ('{"order_id": "O-0001", "x": 1}', FailureKind.EXTRA_FIELD, "", "its fields are order_id"),
        ('{"order_id": 7}', FailureKind.WRONG_TYPE, "order_id", "is 7; expected string"),
        ('{"order_id": "O-1"}', FailureKind.WRONG_FORM, "order_id", "does not match"),
        ('{"order_id": "O-0001", "method": "cash"}', FailureKind.WRONG_VALUE, "method", "voucher"),
        (
            '{"order_id": "O-0001", "lines": [{"sku": "a", "quantity": 0}]}',
            FailureKind.OUT_OF_RANGE,
            "lines[0].quantity",
            "is 0; expected at least 1",
        ),
        (
            '{"order_id": "O-0001", "lines": [{"sku": "a"}]}',
            FailureKind.MISSING_FIELD,
            "lines[0]",
            '"quantity" of lines[0] is missing',
        ),
        ('{"order_id": "O-0001", "lines": []}', FailureKind.WRONG_FORM, "lines", "minItems"),
        ('{"order_id": "O-0001", "when": 5}', FailureKind.WRONG_SHAPE, "when", "anyOf"),
        ('{"order_id": "O-0001", "order_id": "O-0002"}', FailureKind.DUPLICATE_KEY, "", "twice"),
        ('{"order_id": NaN}', FailureKind.NOT_A_NUMBER, "", "NaN"),
        ('{"order_id": -Infinity}', FailureKind.NOT_A_NUMBER, "", "-Infinity"),
        ('{"order_id": 1e999}', FailureKind.NUMBER_TOO_LARGE, "", "too large"),
        (f'{{"order_id": {"9" * 5000}}}', FailureKind.NUMBER_TOO_LARGE, "", "5000 digits"),
        ('{"order_id": "\\ud83d"}', FailureKind.BAD_UNICODE, "", "surrogate"),
        (f'{{"order_id": "{"x" * 1_000_000}"}}', FailureKind.TOO_LARGE, "", "at most 65536 bytes"),
        (f'{{"order_id": {"[" * 90}{"]" * 90}}}', FailureKind.TOO_DEEP, "", "64 levels"),
        ("[" * 60_000, FailureKind.TOO_DEEP, "", "64 levels"),
    ],
)
def test_a_wrong_call_is_named_with_path_value_and_expected(
    arguments: str, kind: FailureKind, path: str, words: str
) -> None:
    failure = fails(arguments)
    assert (failure.kind, failure.path) == (kind, path)
    assert words in json.dumps(failure.to_json(), ensure_ascii=False).replace('\\"', '"') or (
        words == "minItems" and "at least 1 items" in failure.message
    )


def test_huge_whole_numbers_keep_every_digit() -> None:
    tool = Tool("factor", "", parameters(number={"type": "integer", "multipleOf": 3}))
    number = 3 * 10**60
    assert check_call(tool, f'{{"number": {number}}}') == {"number": number}
    assert fails(f'{{"number": {number + 1}}}', tool).kind is FailureKind.OUT_OF_RANGE
    half = Tool("half", "", parameters(number={"type": "number", "multipleOf": 0.5}))
    assert check_call(half, f'{{"number": {10**400}}}') or True  # whatever it says, it ends


def test_an_error_inside_an_alternative_is_told_where_it_is() -> None:
    either = {"anyOf": [{"type": "null"}, LINE]}
    failure = fails('{"it": {"sku": 1, "quantity": 2}}', Tool("t", "", parameters(it=either)))
    assert (failure.path, failure.kind) == ("it.sku", FailureKind.WRONG_TYPE)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "array"}, "must have the type object"),
        (parameters(x={"type": "dict"}), "no schema"),
        (parameters(x={"$ref": "https://example.com/s.json"}), "leads elsewhere"),
        (parameters(x={"$ref": "file:///etc/passwd"}), "leads elsewhere"),
        (parameters(x={"$ref": "#/$defs/none"}), "leads to nothing"),
        (parameters(x={"$ref": "#none"}), "leads to nothing"),
        (parameters(x={"$ref": "#/type"}), "leads to no schema"),
        ({"type": "object", "$ref": "#"}, "back to itself"),
        (
            {
                "type": "object",
                "$ref": "#/$defs/a",
                "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}},
            },
            "back to itself",
        ),
        (parameters(x={"pattern": "(a+)+$"}), "for ever"),
        (parameters(x={"pattern": "("}), "no schema"),
        (parameters(x={"patternProperties": {"(a|a)*b": {}}}), "for ever"),
        ({"type": "object", "unevaluatedProperties": False}, "not supported"),
        (parameters(x={"$id": "https://example.com/x"}), "only the whole schema"),
        ({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}, "only https"),
        (parameters(x={"const": float("nan")}), "JSON values"),
        (parameters(x={"description": "x" * 200_000}), "bytes"),
    ],
)
def test_a_schema_that_could_do_harm_is_refused(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        Tool("t", "", schema)


def test_a_schema_nested_without_end_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"x": schema}
    with pytest.raises(SchemaError):
        Tool("t", "", schema)


def test_a_recursive_schema_checks_values_of_any_depth() -> None:
    tree = {
        "type": "object",
        "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "n": {"type": "integer"}},
        "required": ["n"],
    }
    tool = Tool("plant", "", tree)
    value: dict[str, Any] = {"n": 1}
    for _ in range(50):
        value = {"n": 1, "left": value}
    assert check_value(tool, value) == value
    value["left"]["right"] = {}
    assert fails(json.dumps(value), tool).path == "left.right"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (  # two alternatives at each level: 2**60 ways without a limit on steps
            parameters(a={"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}) | {"required": ["b"]},
            json.loads('{"b": 1, "a":' * 60 + '{"b": 1, "a": 5}' + "}" * 60),
        ),
        (parameters(a={"uniqueItems": True}), {"a": [{"k": i} for i in range(6000)] + [{"k": 1}]}),
        (
            parameters(a={"items": {"allOf": [{"minimum": i} for i in range(900)]}}),
            {"a": [1] * 9999},
        ),
        (parameters(a={"pattern": "^[a-z]+@[a-z]+\\.[a-z]+$"}), {"a": "a" * 60_000}),
        (parameters(a={"pattern": "a*a*b"}), {"a": "a" * 60_000}),
    ],
)
def test_no_check_takes_long(schema: dict[str, Any], value: dict[str, Any]) -> None:
    tool = Tool("t", "", schema)
    begun = time.process_time()
    assert isinstance(check_value(tool, value), Failure)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("pattern", ["^O-[0-9]{4}$", "^(red|green)$", r"^\d{4}-\d{2}-\d{2}$"])
def test_usual_patterns_are_tried_on_long_texts(pattern: str) -> None:
    assert longest(pattern) >= 4096


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a*)*", "(a|aa)+$", r"(\w+\s?)*$", "a?" * 40 + "a" * 40, "(ab|a)" * 40, "(" * 1001],
)
def test_patterns_that_explode_are_refused(pattern: str) -> None:
    with pytest.raises(UnsafePattern):
        longest(pattern)


@pytest.mark.parametrize("name", ["exec", "__class__", "print", "import", "call", "ns.tool-1"])
def test_a_tool_named_like_a_builtin_is_a_tool(name: str) -> None:
    assert offered([Tool(name, "", parameters())])[name].name == name


@pytest.mark.parametrize("name", ["", "a b", "1x", "x" * 65, "naïve", "a\n", 5])
def test_other_names_are_refused(name: Any) -> None:
    with pytest.raises(SchemaError, match="a tool named"):
        Tool(name, "", parameters())


def test_a_name_twice_is_refused_and_an_unknown_one_gets_the_nearest() -> None:
    with pytest.raises(SchemaError, match="two tools"):
        offered([ORDER, ORDER])
    assert "did you mean order?" in unknown_tool("ordr", ["order", "cancel"]).message
    assert len(unknown_tool("x" * 10**6, ["order"]).message) < 300


def test_tools_cross_processes_and_openais_form() -> None:
    assert pickle.loads(pickle.dumps(ORDER)) == ORDER
    assert Tool.from_openai(ORDER.to_openai()) == ORDER
    assert Tool.from_openai({"name": "now"}).parameters == {"type": "object", "properties": {}}
    with pytest.raises(SchemaError, match="no function"):
        Tool.from_openai({"type": "function"})


def test_equal_schemas_are_compiled_once() -> None:
    assert Tool("other", "", dict(ORDER.parameters)).checker is ORDER.checker
    assert compiled('{"type": "object"}') is compiled('{"type": "object"}')


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
KINDS = ["string", "integer", "number", "boolean", "null", "array", "object"]
simple = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(KINDS) | st.lists(st.sampled_from(KINDS), min_size=1, unique=True),
        "minimum": st.integers(-3, 3),
        "maxLength": st.integers(0, 5),
        "enum": st.lists(json_values, min_size=1, max_size=3),
        "uniqueItems": st.booleans(),
        "pattern": st.sampled_from(["^a", "b$", "^[0-9]+$"]),
    },
)
schemas = st.recursive(
    simple,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "items": inner,
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            "patternProperties": st.dictionaries(st.just("^[ab]"), inner, max_size=1),
            "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
        },
    ),
    max_leaves=6,
)


@given(schemas, st.dictionaries(st.sampled_from("abc"), json_values, max_size=3))
@settings(max_examples=300, deadline=None)
def test_we_say_what_jsonschema_says(schema: dict[str, Any], value: dict[str, Any]) -> None:
    """Bug prevented: a keyword of ours, or a limit, that changes what is valid."""
    whole = {**schema, "type": "object"}
    found = check_value(Tool("t", "", whole), value)
    assert isinstance(found, dict) == Draft202012Validator(whole).is_valid(value)
    if isinstance(found, Failure):
        json.dumps(found.to_json())


usual = st.recursive(
    st.sampled_from(
        [
            {"type": "integer", "minimum": 0, "exclusiveMaximum": 3},
            {"type": "number", "maximum": 1.5},
            {"type": "boolean"},
            {"type": "string", "minLength": 1, "maxLength": 3},
            {"type": "string", "enum": ["a", "b", ""]},
            {"type": "string", "pattern": "^a"},
        ]
    ),
    lambda inner: (
        st.fixed_dictionaries(
            {"type": st.just("array")}, optional={"items": inner, "maxItems": st.integers(0, 2)}
        )
        | st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(st.sampled_from("ab"), inner),
            },
            optional={
                "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
                "additionalProperties": st.booleans(),
            },
        )
    ),
    max_leaves=5,
)
near = st.recursive(
    st.sampled_from([0, 1, 2, 3, 1.0, 1.5, True, False, None, "", "a", "b", "abcd"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)


@given(usual, near)
@settings(max_examples=500, deadline=None)
def test_the_quick_yes_is_right(schema: dict[str, Any], value: Any) -> None:
    made = quick(schema)
    assert made is not None
    valid = Draft202012Validator(schema).is_valid(value)
    assert valid or not made(value)
    if valid and "1.0" not in repr(value):
        assert made(value), "slow where it need not be"


@given(json_values)
@settings(deadline=None)
def test_strict_reading_gives_what_was_written(value: Any) -> None:
    assert loads(json.dumps(value)) == value
    assert loads(json.dumps(value, ensure_ascii=False)) == value


@given(st.text() | st.text(alphabet='{}[]":,\\u0dnNaInfity1e+-. '))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_value_or_a_named_failure(text: str) -> None:
    try:
        loads(text)
    except BadJson as error:
        assert error.kind in FailureKind and str(error)
    found = parse_action(text)
    assert isinstance(found, Action | Failure)
    assert isinstance(check_call(ORDER, text), dict | Failure)


names = st.text(min_size=1, max_size=10)
calls = st.builds(
    Call, names, st.dictionaries(names, json_values, max_size=3) | st.text(max_size=9)
)
actions = st.builds(Action, st.text(max_size=30), st.lists(calls, max_size=3).map(tuple))


@given(actions)
@settings(deadline=None)
def test_actions_round_trip(action: Action) -> None:
    assert parse_action(action.to_text()) == action


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", FailureKind.MALFORMED_ACTION),
        ("hello", FailureKind.MALFORMED_ACTION),
        ("{}", FailureKind.MALFORMED_ACTION),
        ("[]", FailureKind.MALFORMED_ACTION),
        ('{"text": "x"}', FailureKind.MALFORMED_ACTION),
        ('{"content": 5}', FailureKind.MALFORMED_ACTION),
        ('{"tool_calls": {"name": "x"}}', FailureKind.MALFORMED_ACTION),
        ('{"tool_calls": ["x"]}', FailureKind.MALFORMED_ACTION),
        ('{"tool_calls": [{"arguments": {}}]}', FailureKind.MALFORMED_ACTION),
        ('{"content": "a", "content": "b"}', FailureKind.DUPLICATE_KEY),
        ('{"tool_calls": [{"name": "x", "arguments": {"n": NaN}}]}', FailureKind.NOT_A_NUMBER),
        (Action(calls=(Call("x", {}),) * (MAX_CALLS + 1)).to_text(), FailureKind.TOO_MANY_CALLS),
        (Action("x" * 10**6).to_text(), FailureKind.TOO_LARGE),
    ],
)
def test_what_is_no_action_is_named(text: str, kind: FailureKind) -> None:
    found = parse_action(text)
    assert isinstance(found, Failure) and found.kind is kind


def test_openais_calls_are_read() -> None:
    row = {"type": "function", "id": "c1", "function": {"name": "f", "arguments": '{"a": 1}'}}
    assert parse_action(json.dumps({"content": None, "tool_calls": [row]})) == Action(
        "", (Call("f", '{"a": 1}'),)
    )
