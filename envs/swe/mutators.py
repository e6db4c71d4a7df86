"""The kinds of bug: for one node of a syntax tree, the texts that could stand there by mistake.

Each kind is a function ``(node, place) -> (start, end, new)…`` over byte offsets of the file; a
mistake is written into the text, so that layout and comments stay. ``KINDS`` names them all. What
comes out may be no Python or mean the same: ``mutations`` sees to that.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Change = tuple[int, int, str]

_OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "%"), ast.Mod: ("%", "//"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"),
}  # fmt: skip
_COMPARISONS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"), ast.Is: ("is", "is not"), ast.IsNot: (r"is\s+not", "is"),
}  # fmt: skip
_CALLS = {
    "max": "min", "min": "max", "any": "all", "all": "any", "upper": "lower", "lower": "upper",
    "startswith": "endswith", "endswith": "startswith", "strip": "lstrip", "lstrip": "rstrip",
    "rstrip": "strip", "split": "rsplit", "rsplit": "split", "find": "rfind", "rfind": "find",
    "partition": "rpartition", "rpartition": "partition", "append": "extend", "extend": "append",
    "match": "search", "search": "match", "fullmatch": "match", "keys": "values", "floor": "ceil",
    "ceil": "floor", "union": "intersection", "add": "discard", "update": "setdefault",
}  # fmt: skip
_WRAPPERS = frozenset(
    ("abs", "bool", "bytes", "dict", "float", "frozenset", "int", "iter", "list", "reversed",
     "round", "set", "sorted", "str", "tuple")
)  # fmt: skip
_EXCEPTIONS = {
    "ValueError": "TypeError", "TypeError": "ValueError", "KeyError": "IndexError",
    "IndexError": "KeyError", "AttributeError": "KeyError", "StopIteration": "IndexError",
    "NotImplementedError": "ValueError", "OSError": "ValueError", "ImportError": "OSError",
    "RuntimeError": "ValueError", "UnicodeDecodeError": "KeyError", "LookupError": "ValueError",
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where a node stands.

    Attributes:
        data: the file's bytes.
        starts: offset of each line's first byte.
        names: names the function sets or takes, sorted.
        attributes: attributes of ``self`` that its class reads, sorted.
    """

    data: bytes
    starts: tuple[int, ...]
    names: tuple[str, ...]
    attributes: tuple[str, ...]

    def start(self, node: ast.expr | ast.stmt | ast.keyword | ast.excepthandler) -> int:
        """Return the offset of a node's first byte."""
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt | ast.keyword | ast.excepthandler) -> int:
        """Return the offset behind a node's last byte."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        """Return a node's text."""
        return self.data[self.start(node) : self.end(node)].decode("utf-8")

    def whole(self, node: ast.expr | ast.stmt, new: str) -> Change:
        """Return the change of a whole node."""
        return self.start(node), self.end(node), new

    def between(self, left: ast.expr, right: ast.expr, pattern: str, new: str) -> Iterator[Change]:
        """Yield the change of the operator between two operands."""
        begin = self.end(left)
        gap = self.data[begin : self.start(right)].decode("utf-8")
        found = re.fullmatch(rf"[\s()\\]*?({pattern})[\s()\\]*", gap)
        if found:
            yield begin + len(gap[: found.start(1)]), begin + len(gap[: found.end(1)]), new


def _arithmetic(node: ast.AST, at: Place) -> Iterator[Change]:
    match node:
        case ast.BinOp() if not _is_text(node.left) and not _is_text(node.right):
            if type(node.op) in _OPERATORS:
                old, new = _OPERATORS[type(node.op)]
                yield from at.between(node.left, node.right, re.escape(old), new)
        case ast.AugAssign() if type(node.op) in _OPERATORS and not _is_text(node.value):
            old, new = _OPERATORS[type(node.op)]
            yield from at.between(node.target, node.value, re.escape(old) + "=", new + "=")


def _comparison(node: ast.AST, at: Place) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for left, op, right in zip(operands, node.ops, operands[1:], strict=False):
            old, new = _COMPARISONS[type(op)]
            yield from at.between(left, right, old, new)


