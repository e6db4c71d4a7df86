"""Calls out of a reply as BFCL's prompt mode has it: ``[f(a=1), g.h(b="x")]``.

Reads what the package's Python decoder reads, and nothing of it is ever evaluated: where the
package hands an operation to ``eval``, only arithmetic on literals is done here, in bounds.
Positional arguments are dropped, names stand for themselves, a call as a value without keywords is
its text.
"""

import ast
import operator
from typing import Any

MAX_CHARS = 100_000
MAX_RESULT = 100_000
_OPERATIONS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}  # fmt: skip

Decoded = list[dict[str, Any]]


class NotCalls(ValueError):
    """A reply that does not decode. Says why."""


def decode(text: str) -> Decoded:
    """Return ``[{name: {argument: value}}, …]``.

    Raises:
        NotCalls: it does not decode.

    Example:
        >>> decode("[area(base=3, unit='cm')]")
        [{'area': {'base': 3, 'unit': 'cm'}}]
    """
    if len(text) > MAX_CHARS:
        raise NotCalls(f"{len(text)} characters; at most {MAX_CHARS}")
    text = text.strip("`\n ")
    text = text if text.startswith("[") else f"[{text}"
    text = text if text.endswith("]") else f"{text}]"
    try:
        tree = ast.parse(text.strip().strip("'"), mode="eval").body
        if isinstance(tree, ast.Call):
            return [_call(tree)]
        if not isinstance(tree, ast.List | ast.Tuple | ast.Set):
            raise NotCalls("no list of calls")
        return [_call(each) for each in tree.elts]
    except NotCalls:
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, ArithmeticError) as e:
        raise NotCalls(f"{type(e).__name__}: {e}"[:200]) from None


def _call(tree: ast.expr) -> dict[str, Any]:
    if not isinstance(tree, ast.Call):
        raise NotCalls("something in the list is no call")
    parts: list[str] = []
    place = tree.func
    while isinstance(place, ast.Attribute):
        parts.append(place.attr)
        place = place.value
    if isinstance(place, ast.Name):
        parts.append(place.id)
    arguments: dict[Any, Any] = {each.arg: _value(each.value) for each in tree.keywords}
    return {".".join(reversed(parts)): arguments}


def _value(tree: ast.expr | None) -> Any:
    match tree:
        case ast.Constant(value=value):
            return "..." if value is Ellipsis else value
        case ast.UnaryOp(operand=ast.Constant(value=int() | float() | complex())):
            return -tree.operand.value  # type: ignore[attr-defined]
        case ast.List():
            return [_value(each) for each in tree.elts]
        case ast.Tuple():
            return tuple(_value(each) for each in tree.elts)
        case ast.Dict():
            return {_value(key): _value(value)
                    for key, value in zip(tree.keys, tree.values, strict=True)}  # fmt: skip
        case ast.BinOp():
            return _computed(tree)
        case ast.Name(id=name):
            return name
        case ast.Call():
            return _call(tree) if tree.keywords else ast.unparse(tree)
        case ast.Subscript():
            return f"{ast.unparse(tree.value)}[{ast.unparse(tree.slice)}]"
    raise NotCalls(f"a value of the kind {type(tree).__name__}")


def _computed(tree: ast.expr) -> Any:
    """Return what literals joined by operators make."""
    match tree:
        case ast.Constant(value=value):
            return value
        case ast.List():
            return [_computed(each) for each in tree.elts]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            value = _computed(tree.operand)
            return -value if isinstance(tree.op, ast.USub) else +value
        case ast.BinOp():
            left, right = _computed(tree.left), _computed(tree.right)
            operation = _OPERATIONS.get(type(tree.op))
            if operation is None or not _is_small(tree.op, left, right):
                raise NotCalls("an operation that is not computed")
            return operation(left, right)
    raise NotCalls("an operation on something other than literals")


def _is_small(operation: ast.operator, left: Any, right: Any) -> bool:
    if isinstance(operation, ast.Pow):
        return bool(abs(left) < 10**6 and abs(right) < 64)
    if isinstance(operation, ast.Mult):
        sized = [each for each in (left, right) if isinstance(each, str | bytes | list)]
        counts = [each for each in (left, right) if isinstance(each, int)]
        return not sized or not counts or len(sized[0]) * counts[0] < MAX_RESULT
    return not (isinstance(operation, ast.Mod) and isinstance(left, str | bytes))
