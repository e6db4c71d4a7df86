"""BFCL's verdicts on single-turn answers in Python categories: the package's, by our code.

A call is right when its function, its arguments and their types are among the allowed ones; what is
loose and what is strict follows bfcl-eval 2026.3.23 to the letter, also where it surprises: 1 for a
"float" is fine and 1.0 for an "integer" is not; blanks and ,./-_*^ in texts do not count; a value
of the type of the allowed answers stands for a variable; ``""`` among the allowed values makes an
argument optional. ``python -m benchmarks.bfcl parity`` holds the two side by side.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.bfcl_decode import Decoded, NotCalls, decode

TYPES: Mapping[str, type] = {
    "string": str, "integer": int, "float": float, "boolean": bool, "array": list,
    "tuple": list, "dict": dict, "any": str,
}  # fmt: skip
PYTHON_CATEGORIES = (
    "simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance", "live_simple",
    "live_multiple", "live_parallel", "live_parallel_multiple", "live_irrelevance",
    "live_relevance",
)  # fmt: skip
_LOOSE = re.compile(r"[ ,./\-_*^]")


@dataclass(frozen=True)
class Found:
    """A verdict.

    Attributes:
        error_type: the package's name of what is wrong; "" when valid.
    """

    error_type: str = ""

    @property
    def valid(self) -> bool:
        """True for a right answer."""
        return not self.error_type


def graded(category: str, row: Mapping[str, Any], gold: Any, answer: str) -> Found:
    """Return the verdict on a reply.

    Args:
        category: one of ``PYTHON_CATEGORIES``.
        row: the question, as in the package's file.
        gold: its ``ground_truth``; None for the relevance categories.
        answer: text of the reply.

    Raises:
        ValueError: another category; names the legal ones.
    """
    if category not in PYTHON_CATEGORIES:
        raise ValueError(
            f"category={category!r} is not checked here: {', '.join(PYTHON_CATEGORIES)}; the "
            "package's own checker takes the others (python -m benchmarks.bfcl score peer=…)"
        )
    try:
        calls: Decoded | None = decode(answer)
    except NotCalls:
        calls = None
    if "relevance" in category:
        called = bool(calls) and _well_formed(calls or [])
        if called == ("irrelevance" not in category):
            return Found()
        kind = "irrelevance_error:decoder_success" if called else "relevance_error:decoder_failed"
        return Found(kind)
    if calls is None:
        return Found("ast_decoder:decoder_failed")
    if not _well_formed(calls):
        return Found("ast_decoder:decoder_wrong_output_format")
    return checked(category, row["function"], gold, calls)


def checked(
    category: str, functions: Sequence[Mapping[str, Any]], gold: Sequence[Any], calls: Decoded
) -> Found:
    """Return the verdict on decoded calls."""
    parallel, multiple = "parallel" in category, "multiple" in category
    if parallel:
        return _in_any_order(functions, gold, calls)
    if multiple and len(calls) != len(gold):
        return Found("multiple_function_checker:wrong_count")
    if not multiple and len(calls) != 1:
        return Found("simple_function_checker:wrong_count")
    function = _described(functions, next(iter(gold[0]))) if multiple else functions[0]
    return _one(function, gold[0], calls[0])


def _in_any_order(
    functions: Sequence[Mapping[str, Any]], gold: Sequence[Any], calls: Decoded
) -> Found:
    """Match each allowed call with the first unused call that fits."""
    if len(calls) != len(gold):
        return Found("parallel_function_checker_no_order:wrong_count")
    unused = list(range(len(calls)))
    for allowed in gold:
        function = _described(functions, next(iter(allowed)))
        fits = next((i for i in unused if _one(function, allowed, calls[i]).valid), None)
        if fits is None:
            return Found("parallel_function_checker_no_order:cannot_find_match")
        unused.remove(fits)
    return Found()


def _one(function: Mapping[str, Any], gold: Mapping[str, Any], call: Mapping[str, Any]) -> Found:
    allowed: Mapping[str, Sequence[Any]] = next(iter(gold.values()))
    parameters = function["parameters"]
    if function["name"] not in call:
        return Found("simple_function_checker:wrong_func_name")
    given = call[function["name"]]
    if any(name not in given for name in parameters["required"]):
        return Found("simple_function_checker:missing_required")
    for name, value in given.items():
        if name not in parameters["properties"] or name not in allowed:
            return Found("simple_function_checker:unexpected_param")
        wrong = _argument(parameters["properties"][name], value, allowed[name])
        if wrong:
            return Found(wrong)
    if any(name not in given and "" not in values for name, values in allowed.items()):
        return Found("simple_function_checker:missing_optional")
    return Found()


def _argument(schema: Mapping[str, Any], value: Any, allowed: Sequence[Any]) -> str:
    """Return what is wrong with an argument, or ""."""
    declared = schema["type"]
    expected = TYPES[declared]
    inner = TYPES[schema["items"]["type"]] if declared in ("array", "tuple") else None
    if declared == "tuple" and type(value) is tuple:
        value = list(value)
    if declared == "float" and type(value) is int:
        value = float(value)
    wrong, is_variable = _typed(value, allowed, expected, inner)
    if wrong:
        return wrong
    if not is_variable:
        if expected is dict:
            return _record(value, allowed)
        if expected is list and inner is dict:
            return _records(value, allowed)
        if expected is str:
            texts = [_loose(each) for each in allowed if isinstance(each, str)]
            return "" if _loose(value) in texts else "value_error:string"
        if expected is list:
            lists = [[_loose(item) for item in each] for each in allowed]
            mine = [_loose(item) for item in value]
            return "" if mine in lists else "value_error:list/tuple"
    return "" if value in allowed else "value_error:others"


def _typed(
    value: Any, allowed: Sequence[Any], expected: type, inner: type | None
) -> tuple[str, bool]:
    """Return what is wrong with the type, or "", and whether the value stands for a variable."""
    answered = next((type(each) for each in allowed if each != ""), None)
    as_variable = answered is not None and answered is not expected
    wrong, given = "type_error:simple", type(value)
    if given is expected:
        if inner is None:
            return "", as_variable
        for each in allowed:
            items: Sequence[Any] = value if type(each) is list else ()
            if not any(_typed(item, each, inner, None)[0] for item in items):
                return "", as_variable
        wrong = "type_error:nested"
    if answered is not None and given is answered:
        return ("type_error:nested", True) if wrong == "type_error:nested" else ("", True)
    return "type_error:simple", False


def _record(value: Mapping[Any, Any], allowed: Sequence[Any]) -> str:
    wrong = "dict_checker:unclear"
    for each in allowed:
        if each == "":
            continue
        wrong = _record_as(value, each)
        if not wrong:
            return ""
    return wrong


def _record_as(value: Mapping[Any, Any], allowed: Mapping[Any, Sequence[Any]]) -> str:
    wrong = ""
    for key, item in value.items():
        if key not in allowed:
            wrong = "value_error:dict_key"
            break
        if _loose(item) not in [_loose(each) for each in allowed[key]]:
            wrong = "value_error:dict_value"
            break
    if any(key not in value and "" not in values for key, values in allowed.items()):
        return "value_error:dict_key"
    return wrong


def _records(value: Sequence[Any], allowed: Sequence[Any]) -> str:
    wrong = "list_dict_checker:unclear"
    for each in allowed:
        if len(value) != len(each):
            wrong = "value_error:list_dict_count"
            continue
        for mine, its in zip(value, each, strict=True):
            wrong = _record(mine, [its])
            if wrong:
                break
        else:
            return ""
    return wrong


def _loose(value: Any) -> Any:
    """Return a text without the differences that do not count, anything else as it is."""
    if not isinstance(value, str):
        return value
    return _LOOSE.sub("", value).lower().replace("'", '"')


def _well_formed(calls: Decoded) -> bool:
    return all(len(each) == 1 and isinstance(next(iter(each.values())), dict) for each in calls)


def _described(functions: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """Return a function's description. Raises ``KeyError``: the row describes no such function."""
    for function in functions:
        if function["name"] == name:
            return function
    raise KeyError(name)
