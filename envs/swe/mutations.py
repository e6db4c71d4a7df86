"""Bugs made by rule in any Python source: what can go wrong in each function, in a fixed order.

Example:
    >>> source = b"def top(values):\\n    return max(values)\\n"
    >>> first, *_ = mutations(source)
    >>> first.kind, first.old, first.new, first.function
    ('missing-return', 'return max(values)', 'max(values)', 'top')
    >>> first.apply(source)
    b'def top(values):\\n    max(values)\\n'
"""

import ast
import hashlib
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from envs.swe.mutators import KINDS, Place

Function = ast.FunctionDef | ast.AsyncFunctionDef
_MOST_CHARS = 400  # of one change: what is longer is a rewrite, not a slip


@dataclass(frozen=True)
class Mutation:
    """One bug.

    Attributes:
        kind: one of ``mutators.KINDS``.
        at: offset of its first byte in the file.
        old: the right text there.
        new: the wrong one.
        function: qualified name of the function it is in.
        lines: first and last line of that function's body, from 1.
    """

    kind: str
    at: int
    old: str
    new: str
    function: str = ""
    lines: tuple[int, int] = (0, 0)

    def apply(self, source: bytes) -> bytes:
        """Return the source with the bug. Raises ``ValueError`` when ``old`` is not there."""
        old = self.old.encode()
        if not source.startswith(old, self.at):
            raise ValueError(f"byte {self.at} does not begin {self.old!r}")
        return source[: self.at] + self.new.encode() + source[self.at + len(old) :]

    def inverse(self) -> "Mutation":
        """Return what takes the bug back."""
        return replace(self, old=self.new, new=self.old)


def mutations(source: bytes) -> list[Mutation]:
    """Return every bug of the known kinds in the functions of a source, in reading order.

    What stands outside functions is left out; a source that cannot be read has none. Some are no
    Python, or the same program: ask ``differs`` of those that are used.
    """
    tree = _parse(source)
    if tree is None:
        return []
    found: dict[tuple[int, str, str], Mutation] = {}
    for function, name, attributes in functions(tree):
        body = (function.body[0].lineno, function.body[-1].end_lineno or 0)
        place = Place(source, _line_starts(source), _names(function), attributes)
        for node in _own_nodes(function):
            for kind, changes in KINDS.items():
                for start, end, new in changes(node, place):
                    old = source[start:end].decode("utf-8")
                    if max(len(old), len(new)) <= _MOST_CHARS and old != new:
                        bug = Mutation(kind, start, old, new, name, body)
                        found.setdefault((start, old, new), bug)
    return sorted(found.values(), key=lambda bug: (bug.at, bug.old, bug.new))


def differs(source: bytes, changed: bytes) -> bool:
    """True when a changed source is Python, and another program than the source."""
    before, after = _parse(source), _parse(changed)
    if before is None or after is None or ast.dump(before) == ast.dump(after):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(after, "changed", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def chosen_order(by_file: Mapping[str, list[Mutation]], seed: int) -> list[tuple[str, Mutation]]:
    """Return files' bugs in the order they are tried: the kinds in turn, by the seed within one."""
    waiting: dict[str, list[tuple[str, str, Mutation]]] = defaultdict(list)
    for path, bugs in by_file.items():
        for bug in bugs:
            text = f"{seed}:{path}:{bug.at}:{bug.old}:{bug.new}"
            waiting[bug.kind].append((hashlib.sha256(text.encode()).hexdigest(), path, bug))
    for kind in waiting:
        waiting[kind].sort(key=lambda entry: entry[0], reverse=True)
    ordered = []
    while waiting:
        for kind in sorted(waiting):
            _, path, bug = waiting[kind].pop()
            ordered.append((path, bug))
            if not waiting[kind]:
                del waiting[kind]
    return ordered


def functions(tree: ast.AST) -> Iterator[tuple[Function, str, tuple[str, ...]]]:
    """Yield each function with its qualified name and what its class reads of ``self``."""
    yield from _functions(tree, "", ())


def _functions(
    node: ast.AST, prefix: str, attributes: tuple[str, ...]
) -> Iterator[tuple[Function, str, tuple[str, ...]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.", _attributes(child))
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child, prefix + child.name, attributes
            yield from _functions(child, f"{prefix}{child.name}.", attributes)
        else:
            yield from _functions(child, prefix, attributes)


def _parse(source: bytes) -> ast.Module | None:
    try:
        source.decode("utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _line_starts(source: bytes) -> tuple[int, ...]:
    starts = [0]
    for line in source.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    return tuple(starts)


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function but not those of functions and classes inside it."""
    yield function
    waiting: list[ast.AST] = list(reversed(function.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.JoinedStr):
            continue
        yield node
        waiting += reversed(list(ast.iter_child_nodes(node)))


def _names(function: Function) -> tuple[str, ...]:
    arguments = function.args
    names = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return tuple(sorted(names - {"self", "cls", "_"}))


def _attributes(owner: ast.ClassDef) -> tuple[str, ...]:
    called = {id(node.func) for node in ast.walk(owner) if isinstance(node, ast.Call)}
    return tuple(
        sorted(
            {
                node.attr
                for node in ast.walk(owner)
                if isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
                and id(node) not in called
            }
        )
    )