def _boolean(node: ast.AST, at: Place) -> Iterator[Change]:
    if isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from at.between(left, right, old, new)


def _dropped_condition(node: ast.AST, at: Place) -> Iterator[Change]:
    if isinstance(node, ast.BoolOp):
        for kept in node.values:
            yield at.whole(node, at.text(kept))


def _negation(node: ast.AST, at: Place) -> Iterator[Change]:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        test = node.test
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yield at.whole(test, at.text(test.operand))
        else:
            plain = isinstance(test, ast.Name | ast.Attribute | ast.Call)
            yield at.whole(test, f"not {at.text(test)}" if plain else f"not ({at.text(test)})")


def _constant(node: ast.AST, at: Place) -> Iterator[Change]:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield at.whole(node, str(not node.value))
        elif isinstance(node.value, int) and at.text(node).isdigit() and node.value > 1:
            yield at.whole(node, str(node.value + 1))
            yield at.whole(node, str(node.value - 1))


def _off_by_one(node: ast.AST, at: Place) -> Iterator[Change]:
    match node:
        case ast.BinOp(op=ast.Add() | ast.Sub(), right=ast.Constant(value=1)):
            yield at.whole(node, at.text(node.left))
        case ast.Call(func=ast.Name(id="len"), args=[_]):
            yield at.whole(node, f"({at.text(node)} - 1)")
        case ast.Call(func=ast.Name(id="range"), args=[*_, last]) if len(node.args) < 3:
            yield at.whole(last, f"{at.text(last)} - 1")
        case ast.Subscript(slice=ast.Constant(value=0) as index) if index.value is not False:
            yield at.whole(index, "1")
        case ast.Subscript(slice=ast.UnaryOp() as index) if at.text(index) == "-1":
            yield at.whole(index, "-2")
            yield at.whole(index, "0")


def _wrong_name(node: ast.AST, at: Place) -> Iterator[Change]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in at.names:
        place = at.names.index(node.id)
        for other in {at.names[place - 1], at.names[(place + 1) % len(at.names)]} - {node.id}:
            yield at.whole(node, other)


def _wrong_attribute(node: ast.AST, at: Place) -> Iterator[Change]:
    match node:
        case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Load(), attr=name):
            if name in at.attributes and len(at.attributes) > 1:
                other = at.attributes[at.attributes.index(name) - 1]
                yield at.whole(node, f"self.{other}")


def _swapped_arguments(node: ast.AST, at: Place) -> Iterator[Change]:
    if isinstance(node, ast.Call) and not any(isinstance(a, ast.Starred) for a in node.args):
        for left, right in zip(node.args, node.args[1:], strict=False):
            middle = at.data[at.end(left) : at.start(right)].decode("utf-8")
            swapped = f"{at.text(right)}{middle}{at.text(left)}"
            yield at.start(left), at.end(right), swapped


def _dropped_branch(node: ast.AST, at: Place) -> Iterator[Change]:
    if isinstance(node, ast.If):
        if node.orelse:
            yield at.end(node.body[-1]), at.end(node.orelse[-1]), ""
        elif at.data[at.start(node) : at.start(node) + 2] == b"if":
            yield at.whole(node, "pass")


def _dropped_call(node: ast.AST, at: Place) -> Iterator[Change]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield at.whole(node, "pass")


def _dropped_statement(node: ast.AST, at: Place) -> Iterator[Change]:
    match node:
        case ast.AugAssign() | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield at.whole(node, "pass")
        case ast.Assign(targets=[ast.Name(id=name)]):
            if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node.value)):
                yield at.whole(node, "pass")


def _unwrapped_call(node: ast.AST, at: Place) -> Iterator[Change]:
    match node:
        case ast.Call(func=ast.Name(id=name), args=[only], keywords=[]) if name in _WRAPPERS:
            if not isinstance(only, ast.GeneratorExp | ast.Starred):
                yield at.whole(node, at.text(only))
        case ast.Call(func=ast.Attribute(value=ast.expr() as value), args=[], keywords=[]):
            if not isinstance(value, ast.Constant) and at.text(value) != "self":
                yield at.whole(node, at.text(value))


