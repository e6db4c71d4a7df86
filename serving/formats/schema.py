"""A parameter written without quotes becomes the value its tool's JSON schema declares.

Left out: validation beyond the type; a value of the right type is passed on as it is.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .jsontext import Malformed, value_of
from .protocol import Tool

PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}  # what templates in Jinja print


def parameters_of(tools: Sequence[Tool], function: str) -> Mapping[str, Any]:
    """Return the schema of a function's parameters; empty if there is none."""
    for tool in tools:
        if tool["function"]["name"] == function:
            schema = tool["function"].get("parameters")
            return schema if isinstance(schema, Mapping) else {}
    return {}


def converted(text: str, key: str, schema: Mapping[str, Any]) -> str:
    """Return a parameter's value as JSON text, the model's own where it is JSON.

    Args:
        text: as the model wrote it.
        key: the parameter's name.
        schema: of the function's parameters.

    Raises:
        Malformed: no declared type fits, and string is not among them.
    """
    properties = schema.get("properties")
    declared = properties.get(key) if isinstance(properties, Mapping) else None
    types = _types(declared, schema) if isinstance(declared, Mapping) else set()
    if types - {"string"}:
        own = PYTHON_WORDS.get(text.strip(), text).strip()
        try:
            value = value_of(own)
        except Malformed:
            value = text
        if isinstance(value, float) and value.is_integer() and "number" not in types:
            value = int(value)
            own = str(value)
        if not isinstance(value, str) and _kinds(value) & types:
            return own
    if not types or "string" in types:
        return json.dumps(text, ensure_ascii=False)
    raise Malformed(f"parameter {key[:64]!r} is not of type {' or '.join(sorted(types))}")


def _kinds(value: Any) -> set[str]:
    """Return the JSON schema types a value is of."""
    match value:
        case None:
            return {"null"}
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float():
            return {"number"}
        case list():
            return {"array"}
        case dict():
            return {"object"}
        case _:
            return {"string"}


def _types(declared: Mapping[str, Any], root: Mapping[str, Any], depth: int = 8) -> set[str]:
    """Return the types a schema allows; empty if it says nothing about them."""
    reference = declared.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/") and depth:
        found: Any = root
        for step in reference[2:].split("/"):
            found = found.get(step) if isinstance(found, Mapping) else None
        return _types(found, root, depth - 1) if isinstance(found, Mapping) else set()
    own = declared.get("type")
    if isinstance(own, str):
        return {own}
    if isinstance(own, list):
        return {kind for kind in own if isinstance(kind, str)}
    if isinstance(declared.get("enum"), list):
        return set().union(*map(_kinds, declared["enum"]))
    types: set[str] = set()
    for key in ("anyOf", "oneOf", "allOf"):
        options = declared.get(key)
        for option in options if isinstance(options, list) and depth else ():
            if isinstance(option, Mapping):
                types |= _types(option, root, depth - 1)
    return types
