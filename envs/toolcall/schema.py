"""A JSON Schema, compiled once: refused where it could do harm, then fast.

Draft 2020-12 by ``jsonschema``. Refused at once, by name: what is no schema, other dialects,
references to elsewhere or to nothing, references that lead back to themselves without a step into
the value, patterns that may take for ever, ``unevaluated*`` and dynamic references. A recursive
schema is fine: values have a limited depth, and a check has a limited number of steps.
Left out: ``format``, which the draft makes an annotation.
"""

import functools
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError as InvalidSchema
from jsonschema.exceptions import ValidationError, relevance
from jsonschema.validators import extend
from referencing import Registry

from envs.errors import TaskError
from envs.toolcall.failures import Failure, FailureKind
from envs.toolcall.patterns import UnsafePattern, longest
from envs.toolcall.quick import quick
from envs.toolcall.strict import depth_of, shown

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_SCHEMA_BYTES = 128 * 1024
MAX_SCHEMA_DEPTH = 48
MAX_STEPS = 50_000  # keywords applied in one check, about 0.2 s
UNSUPPORTED = ("unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef")
ONE = ("not", "if", "then", "else")
MANY = ("allOf", "anyOf", "oneOf")
DEEPER_ONE = ("items", "contains", "additionalProperties", "propertyNames")
DEEPER_MAPS = ("properties", "patternProperties", "$defs", "definitions")

Check = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]


class SchemaError(TaskError):
    """A schema that cannot be used; names what and where."""


class _TooManySteps(Exception):
    """A check took more steps than are granted."""


_steps = threading.local()