def _wrong_call(node: ast.AST, at: Place) -> Iterator[Change]:
    match node:
        case ast.Call(func=ast.Name(id=name) as place) if name in _CALLS:
            yield at.whole(place, _CALLS[name])
        case ast.Call(func=ast.Attribute(attr=name) as place) if name in _CALLS:
            yield at.end(place) - len(name), at.end(place), _CALLS[name]


def _dropped_keyword(node: ast.AST, at: Place) -> Iterator[Change]:
    if isinstance(node, ast.Call):
        before: ast.expr | ast.keyword = node.args[-1] if node.args else node.func
        for keyword in node.keywords:
            if keyword.arg is not None and before is not node.func:
                yield at.end(before), at.end(keyword), ""
            before = keyword


def _wrong_default(node: ast.AST, at: Place) -> Iterator[Change]:
    if isinstance(node, ast.FunctionDef):
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if isinstance(default, ast.Constant):
                value = default.value
                if isinstance(value, bool):
                    yield at.whole(default, str(not value))
                elif isinstance(value, int):
                    yield at.whole(default, str(value + 1))
                elif isinstance(value, str):
                    yield at.whole(default, "None" if value else "' '")


def _wrong_exception(node: ast.AST, at: Place) -> Iterator[Change]:
    match node:
        case ast.Raise(exc=ast.Name(id=name) as place) if name in _EXCEPTIONS:
            yield at.whole(place, _EXCEPTIONS[name])
        case ast.Raise(exc=ast.Call(func=ast.Name(id=name) as place)) if name in _EXCEPTIONS:
            yield at.whole(place, _EXCEPTIONS[name])
        case ast.ExceptHandler(type=ast.Name(id=name) as place) if name in _EXCEPTIONS:
            yield at.whole(place, _EXCEPTIONS[name])
        case ast.ExceptHandler(type=ast.Tuple(elts=[_, _, *_] as names) as place):
            for kept in names:
                yield at.whole(place, at.text(kept))


def _slice_bound(node: ast.AST, at: Place) -> Iterator[Change]:
    if isinstance(node, ast.Slice):
        for bound in (node.lower, node.upper):
            if bound is not None:
                yield at.whole(bound, "")
                yield at.whole(bound, f"{at.text(bound)} + 1")


def _missing_return(node: ast.AST, at: Place) -> Iterator[Change]:
    if isinstance(node, ast.Return) and node.value is not None:
        if isinstance(node.value, ast.Call):
            yield at.whole(node, at.text(node.value))
        elif not isinstance(node.value, ast.Constant):
            yield at.whole(node, "pass")


def _loop_jump(node: ast.AST, at: Place) -> Iterator[Change]:
    match node:
        case ast.Break():
            yield at.whole(node, "continue")
        case ast.Continue():
            yield at.whole(node, "break")


def _swapped_choice(node: ast.AST, at: Place) -> Iterator[Change]:
    if isinstance(node, ast.IfExp):
        middle = at.data[at.end(node.body) : at.start(node.orelse)].decode("utf-8")
        yield at.whole(node, f"{at.text(node.orelse)}{middle}{at.text(node.body)}")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


KINDS: dict[str, Callable[[ast.AST, Place], Iterator[Change]]] = {
    "arithmetic": _arithmetic,
    "boolean": _boolean,
    "comparison": _comparison,
    "constant": _constant,
    "dropped-branch": _dropped_branch,
    "dropped-call": _dropped_call,
    "dropped-condition": _dropped_condition,
    "dropped-keyword": _dropped_keyword,
    "dropped-statement": _dropped_statement,
    "loop-jump": _loop_jump,
    "missing-return": _missing_return,
    "negation": _negation,
    "off-by-one": _off_by_one,
    "slice-bound": _slice_bound,
    "swapped-arguments": _swapped_arguments,
    "swapped-choice": _swapped_choice,
    "unwrapped-call": _unwrapped_call,
    "wrong-attribute": _wrong_attribute,
    "wrong-call": _wrong_call,
    "wrong-default": _wrong_default,
    "wrong-exception": _wrong_exception,
    "wrong-name": _wrong_name,
}
