"""One-edit bugs: every place of a function where one token can go wrong, and how.

An edit replaces ``old`` by ``new`` at one place of one line; the source keeps its layout.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARE: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">")),
    ast.LtE: ("<=", ("<",)),
    ast.Gt: (">", (">=", "<")),
    ast.GtE: (">=", (">",)),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
_BINARY: dict[type[ast.operator], tuple[str, tuple[str, ...]]] = {
    ast.Add: ("+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("+",)),
    ast.Div: ("/", ("*",)),
    ast.FloorDiv: ("//", ("%",)),
    ast.Mod: ("%", ("//",)),
}
_CALLS = {
    "max": "min", "min": "max", "sum": "len", "append": "extend", "extend": "append",
    "upper": "lower", "lower": "upper", "startswith": "endswith", "split": "strip",
    "sorted": "list", "strip": "lstrip", "lstrip": "rstrip", "isupper": "islower",
    "isalnum": "isspace", "rsplit": "split", "values": "keys", "reversed": "list", "abs": "int",
}  # fmt: skip


@dataclass(frozen=True)
class Edit:
    """One edit of a source.

    Attributes:
        kind: ``operator``, ``constant``, ``name`` or ``call``.
        line: from 1.
        column: characters before it, from 0.
        old: the text it replaces.
        new: the text it puts there.
    """

    kind: str
    line: int
    column: int
    old: str
    new: str

    def apply(self, source: str) -> str:
        """Return the edited source. Raises ``ValueError`` when ``old`` is not at its place."""
        lines = source.splitlines(keepends=True)
        text = lines[self.line - 1]
        if not text.startswith(self.old, self.column):
            raise ValueError(f"line {self.line} does not hold {self.old!r} at {self.column}")
        lines[self.line - 1] = text[: self.column] + self.new + text[self.column + len(self.old) :]
        return "".join(lines)

    def inverse(self) -> "Edit":
        """Return the edit that takes this one back."""
        return Edit(self.kind, self.line, self.column, self.new, self.old)


def possible_edits(source: str) -> list[Edit]:
    """Return every one-token bug this file knows for a source of one function, in reading order."""
    tree = ast.parse(source)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    lines = source.splitlines()
    inside_text = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
    }
    negative = {
        id(n.operand)
        for n in ast.walk(tree)
        if isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub)
    }
    known = _local_names(function)
    edits: set[Edit] = set()
    for statement in function.body:
        for node in ast.walk(statement):
            if id(node) in inside_text:
                continue
            edits.update(_operators(node, lines))
            edits.update(_calls(node, lines))
            if id(node) not in negative:
                edits.update(_constants(node))
            edits.update(_names(node, known))
    return sorted(edits, key=lambda e: (e.line, e.column, e.old, e.new))


def _local_names(function: ast.FunctionDef) -> list[str]:
    names = {arg.arg for arg in function.args.args}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id != "_":
            names.add(node.id)
    return sorted(names)


def _between(left: ast.expr, right: ast.expr, lines: list[str], old: str) -> tuple[int, int] | None:
    """Return line and column of the operator between two operands of one line."""
    if left.end_lineno != right.lineno or left.end_col_offset is None:
        return None
    gap = lines[right.lineno - 1][left.end_col_offset : right.col_offset]
    found = re.fullmatch(rf"[ )]*({re.escape(old)})[ (]*", gap)
    return (right.lineno, left.end_col_offset + found.start(1)) if found else None


def _operators(node: ast.AST, lines: list[str]) -> Iterator[Edit]:
    places: list[tuple[ast.expr, ast.expr, str, tuple[str, ...]]] = []
    match node:
        case ast.Compare():
            operands = [node.left, *node.comparators]
            for left, op, right in zip(operands, node.ops, operands[1:], strict=False):
                places.append((left, right, *_COMPARE.get(type(op), ("", ()))))
        case ast.BoolOp():
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            places += [
                (a, b, old, (new,)) for a, b in zip(node.values, node.values[1:], strict=False)
            ]
        case ast.BinOp():
            places.append((node.left, node.right, *_BINARY.get(type(node.op), ("", ()))))
        case ast.AugAssign():
            old, news = _BINARY.get(type(node.op), ("", ()))
            places.append((node.target, node.value, old + "=", tuple(new + "=" for new in news)))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)):
            yield Edit("constant", node.lineno, node.col_offset, "-1", "1")
    for left, right, old, news in places:
        place = _between(left, right, lines, old)
        if place is not None:
            for new in news:
                yield Edit("operator", *place, old, new)


def _calls(node: ast.AST, lines: list[str]) -> Iterator[Edit]:
    match node:
        case ast.Call(func=ast.Name(id=name) as place) if name in _CALLS:
            yield Edit("call", place.lineno, place.col_offset, name, _CALLS[name])
        case ast.Call(func=ast.Attribute(attr=name) as place) if name in _CALLS:
            if place.end_lineno is not None and place.end_col_offset is not None:
                start = place.end_col_offset - len(name)
                if lines[place.end_lineno - 1].startswith(name, start):
                    yield Edit("call", place.end_lineno, start, name, _CALLS[name])


def _constants(node: ast.AST) -> Iterator[Edit]:
    if not isinstance(node, ast.Constant):
        return
    value = node.value
    if isinstance(value, bool):
        yield Edit("constant", node.lineno, node.col_offset, str(value), str(not value))
    elif isinstance(value, int):
        for wrong in {value + 1, value - 1, 0 if value == 1 else value + 1}:
            if wrong >= 0:
                yield Edit("constant", node.lineno, node.col_offset, str(value), str(wrong))


def _names(node: ast.AST, known: list[str]) -> Iterator[Edit]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in known:
        for other in known:
            if other != node.id:
                yield Edit("name", node.lineno, node.col_offset, node.id, other)


@dataclass(frozen=True)
class Fragment:
    """The shortest piece of a line that tells where an edit belongs, before and after it.

    Attributes:
        old: as the file has it.
        new: as it should be.
        line: number of its line, from 1, when the file holds ``old`` more than once; else None.
    """

    old: str
    new: str
    line: int | None

    def sed(self, file: str) -> str:
        """Return the ``sed`` command that makes the edit."""
        return f"sed -i '{self.line or ''}{_substitution(self.old, self.new)}' {file}"


def fragment(source: str, edit: Edit, file: str) -> Fragment | None:
    """Return the fragment whose ``sed`` is the shortest; None when none is safe.

    One that the file holds once goes before one that needs its line's number.
    """
    line = source.splitlines()[edit.line - 1]
    best: list[tuple[int, str, Fragment]] = []
    for start, end in _windows(line, edit):
        old = line[start:end]
        new = line[start : edit.column] + edit.new + line[edit.column + len(edit.old) : end]
        if "'" in old + new or not re.search(r"\w", old):
            continue
        unique = source.count(old) == 1
        if not unique and line.find(old) != start:
            continue
        found = Fragment(old, new, None if unique else edit.line)
        command = found.sed(file)
        cost = len(command) + 40 * (not unique) + 6 * command.count("\\")
        best.append((cost, command, found))
    return min(best, key=lambda entry: entry[:2])[2] if best else None


def sed_command(source: str, edit: Edit, file: str) -> str | None:
    """Return the shortest ``sed`` that makes an edit; None when none is safe."""
    found = fragment(source, edit, file)
    return None if found is None else found.sed(file)


def _windows(line: str, edit: Edit) -> Iterator[tuple[int, int]]:
    """Yield every run of whole tokens of a line that holds the edit."""
    end_of_edit = edit.column + len(edit.old)
    starts, ends = {edit.column}, {end_of_edit}
    try:
        for token in tokenize.generate_tokens(io.StringIO(line.strip()).readline):
            shift = len(line) - len(line.lstrip())
            starts.add(token.start[1] + shift)
            ends.add(token.end[1] + shift)
    except (tokenize.TokenError, IndentationError):
        pass
    for start in starts:
        for end in ends:
            if start <= edit.column and end_of_edit <= end <= len(line):
                yield start, end


def _substitution(old: str, new: str) -> str:
    mark = "|" if "/" in old + new and "|" not in old + new else "/"
    pattern = re.sub(rf"([\\.*\[\]^${mark}])", r"\\\1", old)
    replacement = re.sub(rf"([\\&{mark}])", r"\\\1", new)
    return f"s{mark}{pattern}{mark}{replacement}{mark}"