def _counted(check: Check) -> Check:
    def run(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        _steps.left -= 1
        if _steps.left < 0:
            raise _TooManySteps
        return check(validator, value, instance, schema)

    return run


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str):
        most = longest_text(pattern)
        if len(instance) > most:
            yield ValidationError(f"longer than the {most} characters the pattern is tried on")
        elif not re.search(pattern, instance):
            yield ValidationError(f"does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, inner in patterns.items():
        most = longest_text(pattern)
        for key, value in instance.items():
            if len(key) <= most and re.search(pattern, key):
                yield from validator.descend(value, inner, path=key, schema_path=pattern)


def _additional(validator: Any, allowed: Any, instance: Any, schema: Any) -> Any:
    """As ``jsonschema``, but a key too long for the patterns matches none of them."""
    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for key, value in instance.items():
        if key in known or any(len(key) <= longest_text(p) and re.search(p, key) for p in patterns):
            continue
        if allowed is False:
            yield ValidationError(f"{shown(key)} is not a field of it")
        elif allowed is not True:
            yield from validator.descend(value, allowed, path=key)


def _unique(validator: Any, wanted: bool, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """In linear time: ``jsonschema`` compares each with each where items cannot be sorted."""
    if wanted and isinstance(instance, list):
        keys = [json.dumps(_plain(item), sort_keys=True) for item in instance]
        if len(set(keys)) < len(keys):
            yield ValidationError("holds an item twice")


def _plain(value: Any) -> Any:
    """Return a value in which 1.0 is 1, as JSON Schema compares them."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


longest_text = functools.lru_cache(4096)(longest)

_OWN: dict[str, Check] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "uniqueItems": _unique,
}
_Validator = extend(
    Draft202012Validator,
    {name: _counted(check) for name, check in {**Draft202012Validator.VALIDATORS, **_OWN}.items()},
)


class Checker:
    """A compiled schema.

    Args:
        schema: plain JSON values; not changed afterwards.

    Raises:
        SchemaError: see the module.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        _refuse(schema)
        self._validator = _Validator(dict(schema), registry=Registry())
        self._quick = quick(schema)

    def failure(self, value: Any) -> Failure | None:
        """Return what is wrong with a value, the most telling error first; None if nothing is."""
        if self._quick is not None and self._quick(value):
            return None
        _steps.left = MAX_STEPS
        try:
            if self._validator.is_valid(value):
                return None
            _steps.left = MAX_STEPS
            return _explain(min(self._errors(value), key=_rank))
        except _TooManySteps:
            message = f"checking it takes more than {MAX_STEPS} steps; make it smaller"
            return Failure(FailureKind.UNCHECKABLE, message)
        except (RecursionError, OverflowError) as error:
            return Failure(FailureKind.UNCHECKABLE, f"it cannot be checked: {error}")

    def _errors(self, value: Any) -> Iterator[ValidationError]:
        for number, error in enumerate(self._validator.iter_errors(value)):
            yield error
            if number == 50:
                return


@functools.lru_cache(4096)
def compiled(text: str) -> Checker:
    """Return the checker of a schema as JSON text, the same one for equal texts."""
    return Checker(json.loads(text))


def _rank(error: ValidationError) -> tuple[int, int, int]:
    order = ("required", "additionalProperties", "type")
    kind = str(error.validator)
    return (len(error.path), order.index(kind) if kind in order else 3, -relevance(error)[0])


# ------------------------------------------------------------- explaining


def _explain(error: ValidationError) -> Failure:
    """Say where it is, what stands there and what should."""
    while error.validator in ("anyOf", "oneOf") and error.context:
        inner = _closest(error)
        if inner is None:
            break
        error = inner
    path, keyword = _path(error), str(error.validator)
    value, wanted = error.instance, error.validator_value
    if keyword == "required":
        missing = [key for key in wanted if key not in value]
        where = f" of {path}" if path else ""
        names = ", ".join(shown(key) for key in missing)
        message = (
            f"the field {names}{where} is missing"
            if len(missing) == 1
            else (f"the fields {names}{where} are missing")
        )
        return Failure(FailureKind.MISSING_FIELD, message, path, expected=names)
    if keyword == "additionalProperties" and wanted is False:
        schema = error.schema if isinstance(error.schema, Mapping) else {}
        known = ", ".join(schema.get("properties", {})) or "none"
        return Failure(
            FailureKind.EXTRA_FIELD,
            f"{error.message}; its fields are {known[:200]}",
            path,
            expected=known[:200],
        )
    kind, expected = _expected(keyword, wanted)
    message = f"{path or 'the arguments'} is {shown(value)}; expected {expected}"
    if keyword == "pattern":
        message = f"{path or 'the text'} is {shown(value)}; {error.message}"
    return Failure(kind, message, path, shown(value), expected)


def _closest(error: ValidationError) -> ValidationError | None:
    """Return the deepest error of an alternative, if one is meant for sure."""
    deepest = max(error.context, key=lambda each: len(each.absolute_path))
    return deepest if len(deepest.absolute_path) > len(error.absolute_path) else None


def _path(error: ValidationError) -> str:
    text = ""
    for step in error.absolute_path:
        text += f"[{step}]" if isinstance(step, int) else f"{'.' if text else ''}{step[:64]}"
    return text[:200]


def _expected(keyword: str, wanted: Any) -> tuple[FailureKind, str]:
    match keyword:
        case "type":
            kinds = wanted if isinstance(wanted, list) else [wanted]
            return FailureKind.WRONG_TYPE, " or ".join(map(str, kinds))
        case "enum":
            return FailureKind.WRONG_VALUE, f"one of {shown(wanted, 300)[1:-1]}"
        case "const":
            return FailureKind.WRONG_VALUE, shown(wanted)
        case "minimum" | "exclusiveMinimum":
            return (
                FailureKind.OUT_OF_RANGE,
                f"{'at least' if keyword[0] == 'm' else 'more than'} {wanted}",
            )
        case "maximum" | "exclusiveMaximum":
            return (
                FailureKind.OUT_OF_RANGE,
                f"{'at most' if keyword[0] == 'm' else 'less than'} {wanted}",
            )
        case "multipleOf":
            return FailureKind.OUT_OF_RANGE, f"a multiple of {wanted}"
        case "minLength" | "maxLength":
            return FailureKind.WRONG_FORM, f"{_bound(keyword)} {wanted} characters"
        case "minItems" | "maxItems":
            return FailureKind.WRONG_FORM, f"{_bound(keyword)} {wanted} items"
        case "pattern":
            return FailureKind.WRONG_FORM, f"a text that matches {str(wanted)[:100]}"
        case "uniqueItems":
            return FailureKind.WRONG_FORM, "items that differ"
    return FailureKind.WRONG_SHAPE, f"{keyword} {shown(wanted)}"


def _bound(keyword: str) -> str:
    return "at least" if keyword.startswith("min") else "at most"


# ------------------------------------------------------------- refusing


def _refuse(schema: Mapping[str, Any]) -> None:
    """Raise ``SchemaError`` for a schema that cannot be used."""
    if depth_of(schema, MAX_SCHEMA_DEPTH) > MAX_SCHEMA_DEPTH:
        raise SchemaError(f"a schema nested deeper than {MAX_SCHEMA_DEPTH} levels")
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise SchemaError(f"a schema must hold JSON values: {error}") from None
    if size > MAX_SCHEMA_BYTES:
        raise SchemaError(f"a schema of {size} bytes; {MAX_SCHEMA_BYTES} at most")
    if schema.get("$schema", DIALECT).rstrip("#") != DIALECT:
        raise SchemaError(f"$schema={shown(schema['$schema'])}: only {DIALECT} is read")
    try:
        Draft202012Validator.check_schema(schema)
    except InvalidSchema as error:
        raise SchemaError(f"no schema: {error.message[:200]}, at {_path(error) or '/'}") from None
    seen: dict[int, bool] = {}
    for place, each in _subschemas(schema, "#"):
        _refuse_here(place, each, schema)
        _refuse_circle(place, each, schema, seen)


def _refuse_here(place: str, each: Mapping[str, Any], root: Mapping[str, Any]) -> None:
    for key in UNSUPPORTED:
        if key in each:
            raise SchemaError(f"{key} at {place} is not supported")
    if "$id" in each and each is not root:
        raise SchemaError(f"$id at {place}: only the whole schema may have one")
    if "$ref" in each:
        _target(each["$ref"], root)
    try:
        for pattern in [*each.get("patternProperties", ()), *filter(None, [each.get("pattern")])]:
            longest_text(pattern)
    except UnsafePattern as error:
        raise SchemaError(f"{error}, at {place}") from None


def _subschemas(schema: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(schema, Mapping):
        return
    yield place, schema
    for key in (*ONE, *DEEPER_ONE):
        yield from _subschemas(schema.get(key), f"{place}/{key}")
    for key in (*MANY, "prefixItems"):
        for number, inner in enumerate(schema.get(key, ())):
            yield from _subschemas(inner, f"{place}/{key}/{number}")
    for key in (*DEEPER_MAPS, "dependentSchemas"):
        for name, inner in schema.get(key, {}).items():
            yield from _subschemas(inner, f"{place}/{key}/{name}")


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    """Return what a reference means. Raises ``SchemaError``: elsewhere, or nothing."""
    if not reference.startswith("#"):
        raise SchemaError(f"$ref {shown(reference)} leads elsewhere; only # is followed")
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        for _, each in _subschemas(root, "#"):
            if each.get("$anchor") == reference[1:]:
                return each
        raise SchemaError(f"$ref {shown(reference)} leads to nothing")
    found: Any = root
    for step in reference[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        else:
            raise SchemaError(f"$ref {shown(reference)} leads to nothing")
    if not isinstance(found, Mapping | bool):
        raise SchemaError(f"$ref {shown(reference)} leads to no schema")
    return found


def _refuse_circle(place: str, each: Any, root: Mapping[str, Any], seen: dict[int, bool]) -> None:
    """Raise ``SchemaError`` if a schema leads back to itself with the same value in hand.

    Args:
        seen: by identity: False while it is being looked at, True once it is known to be fine.
    """
    if not isinstance(each, Mapping) or seen.get(id(each)):
        return
    if id(each) in seen:
        raise SchemaError(f"$ref at {place} leads back to itself without a step into the value")
    seen[id(each)] = False
    beside = [each[key] for key in ONE if key in each]
    beside += [inner for key in MANY for inner in each.get(key, ())]
    beside += each.get("dependentSchemas", {}).values()
    if "$ref" in each:
        beside.append(_target(each["$ref"], root))
    for inner in beside:
        _refuse_circle(place, inner, root, seen)
    seen[id(each)] = True
