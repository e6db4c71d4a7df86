"""Answers in mathematics, read strictly and compared exactly.

A text is read by Python's grammar and only numbers, + - * / **, sets, tuples, ``sqrt`` and the
names the task knows are taken; nothing of it is ever evaluated as code. What it means is a sympy
value: 3/4, 0.75 and 6/8 are equal, 0.333 and 1/3 are not. Bounds on length, depth, digits and
exponents keep any text cheap. Forms: ``number``, ``set``, ``tuple``, ``expression``.
"""

import ast
import re
from collections.abc import Sequence
from typing import Any

MAX_CHARS = 1000
MAX_DIGITS = 400
MAX_EXPONENT = 64
MAX_ITEMS = 200
MAX_TERMS = 2000
FORMS = ("number", "set", "tuple", "expression")
_WRAPPED = re.compile(r"\A(?:\\boxed\{(.*)\}|\$(.*)\$|`(.*)`)\.?\Z", re.DOTALL)


class BadAnswer(ValueError):
    """Text that is no answer of the form asked for. Says why."""


def read(text: str, form: str, names: Sequence[str] = ()) -> Any:
    """Return what an answer means: a sympy value, or a frozenset or tuple of such.

    Raises:
        BadAnswer: it is none.
        ValueError: a form that is none.

    Example:
        >>> read("6/8", "number") == read("0.75", "number")
        True
        >>> read("{3, 1, 3}", "set") == read("1, 3", "set")
        True
    """
    if form not in FORMS:
        raise ValueError(f"form={form!r}: choose one of {', '.join(FORMS)}")
    text = text.strip()
    if len(text) > MAX_CHARS:
        raise BadAnswer(f"{len(text)} characters; at most {MAX_CHARS}")
    while wrapped := _WRAPPED.match(text):
        text = next(part for part in wrapped.groups() if part is not None).strip()
    text = text.rstrip(".").replace("^", "**").replace("−", "-")
    if not text:
        raise BadAnswer("there is no answer")
    try:
        tree = ast.parse(text, mode="eval").body
        items = _items(tree, form)
        values = [_value(item, names, depth=0) for item in items]
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError) as error:
        if isinstance(error, BadAnswer):
            raise
        raise BadAnswer(f"{text[:60]!r} is no {form}") from None
    if form == "set":
        return frozenset(values)
    return tuple(values) if form == "tuple" else values[0]


def equal(text: str, wanted: str, form: str, names: Sequence[str] = ()) -> bool:
    """True when an answer means what is wanted. Raises ``BadAnswer``: the answer is none."""
    answered, right = read(text, form, names), read(wanted, form, names)
    return bool(answered == right)


def _items(tree: ast.expr, form: str) -> Sequence[ast.expr]:
    items: Sequence[ast.expr] = [tree]
    if form == "set" and isinstance(tree, ast.Set | ast.List | ast.Tuple):
        items = tree.elts
    elif form == "set" and _is_empty_set(tree):
        items = []
    elif form == "tuple" and isinstance(tree, ast.Tuple | ast.List):
        items = tree.elts
    if len(items) > MAX_ITEMS:
        raise BadAnswer(f"{len(items)} items; at most {MAX_ITEMS}")
    return items


def _is_empty_set(tree: ast.expr) -> bool:
    if isinstance(tree, ast.Dict):
        return not tree.keys
    named = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)
    return named and ast.unparse(tree) == "set()"


def _value(tree: ast.expr, names: Sequence[str], depth: int) -> Any:
    """Return the sympy value of a node, expanded."""
    import sympy

    if depth > 60:
        raise BadAnswer("nested too deep")
    match tree:
        case ast.Constant(value=bool(given)):
            raise BadAnswer(f"{given} is no number")
        case ast.Constant(value=int(given)):
            return sympy.Integer(_bounded(given))
        case ast.Constant(value=float(given)):
            return _decimal(given)
        case ast.Name(id=name) if name in names:
            return sympy.Symbol(name)
        case ast.UnaryOp(op=ast.USub()):
            return -_value(tree.operand, names, depth + 1)
        case ast.UnaryOp(op=ast.UAdd()):
            return _value(tree.operand, names, depth + 1)
        case ast.Call(func=ast.Name(id="Fraction"), args=[above, below], keywords=[]):
            return _combined(ast.Div(), _value(above, names, depth + 1),
                             _value(below, names, depth + 1))  # fmt: skip
        case ast.Call(func=ast.Name(id="sqrt"), args=[inner], keywords=[]):
            root = _value(inner, names, depth + 1)
            if not root.is_Rational or root < 0 or root > 10**12:
                raise BadAnswer("sqrt of a rational number up to 10**12 only")
            return sympy.sqrt(root)
        case ast.BinOp():
            left = _value(tree.left, names, depth + 1)
            return _combined(tree.op, left, _value(tree.right, names, depth + 1))
    raise BadAnswer(f"{ast.unparse(tree)[:40]!r} is not understood")


def _decimal(given: float) -> Any:
    from fractions import Fraction

    import sympy

    if not abs(given) < 1e15 or (given and abs(given) < 1e-15):
        raise BadAnswer("a decimal number this large or small is not exact; write it as a fraction")
    value = Fraction(repr(given))
    return sympy.Rational(value.numerator, value.denominator)


def _combined(operator: ast.operator, left: Any, right: Any) -> Any:
    import sympy

    match operator:
        case ast.Add():
            made = left + right
        case ast.Sub():
            made = left - right
        case ast.Mult():
            if _terms(left) * _terms(right) > MAX_TERMS:
                raise BadAnswer("too many terms")
            made = sympy.expand(left * right)
        case ast.Div():
            if not right.is_number:
                raise BadAnswer("division by an expression")
            if right == 0:
                raise BadAnswer("division by zero")
            made = sympy.expand(sympy.radsimp(left / right))
        case ast.Pow():
            made = _power(left, right)
        case _:
            raise BadAnswer("only + - * / ** are understood")
    if made.is_Rational:
        _bounded(made.p)
        _bounded(made.q)
    return made


def _power(base: Any, exponent: Any) -> Any:
    import sympy

    whole = exponent.is_Integer and abs(exponent) <= (2000 if base.is_Rational else MAX_EXPONENT)
    if not whole or (exponent < 0 and (not base.is_number or base == 0)):
        raise BadAnswer("this power is not understood")
    if base.is_Rational:
        digits = max(len(str(base.p)), len(str(base.q))) * abs(int(exponent))
        if digits > 2 * MAX_DIGITS and abs(base) != 1:
            raise BadAnswer("a power this large is not read; write the number")
    elif _terms(base) > 1 and (_terms(base) > 8 or exponent > 16):
        raise BadAnswer("a power of so long a sum is not read; expand it")
    return sympy.expand(base**exponent)


def _terms(value: Any) -> int:
    return len(value.args) if value.is_Add else 1


def _bounded(value: int) -> int:
    if abs(int(value)) >= 10**MAX_DIGITS:
        raise BadAnswer(f"a number of more than {MAX_DIGITS} digits")
    return value
