"""A quick yes for the keywords that nearly all tools use; whoever gets no asks ``jsonschema``.

A schema becomes closures once. Any other keyword anywhere, and there is no quick check for the
whole schema. Tests hold it against ``jsonschema`` on drawn schemas and values.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from envs.toolcall.patterns import longest

Quick = Callable[[Any], bool]
SILENT = {"description", "title", "default", "examples", "format", "$schema", "$comment"}
NUMBERS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda value, bound: bool(value >= bound),
    "maximum": lambda value, bound: bool(value <= bound),
    "exclusiveMinimum": lambda value, bound: bool(value > bound),
    "exclusiveMaximum": lambda value, bound: bool(value < bound),
}
SIZES: dict[str, Callable[[Any, Any], bool]] = {
    "min": lambda value, bound: len(value) >= bound,
    "max": lambda value, bound: len(value) <= bound,
}
KEYWORDS = {
    "string": {"enum", "minLength", "maxLength", "pattern"},
    "integer": set(NUMBERS),
    "number": set(NUMBERS),
    "boolean": set[str](),
    "array": {"items", "minItems", "maxItems"},
    "object": {"properties", "required", "additionalProperties"},
}


def quick(schema: Any) -> Quick | None:
    """Return a check that says yes for sure or "perhaps not"; None for other schemas."""
    if not isinstance(schema, Mapping):
        return None
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in KEYWORDS:
        return None
    if set(schema) - KEYWORDS[kind] - SILENT - {"type"}:
        return None
    match kind:
        case "string":
            return _text(schema)
        case "integer" | "number":
            return _number(schema, kind)
        case "boolean":
            return lambda value: isinstance(value, bool)
        case "array":
            return _array(schema)
    return _object(schema)


def _text(schema: Mapping[str, Any]) -> Quick | None:
    checks: list[Quick] = []
    if "enum" in schema:
        if not all(isinstance(each, str) for each in schema["enum"]):
            return None
        checks.append(frozenset(schema["enum"]).__contains__)
    checks += _sizes(schema, "Length")
    if "pattern" in schema:
        most, search = longest(schema["pattern"]), re.compile(schema["pattern"]).search
        checks.append(lambda value: len(value) <= most and search(value) is not None)
    return lambda value: isinstance(value, str) and all(check(value) for check in checks)


def _number(schema: Mapping[str, Any], kind: str) -> Quick:
    bounds = [(NUMBERS[key], schema[key]) for key in NUMBERS if key in schema]
    types = (int,) if kind == "integer" else (int, float)  # 1.0 is left to jsonschema

    def check(value: Any) -> bool:
        if not isinstance(value, types) or isinstance(value, bool):
            return False
        return all(fits(value, bound) for fits, bound in bounds)

    return check


def _array(schema: Mapping[str, Any]) -> Quick | None:
    sizes = _sizes(schema, "Items")
    item = quick(schema["items"]) if "items" in schema else lambda value: True
    if item is None:
        return None
    each = item
    return lambda value: (
        isinstance(value, list)
        and all(check(value) for check in sizes)
        and all(each(member) for member in value)
    )


def _object(schema: Mapping[str, Any]) -> Quick | None:
    closed = schema.get("additionalProperties", True)
    if not isinstance(closed, bool):
        return None
    fields: dict[str, Quick] = {}
    for name, inner in schema.get("properties", {}).items():
        made = quick(inner)
        if made is None:
            return None
        fields[name] = made
    required, free = frozenset(schema.get("required", ())), closed

    def check(value: Any) -> bool:
        if not isinstance(value, dict) or not required <= value.keys():
            return False
        for name, member in value.items():
            fits = fields.get(name)
            if fits is None:
                if not free:
                    return False
            elif not fits(member):
                return False
        return True

    return check


def _sizes(schema: Mapping[str, Any], noun: str) -> list[Quick]:
    def bounded(fits: Callable[[Any, Any], bool], bound: Any) -> Quick:
        return lambda value: fits(value, bound)

    return [bounded(SIZES[end], schema[end + noun]) for end in SIZES if end + noun in schema]
